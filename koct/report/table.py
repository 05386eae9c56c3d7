"""A table as data, and its pages in LaTeX and HTML; and what tables say of networks that need no sample."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from koct.base.files import write_text
from koct.errors import KoctError
from koct.report import markup

RULE = "rule"  # in place of a row: a line across
TEMPLATES = {".tex": "table.tex", ".html": "table.html"}
FLOOR = r"their mean test error stands for $\mathrm{floor}$"  # the end of a caption
KINDS = {"l": "", "r": "right", "c": "centre", "p": "wide"}  # alignment of a column: class in HTML
MEANS = {  # what needs no sample
    "untrained": "the known layers before any learning",
    "fbp": "filtered backprojection, or the problem's own inverse",
    "nnls": "non-negative least squares",
    "tv": "least squares with total variation",
}


@dataclass(frozen=True)
class Span:
    """A cell over several columns; `align` is LaTeX, like c or @{}l."""

    columns: int
    align: str
    text: str


@dataclass(frozen=True)
class Underline:
    """In place of a row of the head, lines below some columns: (ends that are trimmed, first column, last column)."""

    parts: tuple[tuple[str, int, int], ...]


@dataclass
class Table:
    """A table: text as in `koct.report.markup`, where a line break stacks words.

    Attributes
    ----------
    caption, label : those of LaTeX
    columns : the alignment of every column: l, r, c, or p for a paragraph
    head, body : lists of rows; a row is a list of texts and `Span`s, which may be short, an `Underline`, or `RULE`
    """

    caption: str
    label: str
    columns: str
    head: list
    body: list


def save(table, paths, stamp):
    """Write a table to every path, in the format of its ending; all or none are written."""
    texts = {}
    for path in map(Path, paths):
        if path.suffix not in TEMPLATES:
            raise KoctError(f"{path}: the name of a table must end in {' or '.join(TEMPLATES)}")
        template = templates(Path(__file__).parent).get_template(TEMPLATES[path.suffix])
        texts[path] = template.render(table=table, title=path.stem.replace("_", " "))
    for path, text in texts.items():
        write_text(path, text, stamp)


@cache
def templates(folder):
    """Return the templates of a folder: `[[ ]]` and `<% %>` mark what is filled in, since LaTeX is full of braces."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="[[",
        variable_end_string="]]",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    made.filters |= {"latex": markup.latex, "html": markup.html, "latex_line": latex_line, "html_rows": html_rows}
    return made


def latex_line(row, columns):
    """Return a line of LaTeX."""
    if row == RULE:
        return r"\midrule"
    if isinstance(row, Underline):
        return " ".join(rf"\cmidrule({trim}){{{first}-{last}}}" for trim, first, last in row.parts)
    texts = [_latex_cell(cell, kind) for cell, _, kind in _cells(row, columns)]
    return " & ".join(texts) + (r" \tabularnewline" if "p" in columns else r" \\")  # \\ would end a line of a paragraph


def _latex_cell(cell, kind):
    if isinstance(cell, Span):
        return rf"\multicolumn{{{cell.columns}}}{{{cell.align}}}{{{markup.latex(cell.text)}}}"
    if "\n" in cell:
        return r"\shortstack[r]{" + markup.latex(cell).replace("\n", r"\\") + "}"
    return (r"\raggedright " if kind == "p" else "") + markup.latex(cell)


def html_rows(rows, columns):
    """Return [(whether a line is above, [(text, columns, class)])] of the rows for HTML."""
    lines, ruled = [], False
    for row in rows:
        if row == RULE:
            ruled = True
        elif not isinstance(row, Underline):
            cells = [
                (markup.html(getattr(cell, "text", cell)), width, KINDS[kind.replace("@{}", "")])
                for cell, width, kind in _cells(row, columns)
            ]
            lines.append((ruled, cells))
            ruled = False
    return lines


def _cells(row, columns):
    """Yield (cell, how many columns it takes, its alignment), up to the last column."""
    place = 0
    for cell in row:
        width, kind = (cell.columns, cell.align) if isinstance(cell, Span) else (1, columns[place])
        yield cell, width, kind
        place += width
    for kind in columns[place:]:
        yield "", 1, kind


# What needs no sample


def defined(names, baselines=(), where=""):
    """Return what a caption says of samples: what needs none, and `where` its errors are; and what N counts."""
    text, archs = "", dict.fromkeys(row["arch"] for row in baselines)
    if archs:
        needless = [names.arch(arch) + (f" ({MEANS[arch]})" if arch in MEANS else "") for arch in archs]
        text = rf" No training sample ($N = 0$, $p = 0$) is needed by {_listed(needless)}{where and f'; {where}'}."
    if grouped := [sweep for sweep in names.sweeps if names.counted(sweep) == "groups"]:
        text += f" $N$ counts groups, not single samples, in {_listed(grouped)}."
    return text


def _listed(words):
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def needed(answers, key):
    """Return the planner's N from {(sweep, arch, target): N}, or -- if it is out of reach or was not asked for."""
    return "--" if answers.get(key) is None else markup.count(answers[key])
