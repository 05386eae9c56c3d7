"""Options: typed, described and checked. A class declares them once; schema, docs and error messages follow from that.

class Blur(Configured):
    width: float = option("standard deviation of the blur in pixels", above=0)
    edges: Literal["zero", "wrap"] = option("what lies beyond the image", default="zero")
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, dataclass_transform

REQUIRED: Any = object()  # the default of an option that has none


class Option(NamedTuple):
    """One option: what values it takes, what it means, and what depends on it.

    `minimum` and `maximum` are inclusive, `above` is not; for a list they hold for every item, and `items` is its
    least length. `pairs` and `result` say whether another value gives other training pairs and other results at all.
    """

    name: str
    kind: Any
    description: str
    default: Any = REQUIRED
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    items: int = 0
    pairs: bool = True
    result: bool = True

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


class _Declared:
    """What `option` leaves in a class body."""

    def __init__(self, **settings: Any):
        self.settings = settings


def option(
    description: str,
    *,
    default: Any = REQUIRED,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    items: int = 0,
    pairs: bool = True,
    result: bool = True,
) -> Any:
    """Declare an option of a `Configured` class; see `Option` for the arguments."""
    limits = {"minimum": minimum, "above": above, "maximum": maximum, "items": items}
    return _Declared(description=description, default=default, pairs=pairs, result=result, **limits)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Configured:
    """A class whose options come from config.yaml: immutable, with one keyword argument per option.

    A subclass may fix an option that it inherits by assigning a value; then it is no option any more.
    Like a frozen dataclass, but without code that is generated at every start: 1 ms per class, in every job.
    """

    _declared: ClassVar[dict[str, _Declared]] = {}
    _fixed: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Declared)}
        cls._fixed = (cls._fixed | (vars(cls).keys() & cls._declared.keys())) - own.keys()
        cls._declared = {name: value for name, value in {**cls._declared, **own}.items() if name not in cls._fixed}
        for name in own:
            delattr(cls, name)

    def __init__(self, **values: Any):
        for name, declared in self._declared.items():
            value = values.pop(name, declared.settings["default"])
            if value is REQUIRED:
                raise TypeError(f"{type(self).__name__} needs the option {name}")
            object.__setattr__(self, name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._declared)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._declared)})"

    @classmethod
    @cache
    def options(cls) -> dict[str, Option]:
        """The options by name."""
        kinds = typing.get_type_hints(cls)
        for name, kind in kinds.items():
            if name not in cls._declared.keys() | cls._fixed and typing.get_origin(kind) is not ClassVar:
                raise TypeError(f'the option {name} has no description: write {name} = option("...")')
        for name in cls._declared:
            if name not in kinds:
                raise TypeError(f"the option {name} has no type: write {name}: float = option(...)")
        return {name: Option(name, kinds[name], **declared.settings) for name, declared in cls._declared.items()}

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> typing.Self:
        """An instance from checked values as YAML gives them."""
        return cls(**{name: convert(cls.options()[name].kind, value) for name, value in values.items()})

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> typing.Self:
        """An instance from what `values` gave; an option that is not among them is None."""
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**{**dict.fromkeys(cls._declared), **given})

    def values(self) -> dict[str, Any]:
        """The options as JSON can hold them."""
        return {name: plain(getattr(self, name)) for name in self._declared}


def convert(kind: Any, value: Any) -> Any:
    """A checked value in the type of its option: 1 is 1.0 where a float is wanted, a list becomes a tuple."""
    kind = _not_none(kind)
    if value is None:
        return None
    if kind is float:
        return float(value)
    if _is_list(kind):
        return tuple(convert(_item(kind), item) for item in value)
    if _is_configured(kind):
        return kind.build(value)
    return value


def plain(value: Any) -> Any:
    """The reverse of `convert`."""
    if isinstance(value, Configured):
        return value.values()
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _not_none(kind: Any) -> Any:
    """T of `T | None`."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) in (tuple, list)


def _item(kind: Any) -> Any:
    return typing.get_args(kind)[0]


def _is_configured(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Configured)


# Checking


def check(options: Mapping[str, Option], values: Any, path: Sequence[str | int]) -> Iterator[str]:
    """A sentence for everything that is wrong with a mapping of options: the key, the value and the fix."""
    if not isinstance(values, Mapping):
        yield f"{dotted(path)} = {values!r} must be a mapping of keys to values"
        return
    for name in values:
        if name not in options:
            yield unknown([*path, name], list(options))
    for name, wanted in options.items():
        if name in values:
            yield from check_value(wanted, wanted.kind, values[name], [*path, name])
        elif wanted.required:
            yield f"{dotted([*path, name])} is missing; add it: {wanted.description}"


