"""A table as data, and its pages in LaTeX and HTML; and what tables say of networks that need no sample."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from koct.base.files import write_text
from koct.errors import KoctError
from koct.report import markup
from koct.report.markup import power_of_ten

RULE = "rule"  # in place of a row: a line across
TEMPLATES = {".tex": "table.tex", ".html": "table.html"}
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


def check_formats(paths):
    """Fail early if a table cannot be written in the format of its file name."""
    for path in paths:
        if Path(path).suffix not in TEMPLATES:
            raise KoctError(f"{path}: the name of a table must end in {' or '.join(TEMPLATES)}")


def save(table, paths, stamp):
    """Write a table to every path; all or none are written."""
    texts = [rendered(table, Path(path)) for path in paths]
    for path, text in zip(paths, texts, strict=True):
        write_text(path, text, stamp)


def rendered(table, path):
    """Return the table in the format of a path's ending."""
    title = path.stem.replace("_", " ")
    return templates(Path(__file__).parent).get_template(TEMPLATES[path.suffix]).render(table=table, title=title)


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
    found, ruled = [], False
    for row in rows:
        if row == RULE:
            ruled = True
        elif not isinstance(row, Underline):
            cells = [
                (markup.html(getattr(cell, "text", cell)), width, KINDS[kind.replace("@{}", "")])
                for cell, width, kind in _cells(row, columns)
            ]
            found.append((ruled, cells))
            ruled = False
    return found


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


def stacked(names, baselines, starts, first, head, body):
    """Return (head, body, number of columns) of a table whose first rows are the errors of what needs no sample.

    `starts` are {sweep: first cells of its row}, `first` their heads; `head` and `body` are the rows of the others.
    """
    if not baselines:
        return [head], body, len(head)
    errors = {(row["sweep"], row["arch"]): power_of_ten(row["error_mean"]) for row in baselines}
    archs = list(dict.fromkeys(row["arch"] for row in baselines))
    above = [[*start, *(errors.get((sweep, arch), "--") for arch in archs)] for sweep, start in starts.items()]
    top = [*first, *map(names.arch, archs)]
    return [top], [*above, RULE, head, RULE, *body], max(len(head), len(top))


def defined(names, baselines, where=""):
    """Return the sentence of a caption that says what needs no sample, and `where` its errors are, if anything does."""
    archs = dict.fromkeys(row["arch"] for row in baselines)
    if not archs:
        return ""
    labels = [names.arch(arch) + (f" ({MEANS[arch]})" if arch in MEANS else "") for arch in archs]
    listed = " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
    return rf" No training sample ($N = 0$, $p = 0$) is needed by {listed}{where and f'; {where}'}."


def needed(answers, key):
    """Return the planner's N from {(sweep, arch, target): N}, or -- if it is out of reach or was not asked for."""
    return "--" if answers.get(key) is None else markup.count(answers[key])
