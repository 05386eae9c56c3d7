"""Text of tables: plain, with mathematics between dollars, written in LaTeX or HTML; and numbers in that notation."""

import html as entities
import re

from koct.base.messages import cut, printable
from koct.errors import KoctError

INDENT = "\u2003"  # an em space
SYMBOLS = {  # what tables use of LaTeX
    **{"cdot": "·", "sigma": "σ", "kappa": "κ", "lambda": "λ", "varepsilon": "ε", "infty": "∞", "leq": "≤", "geq": "≥"},
    **{"times": "×", "circ": "°", "top": "⊤", "dagger": "†", "ddagger": "‡", "log": "log", "|": "‖"},
    **{",": "\u202f", " ": " "},
    **{sign: sign for sign in "%_#"},
    "&": "&amp;",
}
ESCAPED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
ESCAPED |= {letter: f"\\{letter}" for letter in "_&%#{}$"}
COMMAND = re.compile(r"\\([a-zA-Z]+|.)|\^\^|%")  # also a code of a letter, and what hides the rest of a line
PIECE = re.compile(r"\\mathrm\{([^{}]*)\}|\\([a-zA-Z]+|.)|([a-zA-Z])|([-<>&])")
SCRIPT = re.compile(r"([_^])(?:\{([^{}]*)\}|(<i>.</i>|&[^;]+;|[^{}]))")


def latex(text):
    """Return text for LaTeX; what stands between dollars is left alone, but for commands that tables do not use."""
    parts = text.split("$") if text.count("$") % 2 == 0 else [text]
    for part in parts[1::2]:
        for found in COMMAND.finditer(part):
            if found[1] is None or found[1] not in {"mathrm", *SYMBOLS}:
                raise KoctError(
                    f"{cut(printable(text))!r} has {found[0]} between dollars, which no table takes; remove it"
                )
    for i in range(0, len(parts), 2):
        parts[i] = "".join(ESCAPED.get(letter, letter) for letter in parts[i])
        parts[i] = parts[i].replace("°", r"$^\circ$")  # not every TeX has the font of the letter
        parts[i] = parts[i].replace(INDENT, r"\quad ")
    return "$".join(parts)


def html(text):
    """Return text for HTML; a command without a symbol is an error, so that a table cannot lose one unnoticed."""
    parts = text.split("$")
    for i, part in enumerate(parts):
        parts[i] = _mathematics(part) if i % 2 else entities.escape(part).replace("--", "–").replace("\n", "<br>")
    return "".join(parts)


def plain(text):
    """Return text without any markup: `rRMSE²_peak`."""
    text = html(text).replace("<sup>2</sup>", "²").replace("<sub>", "_").replace("<sup>", "^")
    return entities.unescape(re.sub("<[^>]*>", "", text))


def _mathematics(text):
    text, changed = PIECE.sub(_piece, text), True
    while changed:  # from the inside out
        text, changed = SCRIPT.subn(_script, text)
    return re.sub("[{}]", "", text)


def _piece(match):
    upright, command, letter, sign = match.groups()
    if upright is not None:
        return entities.escape(upright.replace("\\", "")).replace("_", "&#95;")
    if command is not None and command not in SYMBOLS:
        raise KoctError(f"LaTeX \\{command} has no symbol in HTML; add it to koct/report/markup.py")
    return SYMBOLS[command] if command else f"<i>{letter}</i>" if letter else entities.escape(sign).replace("-", "−")


def _script(match):
    inside = match[2] if match[2] is not None else match[3]
    tag = "sub" if match[1] == "_" else "sup"
    return inside if inside == "°" else f"<{tag}>{inside}</{tag}>"


def listed(words):
    """Return words as a list in a sentence: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


# Numbers


def power_of_ten(value, decimals=2):
    """Return 2.48 \\cdot 10^{-3}: three digits, as the paper prints them, or another number of them."""
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return f"${mantissa} \\cdot 10^{{{int(exponent)}}}$" if float(mantissa) else "$0$"


def count(value, plain=999_999):
    """Return a whole number, written out up to `plain` and as a power of ten beyond."""
    return f"${value:,}$".replace(",", "{,}") if value <= plain else power_of_ten(value)


def short(value):
    """Return a target: as it is written in a config down to 0.0001, as a power of ten below."""
    return f"${value:g}$" if value >= 1e-4 else power_of_ten(value)
