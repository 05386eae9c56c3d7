"""The claims as a page in Markdown and as a table in LaTeX."""

import math
import re

from koct.files import write_text
from koct.report import words
from koct.report.labels import escaped
from koct.results import grouped

TITLE = "What the paper states, and what this study finds"
HEAD = ("Claim", "Printed", "Computed", "Verdict", "Why")
INTERVALS = (
    "Brackets are 90 % intervals by the jackknife over seeds: each seed of the sweep is left out in turn, with both "
    "networks, and everything is computed again from the cells. For a mean that is Student's interval; positive "
    "numbers are taken as logarithms. Verdicts are about the value itself."
)
WIDTHS = (0.245, 0.105, 0.185, 0.075, 0.33)  # of the columns, in lines of the page
SYMBOLS = {  # in LaTeX
    "σ": r"\sigma",
    "κ": r"\kappa",
    "λ": r"\lambda",
    "‖": r"\|",
    "ᵀ": r"^\top",
    "²": "^2",
    "⁺": "^+",
    "ŷ": r"\hat{y}",
    "−": "-",
    "≈": r"\approx",
    "~": r"\sim",
    ">": ">",
    "<": "<",
    "|": "|",
}
SUBSCRIPT = re.compile(r"([A-Za-zσ]+)_([A-Za-z0-9]+)")
POWER = re.compile(r"\b(\d+(?:\.\d+)?)e(-?\d+)\b")


def write(path, rows, verdicts, limits, stamp):
    """Rows of claims.parquet as a .md or .tex file."""
    make = markdown if path.endswith(".md") else latex
    write_text(path, make(rows, verdicts, limits), stamp)


def counts(rows, verdicts):
    """[(verdict, how many claims have it)]."""
    return [(verdict, sum(row["verdict"] == verdict for row in rows)) for verdict in verdicts]


def by_place(rows):
    """{where in the paper: its rows}, in the order of the claims."""
    return {
        place: found for (place,), found in grouped([{**row, "place": _place(row)} for row in rows], "place").items()
    }


def _place(row):
    return row["where"].partition(" (also ")[0]


def interval(row):
    """The interval of a value in brackets, or nothing."""
    if row["value_low"] is None:
        return ""
    powers = 0.1 if "e-" in row["computed"] else 0.01  # as the value is written
    return "[{}, {}]".format(*(show(row[key], powers=powers) for key in ("value_low", "value_high")))


def show(number, digits=3, powers=0.01):
    """A number as a reader wants it: whole ones in full, those below `powers` with a power of ten."""
    if not math.isfinite(number):
        return "out of reach"
    if number == int(number) and abs(number) < words.PLAIN:
        return f"{int(number):,}"
    if abs(number) < powers:
        mantissa, power = f"{number:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(power)}"
    return f"{number:.{digits}g}" if abs(number) < 1000 else words.number(number)


def markdown(rows, verdicts, limits):
    lines = [f"# {TITLE}", "", "| verdict | claims |", "|---|---|"]
    lines += [f"| {verdict} | {count} |" for verdict, count in counts(rows, verdicts)]
    lines += ["", "Made by `koct claims` from the Parquet files beside this page.", "", INTERVALS, ""]
    lines += ["What words mean here:", "", *(f"- {meaning}" for meaning in limits)]
    for place, found in by_place(rows).items():
        lines += ["", f"## {place}", "", "| " + " | ".join(("Id", *HEAD)) + " |", "|---" * (len(HEAD) + 1) + "|"]
        for row in found:
            computed = " ".join(filter(None, (row["computed"], interval(row))))
            also = row["where"].removeprefix(place).strip()
            cells = [f"`{row['id']}`", " ".join(filter(None, (row["statement"], also)))]
            cells += [row["printed"], computed, f"**{row['verdict']}**", row["why"]]
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def latex(rows, verdicts, limits):
    total = ", ".join(f"{verdict}: {count}" for verdict, count in counts(rows, verdicts))
    columns = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}\linewidth}}" for width in WIDTHS)
    head = " & ".join(HEAD) + r" \\"
    lines = [
        r"% Made by koct; needs \usepackage{booktabs,longtable,array}.",
        r"\begingroup",
        r"\scriptsize",
        r"\setlength{\tabcolsep}{3pt}",
        r"\setlength{\LTcapwidth}{\linewidth}",
        rf"\begin{{longtable}}{{@{{}}{columns}@{{}}}}",
        rf"\caption{{{TITLE} ({total}). {tex(INTERVALS)}}}",
        r"\label{tab:claims} \\",
        *(r"\toprule", head, r"\midrule", r"\endfirsthead"),
        *(r"\toprule", head, r"\midrule", r"\endhead"),
        *(r"\bottomrule", r"\endfoot"),
    ]
    for i, (place, found) in enumerate(by_place(rows).items()):
        lines += [r"\addlinespace"] if i else []
        lines.append(rf"\multicolumn{{{len(HEAD)}}}{{@{{}}l}}{{\textbf{{{tex(place)}}}}} \\*")
        for row in found:
            computed = " ".join(filter(None, (row["computed"], interval(row))))
            cells = (row["statement"], row["printed"], computed, row["verdict"], row["why"])
            lines.append(" & ".join(map(tex, cells)) + r" \\ \addlinespace[2pt]")
    meanings = "; ".join(map(tex, limits))
    lines += [r"\end{longtable}", rf"\noindent What words mean here: {meanings}.", r"\par", r"\endgroup"]
    return "\n".join(lines) + "\n"


def tex(text):
    """Plain text with symbols, subscripts and powers of ten as LaTeX."""
    text = re.sub("“(.*?)”", r"``\1''", text)
    parts, end = [], 0
    for match in re.finditer(f"{SUBSCRIPT.pattern}|{POWER.pattern}", text):
        parts.append(_plain(text[end : match.start()]))
        name, below, mantissa, power = match.groups()
        if name:
            name = SYMBOLS.get(name) or (name if len(name) == 1 else rf"\mathrm{{{name}}}")
            parts.append(rf"${name}_{{\mathrm{{{below}}}}}$")
        else:
            parts.append(rf"${{{mantissa} \cdot 10^{{{power}}}}}$")
        end = match.end()
    return "".join([*parts, _plain(text[end:])])


def _plain(text):
    text = "".join(f"${SYMBOLS[letter]}$" if letter in SYMBOLS else escaped(letter) for letter in text)
    return re.sub(r"(\b[NHV]) = (?=\d)", r"\1~=~", text)  # no line ends there
