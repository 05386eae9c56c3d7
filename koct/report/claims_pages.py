"""The claims as a page in Markdown or HTML and as a table in LaTeX."""

import html
import math
import re
from pathlib import Path

from koct.base.files import write_text
from koct.report import words
from koct.report.labels import escaped
from koct.study.results import grouped

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
STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem; max-width: 76rem; }
h1 { font-size: 1.4rem; }
table { border-collapse: collapse; }
th, td { padding: .35rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8884; }
th[scope=rowgroup] { padding-top: 1.2rem; }
td:nth-child(4)::before, button::before { content: "●\\a0"; color: var(--mark); }
[data-verdict="holds"] { --mark: #0072b2; }
[data-verdict="holds in part"] { --mark: #e69f00; }
[data-verdict="does not hold"] { --mark: #d55e00; }
[data-verdict="not computed in this study"] { --mark: #888; }
td:nth-child(4) { font-weight: 600; min-width: 6.5rem; }
button { font: inherit; margin: 0 .4rem .4rem 0; padding: .2rem .7rem; border: 1px solid #8888; border-radius: 1rem;
         background: none; color: inherit; cursor: pointer; }
button[aria-pressed=true] { background: #8884; }
@media print { .verdicts { display: none; } body { font-size: 9px; } }
@media (max-width: 50rem) {
  thead { display: none; }
  td, th { display: block; border: 0; }
  td:nth-child(2)::before { content: "printed: "; }
  td:nth-child(3)::before { content: "computed: "; }
  tr:not([hidden]) { display: block; border-bottom: 1px solid #8884; }
}
"""
SCRIPT = """\
const buttons = [...document.querySelectorAll("button")];
for (const button of buttons) button.addEventListener("click", () => {
  const chosen = button.getAttribute("aria-pressed") === "true" ? null : button.dataset.verdict;
  for (const other of buttons) other.setAttribute("aria-pressed", String(other.dataset.verdict === chosen));
  for (const row of document.querySelectorAll("tr[data-verdict]"))
    row.hidden = chosen !== null && row.dataset.verdict !== chosen;
  for (const part of document.querySelectorAll("tbody"))
    part.hidden = part.querySelector("tr[data-verdict]:not([hidden])") === null;
});
"""
SUBSCRIPT = re.compile(r"([A-Za-zσ]+)_([A-Za-z0-9]+)")
POWER = re.compile(r"\b(\d+(?:\.\d+)?)e(-?\d+)\b")


def write(path, rows, verdicts, limits, stamp):
    """Rows of claims.parquet as a .md, .html or .tex file."""
    make = {".md": markdown, ".html": page, ".tex": latex}[Path(path).suffix]
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


def page(rows, verdicts, limits):
    """HTML; a click on a verdict shows its claims alone, and without scripts all of them are there."""
    total = dict(counts(rows, verdicts))
    buttons = [f'<button aria-pressed="false" data-verdict="{v}">{v}: {n}</button>' for v, n in total.items()]
    lines = ["<!doctype html>", '<html lang="en">', '<meta charset="utf-8">', f"<title>{TITLE}</title>"]
    lines += ['<meta name="viewport" content="width=device-width">', f"<style>\n{STYLE}</style>", f"<h1>{TITLE}</h1>"]
    lines += ['<p class="verdicts">', *buttons, "</p>", f"<p>{INTERVALS}</p>"]
    lines += ["<details><summary>What words mean here</summary><ul>"]
    lines += [*(f"<li>{html.escape(meaning)}</li>" for meaning in limits), "</ul></details>", "<table>"]
    lines.append("<thead><tr>" + "".join(f'<th scope="col">{head}</th>' for head in HEAD) + "</tr></thead>")
    for place, found in by_place(rows).items():
        lines += ["<tbody>", f'<tr><th colspan="{len(HEAD)}" scope="rowgroup">{html.escape(place)}</th></tr>']
        for row in found:
            computed = " ".join(filter(None, (row["computed"], interval(row))))
            cells = [row[key] for key in ("statement", "printed", "verdict", "why")]
            cells.insert(2, computed)
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            lines.append(f'<tr id="{row["id"]}" data-verdict="{row["verdict"]}">{cells}</tr>')
        lines.append("</tbody>")
    return "\n".join([*lines, "</table>", f"<script>\n{SCRIPT}</script>", "</html>"]) + "\n"


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
