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


def text_of(error: BaseException) -> str:
    """Return the first line of what an exception says; nothing if its own code for that fails."""
    try:
        return str(error).strip().partition("\n")[0]
    except Exception:
        return ""


def counted(number: int, what: str) -> str:
    """Return a number and what it counts: 1 core, 1,024 cores."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    r"""Return text in one line: a line break as \n, and so on for all that a terminal would obey and not show."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def cut(text: str, most: int = 40) -> str:
    """Return the first letters of a text, and whether there are more."""
    return text if len(text) <= most else f"{text[:most]}…"


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them; of many, a few."""
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return ", ".join(map(cut, names[:12])) + more
