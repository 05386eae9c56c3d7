"""The LaTeX tables of koct as pages of HTML, for readers without LaTeX: the report, and anyone with a browser.

It knows the LaTeX that `koct.report.tables` and its neighbours write, and no more: an unknown command is an error, so
that a table cannot lose a symbol unnoticed.
"""

import html
import re
from pathlib import Path

from koct.base.files import write_text
from koct.base.stamps import Stamp, again, made_from
from koct.errors import KoctError

SYMBOLS = {
    "cdot": "·",
    "sigma": "σ",
    "kappa": "κ",
    "lambda": "λ",
    "varepsilon": "ε",
    "infty": "∞",
    "leq": "≤",
    "geq": "≥",
    "times": "×",
    "circ": "°",
    "top": "⊤",
    "log": "log",
    "quad": "\u2003",
    "|": "‖",
    ",": "\u202f",
    " ": " ",
    "%": "%",
    "_": "_",
    "&": "&",
    "#": "#",
}
ROW_END = re.compile(r"\s*(?:\\\\|\\tabularnewline)\s*$")
STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem; }
table { border-collapse: collapse; border-top: 2px solid; border-bottom: 2px solid; }
caption { text-align: left; max-width: 60rem; padding-bottom: .6rem; }
th, td { padding: .2rem .7rem; text-align: left; white-space: nowrap; font-weight: normal; }
.wide { white-space: normal; min-width: 18rem; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
.centre { text-align: center; }
thead tr:last-child > * { border-bottom: 1px solid; vertical-align: bottom; }
tr.rule > * { border-top: 1px solid; }
"""


def convert(paths, out, spec=None):
    """Write a page for each table; `out` are the pages, in the order of `paths`."""
    if len(paths) != len(out):
        raise KoctError(f"--out has {len(out)} pages for {len(paths)} tables; give as many")
    pages = [document(_read(path), path) for path in paths]
    stamp = Stamp(spec or {}, made_from(*paths))  # of the one job that makes them all
    for page, text in zip(out, pages, strict=True):
        write_text(page, text, stamp)


def _read(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise KoctError(f"{path} cannot be read; {again(path)}") from None


def document(latex, path="the table"):
    """A complete page with one table."""
    found = re.search(
        r"\\caption\{(?P<caption>[^\n]*)\}\n.*?\\begin\{tabular\}\{(?P<columns>[^\n]*)\}\n\\toprule\n(?P<head>.*?)\n\\midrule\n"
        r"(?P<body>.*)\n?\\bottomrule",
        latex,
        re.S,
    )
    if not found:
        raise KoctError(f"{path} is not a table that koct has made; {again(path)}")
    kinds = _kinds(found["columns"])
    title = Path(path).stem.replace("_", " ")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            f'<meta charset="utf-8"><title>{html.escape(title)}</title>',
            f"<style>\n{STYLE}</style>",
            f"<table>\n<caption>{inline(found['caption'])}</caption>",
            f"<thead>\n{_rows(found['head'], kinds, 'th')}\n</thead>",
            f"<tbody>\n{_rows(found['body'], kinds, 'td')}\n</tbody>",
            "</table>\n",
        ]
    )


def _kinds(columns):
    """The class of every column: {@{}lrp{0.4\\linewidth}@{}} has three."""
    plain = re.sub(r"@\{\}", "", columns)
    plain = re.sub(r"p\{[^}]*\}", "p", plain)
    return [{"l": "", "r": "right", "c": "centre", "p": "wide"}[letter] for letter in plain]


def _rows(lines, kinds, tag):
    rows, ruled = [], False
    for line in lines.split("\n"):
        if line.startswith((r"\midrule", r"\cmidrule")):
            ruled = line.startswith(r"\midrule")
        elif line.strip():
            cells = _cells(ROW_END.sub("", line), kinds, tag)
            rows.append(f"<tr{' class=rule' if ruled else ''}>{''.join(cells)}</tr>")
            ruled = False
    return "\n".join(rows)


def _cells(line, kinds, tag):
    column = 0
    for cell in re.split(r"(?<!\\)&", line):
        text, span, kind = cell.strip(), 1, kinds[column]
        if text.startswith(r"\multicolumn"):
            count, align, text = _arguments(text[len(r"\multicolumn") :], 3)
            span, kind = int(count), _kinds(align)[0]
        text = text.removeprefix(r"\raggedright").strip()
        column += span
        yield f"<{tag}{f' colspan={span}' if span > 1 else ''}{f' class={kind}' if kind else ''}>{inline(text)}</{tag}>"


def _arguments(text, count):
    """The contents of so many pairs of braces at the start of a text."""
    found = []
    for _ in range(count):
        inside, text = _group(text)
        found.append(inside)
    return found


def _group(text):
    """What the first pair of braces holds, and what follows it."""
    depth = 0
    for i, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if not depth:
            return text[1:i], text[i + 1 :]
    raise KoctError(f"the braces of {text[:40]!r} are not closed; make the table again")


def inline(latex):
    """Text with mathematics between dollars, as HTML."""
    parts = latex.split("$")
    return "".join(_translated(part, i % 2 == 1) for i, part in enumerate(parts))


def _translated(text, math):
    result = ""
    while text:
        letter = text[0]
        if letter == "\\":
            piece, text = _command(text[1:], math)
        elif letter == "{":
            inside, text = _group(text)
            piece = _translated(inside, math)
        elif math and letter in "_^":
            inside, text = _group(text[1:]) if text[1] == "{" else _next(text[1:])
            tag = "sub" if letter == "_" else "sup"
            piece = f"<{tag}>{_translated(inside, math)}</{tag}>" if inside != r"\circ" else "°"
        else:
            piece, text = _letter(text, math)
        result += piece
    return result


def _next(text):
    """One letter or command, and the rest."""
    found = re.match(r"\\[a-zA-Z]+|.", text)
    return found[0], text[found.end() :]


def _letter(text, math):
    if text.startswith("--") and not math:
        return "–", text[2:]
    letter, rest = text[0], text[1:]
    if math and letter.isalpha():
        return f"<i>{letter}</i>", rest
    return ("−" if math and letter == "-" else html.escape(letter)), rest


def _command(text, math):
    """What a command stands for, and the rest of the text; `text` is what follows the backslash."""
    name = re.match(r"[a-zA-Z]+|.", text)[0]
    rest = text[len(name) :]
    if name == "shortstack":
        inside, rest = _group(re.sub(r"^\[.\]", "", rest))
        return "<br>".join(_translated(line, math) for line in inside.split(r"\\")), rest
    if name == "mathrm":
        inside, rest = _group(rest)
        return _translated(inside, False), rest
    if name not in SYMBOLS:
        raise KoctError(f"LaTeX \\{name} has no translation to HTML; add it to koct/report/html_tables.py")
    return html.escape(SYMBOLS[name]), rest.lstrip(" ") if name.isalpha() and not math else rest