def check_value(wanted: Option, kind: Any, value: Any, path: Sequence[str | int]) -> Iterator[str]:
    """What is wrong with one value."""
    key, kind = dotted(path), _not_none(kind)
    if value is None and not wanted.required and wanted.default is None:
        return
    if _is_configured(kind):
        yield from check(kind.options(), value, path)
    elif _is_list(kind):
        if not isinstance(value, list | tuple):
            yield f"{key} = {value!r} must be a list, like [1, 2]"
            return
        if len(value) < wanted.items:
            yield f"{key} = {value!r} must have at least {wanted.items} value{'s' if wanted.items > 1 else ''}"
        if len({item if isinstance(item, Hashable) else repr(item) for item in value}) < len(value):
            yield f"{key} = {value!r} has a value twice; remove one"
        for i, item in enumerate(value):
            yield from check_value(wanted, _item(kind), item, [*path, i])
    elif typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            yield f"{key} = {value!r} must be one of {', '.join(map(str, typing.get_args(kind)))}"
    elif not _FITS[kind](value):
        hint = " (YAML reads 1e-6 as text: write 1.0e-6)" if kind is float and isinstance(value, str) else ""
        yield f"{key} = {value!r} must be {_KINDS[kind]}{hint}"
    elif wanted.minimum is not None and value < wanted.minimum:
        yield f"{key} = {value!r} must be at least {wanted.minimum}"
    elif wanted.above is not None and value <= wanted.above:
        yield f"{key} = {value!r} must be greater than {wanted.above}"
    elif wanted.maximum is not None and value > wanted.maximum:
        yield f"{key} = {value!r} must be at most {wanted.maximum}"


_KINDS = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false"}
_FITS = {  # stricter than YAML: 8.0 is not a whole number, and neither .nan nor .inf is a number
    int: lambda value: type(value) is int,
    float: lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
    str: lambda value: isinstance(value, str),
    bool: lambda value: type(value) is bool,
}


def supported(kind: Any) -> None:
    """Raise a TypeError for a type that no option can have."""
    parts = [part for part in typing.get_args(kind) if part is not type(None)]
    if (isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union) and len(parts) > 1:
        raise TypeError(f"an option cannot be {kind!r}: take one type, or one type and None")
    kind = _not_none(kind)
    if _is_list(kind):
        supported(_item(kind))
    elif not (_is_configured(kind) or typing.get_origin(kind) is Literal or kind in _FITS):
        raise TypeError(f"an option cannot be {kind!r}: use int, float, str, bool, Literal or a tuple of one of them")


def unknown(path: Sequence[str | int], known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(str(path[-1]), known, 1)
    fix = f"did you mean '{near[0]}'?" if near else f"known keys are {', '.join(known)}"
    return f"{dotted(path)} is not a key of the config; {fix}"


def dotted(path: Sequence[str | int]) -> str:
    """A path of keys and places as one writes it: sweeps.H8.N[1]."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the config"


# Schema and docs


def schema(options: Mapping[str, Option], closed: bool = True) -> dict[str, Any]:
    """JSON schema of a mapping of options; `closed` allows no other keys."""
    properties = {name: {**_or_null(o), "description": o.description} for name, o in options.items()}
    required = [name for name, o in options.items() if o.required]
    found = {"type": "object", "properties": properties, "required": required}
    return {**found, "additionalProperties": False} if closed else found


def _or_null(wanted: Option) -> dict[str, Any]:
    """An option whose default is None may be null."""
    found = _schema(wanted, wanted.kind)
    if wanted.default is None and "enum" in found:
        return {**found, "enum": [*found["enum"], None]}
    return {**found, "type": [found["type"], "null"]} if wanted.default is None else found


def _schema(wanted: Option, kind: Any) -> dict[str, Any]:
    kind = _not_none(kind)
    if _is_configured(kind):
        return schema(kind.options())
    if _is_list(kind):
        items = _schema(wanted, _item(kind))
        return {"type": "array", "minItems": wanted.items, "uniqueItems": True, "items": items}
    if typing.get_origin(kind) is Literal:
        return {"enum": list(typing.get_args(kind))}
    names = {int: "integer", float: "number", str: "string", bool: "boolean"}
    limits = {"minimum": wanted.minimum, "exclusiveMinimum": wanted.above, "maximum": wanted.maximum}
    return {"type": names[kind], **{name: limit for name, limit in limits.items() if limit is not None}}


def table(options: Mapping[str, Option], prefix: str = "") -> Iterator[str]:
    """Markdown rows: key, value, meaning."""
    for name, o in options.items():
        default = "" if o.required or o.default in (None, ()) else f" Default: `{plain(o.default)}`."
        yield f"| `{prefix}{name}` | {_in_words(o, o.kind)} | {_sentence(o.description)}{default} |"
        kind = _not_none(o.kind)
        if _is_configured(kind):
            yield from table(kind.options(), f"{prefix}{name}.")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _in_words(wanted: Option, kind: Any) -> str:
    kind = _not_none(kind)
    if _is_configured(kind):
        return "mapping"
    if _is_list(kind):
        return f"list of: {_in_words(wanted, _item(kind))}"
    if typing.get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(kind))
    limits = {"≥": wanted.minimum, ">": wanted.above, "≤": wanted.maximum}
    signs = [f"{sign} {limit}" for sign, limit in limits.items() if limit is not None]
    return " ".join([{int: "integer", float: "number", str: "text", bool: "true or false"}[kind], *signs])
