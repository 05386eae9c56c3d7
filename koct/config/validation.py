"""What people wrote, checked by pydantic against declared options: every mistake at once, with its key and a fix."""

from __future__ import annotations

import re
import reprlib
import typing
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # that of Python 3.12, which pydantic needs

from koct.base.messages import meant
from koct.contracts.options import Configured, Option, kind_of, options

LARGEST = 2**63 - 1  # of whole numbers: costs, which are their products, remain numbers
Path = Sequence[str | int]
Class = Any  # a subclass of Configured: mypy takes its __hash__ for one of the class
C = TypeVar("C", bound=Configured)
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
shown = _SHORT.repr  # a value in one short line


def unique(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise PydanticCustomError("unique", "has a value twice; remove one")
    return values


@cache
def keys_of(cls: Class) -> dict[str, tuple[Any, Option]]:
    """Return the options of a class by name: the type of each, and what is declared of it."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: (hints[name], option) for name, option in options(cls).items()}


@cache
def adapter(cls: Class) -> TypeAdapter[Any]:
    """Return what makes an instance of a class out of a mapping."""
    return TypeAdapter(_mapping(cls))


def _mapping(cls: Class) -> Any:
    kinds = {}
    for name, (hint, option) in keys_of(cls).items():
        kind: Any = _kind(hint, option)
        kinds[name] = kind if option.required else NotRequired[kind]
    functional: Any = TypedDict  # which mypy knows with literal keys alone
    mapping = functional(cls.__name__, kinds)
    mapping.__pydantic_config__ = ConfigDict(extra="forbid")
    return Annotated[
        mapping,
        BeforeValidator(lambda value: {} if value is None else value),
        AfterValidator(lambda values: cls(**values)),
    ]


def _kind(hint: Any, option: Option) -> Any:
    """Return the type of an option with its limits, stricter than YAML: 8.0 is no whole number, and .nan no number."""
    if typing.get_origin(hint) is dict:  # of koct's own, in pydantic's words
        return Annotated[hint, Field(min_length=1)]
    scalar, is_list = kind_of(hint)
    limits: dict[str, Any] = {"ge": option.minimum, "gt": option.above, "le": option.maximum}
    if isinstance(scalar, type) and issubclass(scalar, Configured):
        kind: Any = _mapping(scalar)
    elif scalar is int:
        kind = Annotated[int, Field(strict=True, **{**limits, "le": LARGEST if limits["le"] is None else limits["le"]})]
        if words := option.words:
            known = WrapValidator(
                lambda value, read: words[value] if isinstance(value, str) and value in words else read(value)
            )
            kind = Annotated[kind, known]
    elif scalar is float:
        kind = Annotated[float, Field(strict=True, allow_inf_nan=False, **limits)]
    elif scalar is str:
        kind = Annotated[str, Field(strict=True)]
    else:
        kind = scalar  # a Literal; or bool, for which `--config KEY=false` gives text
    if is_list:
        kind = Annotated[tuple[kind, ...], Field(min_length=option.items), AfterValidator(unique)]
    return kind | None if option.default is None else kind


def check(cls: type[C], values: Any, path: Path, wrong: list[str]) -> C | None:
    """Return an instance with these values; None, and a sentence in `wrong` for every mistake, if there are any."""
    try:
        instance: C = adapter(typing.cast(Class, cls)).validate_python(values)
        return instance
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            short = mistake["type"] == "too_short" and len(mistake["input"]) >= mistake["ctx"]["min_length"]
            if not short:  # only because pydantic does not count wrong items
                wrong.append(_sentence(mistake, cls, path))
        return None


def _sentence(mistake: Any, cls: Class, path: Path) -> str:
    *place, last = mistake["loc"] or ("",)
    key = dotted([*path, *mistake["loc"]])
    if mistake["type"] == "missing":
        return f"{key} is missing; add it: {_below(cls, place)[last][1].description}"
    if mistake["type"] == "extra_forbidden":
        return unknown([*path, *mistake["loc"]], list(_below(cls, place)))
    if last == "[key]":
        return f"{dotted([*path, *place[:-1]])}: the name {shown(mistake['input'])} {_must(mistake)}; rename it"
    return f"{key} = {shown(mistake['input'])} {_must(mistake)}"


WORDS = {  # of pydantic, and of people
    r"^\w+ should": "must",
    " after validation, not \\d+$": "",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "valid integer": "whole number",
    "valid tuple": "list, like [1, 2]",
    "valid dictionary": "mapping of keys to values",
}


def _must(mistake: Any) -> str:
    """Return what a value must be."""
    text: str = mistake["msg"]
    for word, plain in WORDS.items():
        text = re.sub(word, plain, text)
    exponential = re.fullmatch(r"([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)", str(mistake["input"]))
    if mistake["type"] == "float_type" and exponential:
        whole, rest, sign, power = exponential.groups()
        text += f" (YAML reads this as text: write {whole}{rest or '.0'}e{sign or '+'}{power})"
    return text


def _below(cls: Class, place: Path) -> dict[str, tuple[Any, Option]]:
    """Return the options of the mapping at a place."""
    for name in place:
        cls = kind_of(keys_of(cls)[str(name)][0]).scalar
    return keys_of(cls)


def unknown(path: Path, known: Sequence[str]) -> str:
    """Return a sentence about a key that there is not, with the nearest one that there is."""
    return f"{dotted(path)} is not a key of the config; {meant(path[-1], known, 'known keys are')}"


def dotted(path: Path) -> str:
    """Return a path of keys and places as one writes it: sweeps.H8.N[1]."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the config"


# In words


def table(cls: Class, prefix: str = "") -> list[str]:
    """Return rows in Markdown: key, value, meaning."""
    rows = []
    for name, (hint, option) in keys_of(cls).items():
        value = list(option.default) if isinstance(option.default, tuple) else option.default
        default = "" if option.required or value in (None, []) else f" Default: `{value}`."
        meaning = option.description[:1].upper() + option.description[1:].removesuffix(".")
        rows.append(f"| `{prefix}{name}` | {_in_words(hint, option)} | {meaning}.{default} |")
        if isinstance(hint, type) and issubclass(hint, Configured):
            rows += table(hint, f"{prefix}{name}.")
    return rows


def _in_words(hint: Any, option: Option) -> str:
    if typing.get_origin(hint) is dict:
        return "mapping"
    scalar, is_list = kind_of(hint)
    names = {int: "integer", float: "number", str: "text", bool: "boolean"}
    limits = {"≥": option.minimum, ">": option.above, "≤": option.maximum}
    if typing.get_origin(scalar) is Literal:
        text = ", ".join(f"`{value}`" for value in typing.get_args(scalar))
    else:
        signs = [f"{sign} {limit}" for sign, limit in limits.items() if limit is not None]
        text = " ".join([names.get(scalar, "mapping"), *signs]) + "".join(f" or `{word}`" for word in option.words)
    return f"list of {text}" if is_list else text
