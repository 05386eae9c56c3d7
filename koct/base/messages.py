"""What sentences for people are made of."""

import difflib
from collections.abc import Iterable, Sequence


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that a wrong one is most like; None if it is like none."""
    return next(iter(difflib.get_close_matches(str(name), known, 1)), None)


def meant(name: object, known: Sequence[str], otherwise: str) -> str:
    """Return the question whether the nearest known name was meant; all that are known if there is none."""
    near = nearest(name, known)
    return f"{otherwise} {', '.join(known)}" if near is None else f"did you mean {near!r}?"


def counted(number: int, what: str) -> str:
    """Return a number and what it counts: 1 core, 1,024 cores."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
