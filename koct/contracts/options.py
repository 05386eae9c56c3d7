"""Options: what a config may set, declared once in the body of a class.

class Blur(Configured):
    width: float = option("standard deviation of the blur in pixels", above=0)
    edges: Literal["zero", "wrap"] = option("what lies beyond the image", default="zero")

Jobs import this module, which needs the standard library alone; `koct.config.validation` checks what people wrote.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, dataclass_transform

SCALARS = (int, float, str, bool)


class Option(NamedTuple):
    """What is declared of an option beside its name and its type.

    `minimum` and `maximum` are inclusive, `above` is not; for a list they hold for every item, and `items` is its
    least length. `words` stand for whole numbers, beyond the limits. `pairs` and `result` say whether another value
    gives other training pairs and other results at all. Specs leave out one that was declared `later` while it has its
    default: results from before it stand. A key of sweeps with `fit` is given to fits: `data.cell.keys`.
    """

    description: str
    default: Any = MISSING
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    items: int = 0
    words: Mapping[str, int] = MappingProxyType({})
    pairs: bool = True
    result: bool = True
    later: bool = False
    fit: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def told(self, value: Any) -> bool:
        """Return whether a spec has to tell this value."""
        return not (self.later and value == self.default)


def option(description: str, *, default: Any = MISSING, **limits: Any) -> Any:
    """Declare an option of a `Configured` class, as a field of a dataclass; see `Option` for the arguments."""
    return field(default=default, metadata={"option": Option(description, default, **limits)})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Configured:
    """A frozen dataclass with keyword arguments.

    A subclass may fix an option that it inherits by assigning a value; then it is no option any more.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        inherited = getattr(cls, "__dataclass_fields__", {})
        for name in (inherited.keys() & vars(cls).keys()) - cls.__annotations__.keys():
            cls.__annotations__[name] = ClassVar
        cls.__doc__ = cls.__doc__ or cls.__name__  # which dataclass() would make of a signature
        dataclass(frozen=True, kw_only=True)(cls)


def options(cls: type[Configured]) -> dict[str, Option]:
    """Return the options of a class by name."""
    declared = {each.name: each.metadata.get("option") for each in fields(cls)}  # type: ignore[arg-type]
    return {name: option for name, option in declared.items() if option is not None}


class Kind(NamedTuple):
    """The type of an option: a scalar, or a list of them, or None besides."""

    scalar: Any  # one of SCALARS, a Literal or a subclass of Configured
    listed: bool


def kind_of(hint: Any) -> Kind:
    """Return what a type hint says; a TypeError if no option can be of that type."""
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType] if union else [hint]
    listed = typing.get_origin(parts[0]) in (tuple, list)
    scalar = typing.get_args(parts[0])[0] if listed else parts[0]
    nested = isinstance(scalar, type) and issubclass(scalar, Configured)
    if len(parts) > 1 or not (scalar in SCALARS or nested or typing.get_origin(scalar) is Literal):
        raise TypeError(
            f"an option cannot be {hint!r}: use int, float, str, bool, Literal, a tuple of one, or None besides"
        )
    return Kind(scalar, listed)
