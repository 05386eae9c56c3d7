"""A table as data, and its pages in LaTeX and HTML; and what tables say of networks that need no sample."""

import itertools
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from koct.base.files import write_text
from koct.errors import KoctError
from koct.report import markup

RULE = "rule"  # in place of a row: a line across
BREAK = "break"  # the same, where the next page may begin
LINES = 37  # of a page of the class article
FAR = 100  # times the largest N of a curve: what a forecast says beyond that is no number of samples
TEMPLATES = {".tex": "table.tex", ".html": "table.html"}
DAGGER = r"$^\dagger$"  # of a choice at an edge
DOUBLE_DAGGER = r"$^\ddagger$"  # of a training that was not finished
FLOOR = r"their mean test error stands for $\mathrm{floor}$"  # the end of a caption
KINDS = {"l": "", "r": "right", "c": "centre", "p": "wide"}  # alignment of a column: class in HTML
MEANS = {  # what needs no sample
    "untrained": "the known layers before any learning",
    "fbp": "filtered backprojection, or the problem's own inverse",
    "nnls": "non-negative least squares",
    "tv": "least squares with total variation",
    "deep-image-prior": "an untrained network, fitted to one scan at a time",
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
    caption : that of LaTeX
    columns : the alignment of every column: l, r, c, or p for a paragraph
    head, body : lists of rows; a row is a list of texts and `Span`s, which may be short, an `Underline`, `RULE` or
        `BREAK`. A column of which the body says nothing but -- is left out, and so is a break before all rows
    """

    caption: str
    columns: str
    head: list
    body: list

    def __post_init__(self):
        self.body = self.body[1:] if self.body[:1] == [BREAK] else self.body
        told = [_told(row, self.columns) for row in self.body if isinstance(row, list)]
        for column in reversed(range(len(self.columns))):
            if {"--"} <= {row[column] for row in told} <= {"--", ""}:
                self.head, self.body = ([_without(row, column) for row in rows] for rows in (self.head, self.body))
                self.columns = self.columns[:column] + self.columns[column + 1 :]

    def pages(self):
        """Return the body in parts that fit a page each: at breaks, and inside of what is longer than a page."""
        pages = [[]]
        for broken, block in itertools.groupby(self.body, lambda row: row == BREAK):
            block = [] if broken else list(block)
            while len(block) > LINES:
                pages, block = [*(pages if pages[-1] else []), block[:LINES], []], block[LINES:]
            if pages[-1] and len(pages[-1]) + len(block) > LINES:
                pages.append([])
            pages[-1] += [RULE, *block] if pages[-1] and block else block
        return pages


def _told(row, columns):
    """Return the texts of a row, by column; nothing for what stands in more than one."""
    spread = ([cell] if isinstance(cell, str) else [""] * width for cell, width, _ in _cells(row, columns))
    return list(itertools.chain(*spread))


def _without(row, column):
    """Return a row of the head or the body without a column."""
    if isinstance(row, Underline):
        parts = ((trim, first - (first > column + 1), last - (last > column)) for trim, first, last in row.parts)
        return Underline(tuple(part for part in parts if part[1] <= part[2]))
    if not isinstance(row, list):
        return row
    kept, place = [], 0
    for cell in row:
        width = cell.columns if isinstance(cell, Span) else 1
        if not place <= column < place + width:
            kept.append(cell)
        elif width > 1:
            kept.append(replace(cell, columns=width - 1))
        place += width
    return kept


def save(table, paths, stamp, name):
    """Write a table to every path, in the format of its ending; all or none are written. LaTeX refers to tab:`name`."""
    texts = {}
    for path in map(Path, paths):
        if path.suffix not in TEMPLATES:
            raise KoctError(f"{path}: the name of a table must end in {' or '.join(TEMPLATES)}")
        template = templates(Path(__file__).parent).get_template(TEMPLATES[path.suffix])
        texts[path] = template.render(table=table, name=name, title=path.stem.replace("_", " "))
    for path, text in texts.items():
        write_text(path, text, stamp)


@cache
def templates(folder):
    """Return the templates of a folder: `[[ ]]` and `<% %>` mark what is filled in, since LaTeX is full of braces."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    marks = ("<%", "%>", "[[", "]]", "<#", "#>")  # around blocks, what is filled in, and comments
    lines = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    made = Environment(*marks, **lines, undefined=StrictUndefined, loader=FileSystemLoader(folder))
    made.filters |= {"latex": markup.latex, "html": markup.html, "latex_line": latex_line, "html_rows": html_rows}
    return made


def latex_line(row, columns):
    """Return a line of LaTeX."""
    if row in (RULE, BREAK):
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
        if row in (RULE, BREAK):
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
        text = (
            rf" No training sample ($N = 0$, $p = 0$) is needed by {markup.listed(needless)}{where and f'; {where}'}."
        )
    if grouped := [sweep for sweep in names.sweeps if names.counted(sweep) == "groups"]:
        text += f" $N$ counts groups, not single samples, in {markup.listed(grouped)}."
    return text


def dagger(rows):
    """Return the marks of rows, of cells or curves: for a choice at an edge, and for a training not finished."""
    edged = [row for row in rows if row.get("edge") or row.get("edges")]
    unfinished = {row.get("gain") is not None for row in edged}
    return (DAGGER if False in unfinished else "") + (DOUBLE_DAGGER if True in unfinished else "")


def chosen(names, rows):
    """Return what a caption says of how strengths were chosen: the daggers, and labels that N does not count."""
    text, marks = "", dagger(rows)
    if DAGGER in marks:
        text += f" {DAGGER}: a strength that it took is the first or the last that was tried; the next may be better."
    if DOUBLE_DAGGER in marks:
        text += f" {DOUBLE_DAGGER}: a training was not finished; the last doubling of its steps still gained."
    labelled = names.uncounted(rows)
    return f"{text} {labelled}" if labelled else text


def needed(n, largest):
    """Return the planner's N, or never; far beyond the `largest` of the curve, only that. A text stays as it is."""
    if n is None or isinstance(n, str):
        return n or "never"
    return markup.count(n) if n <= FAR * largest else f"$>$ {markup.count(FAR * largest)}"
