"""Every statement of the paper that can be checked, and whether it holds: as Parquet, Markdown and HTML."""

import html
import math
import re
from collections import Counter
from pathlib import Path

from koct.base.files import write_text
from koct.base.stamps import of_timed
from koct.errors import KoctError
from koct.report import table
from koct.report.claims import verdicts
from koct.report.measured import Study
from koct.report.product import Product
from koct.study import results
from koct.study.results import grouped

PRODUCT = Product(
    title="what the paper states, and what holds",
    about="twelve statements of the paper, an appendix with all others that can be checked, and whether they hold: "
    "[the reference](../results/reference/claims.md)",
    reads=("cells.parquet", "curves.parquet", "calibration.parquet", "crossings.parquet"),
    pictures=True,
    when="claimed",
    files=("claims.parquet", "claims.md", "claims.html"),
    caption="""\
Twelve statements of the paper, what this study computes, and whether they hold; then the others by section, the
settings, and what this study does not compute, with the command that does. Verdicts are computed from the Parquet files
and pictures of this study by one rule, which the page states. What follows: where a row does not hold, quote the
computed number, not the printed one.""",
)
TITLE = "What the paper states, and what this study finds"
INTRO = "Twelve statements of the paper first; below them the others, the settings, and the rule of the verdicts."
LACKING = (
    " Of {} this study lacks sweeps, in part or in whole: snakemake --config study=full and study=crossing have them."
)
HEADS = ("The paper", "Computed", "Verdict", "Why")
INTERVALS = (
    "Brackets are 90 % intervals by the jackknife over seeds: each seed of the sweep is left out in turn, with both "
    "networks, and everything is computed again from the cells. For a mean that is Student's interval; positive "
    "numbers are taken as logarithms. Those of crossings are in crossings.parquet, by the bootstrap over seeds and "
    "test images. Verdicts are about the value itself."
)
TEMPLATES = {".md": "claims.md", ".html": "claims.html"}


def write(paths, out, spec):
    """Check every claim, and write the table in the formats that the endings of `out` say."""
    for path in out:
        if Path(path).suffix not in (".parquet", *TEMPLATES):
            raise KoctError(f"{path}: the name of a table of claims must end in .parquet, .md or .html")
    tables = len(PRODUCT.reads)
    study = Study.read(*paths[:tables], pictures=paths[tables:])
    rows = [verdicts.row(claim, study) for claim in verdicts.claims()]
    stamp = of_timed(spec, *paths)
    for path in out:
        if path.endswith(".parquet"):
            results.write(rows, results.CLAIMS, path, study.names.origin, stamp)
        else:
            write_text(path, rendered(rows, TEMPLATES[Path(path).suffix]), stamp)
    for verdict, count in counts(rows).items():
        print(f"{verdict}: {count}", flush=True)


def counts(rows):
    """Return {verdict: how many rows have it}: first those of claims, then those of settings alone."""
    found = Counter(row["verdict"] for row in rows)
    return {verdict: found[verdict] for verdict in dict.fromkeys((*verdicts.VERDICTS, *found))}


def sections(rows):
    """Return [(title, [(heading, rows)])]: the twelve, the rest by place, settings, what the study does not compute."""
    shown = {row["id"]: {**row, "computed": " ".join(filter(None, (row["computed"], interval(row))))} for row in rows}
    missing = [row for row in shown.values() if row["verdict"] == verdicts.MISSING]
    decided = {name: row for name, row in shown.items() if row["verdict"] != verdicts.MISSING}
    settings = [decided.pop(entry["id"]) for entry in verdicts.DATA["settings"] if entry["id"] in decided]
    first = [(name, [decided.pop(id) for id in ids if id in decided]) for name, ids in verdicts.GROUPS.items()]
    rest = [{**row, "place": row["where"].partition(",")[0]} for row in sorted(decided.values(), key=_line)]
    by_place = [(place, group) for (place,), group in grouped(rest, "place").items()]
    found = {
        "Twelve claims": [(name, group) for name, group in first if group],
        "Appendix: the other claims, by section": by_place,
        "Settings, and what holds by definition": [("", settings)] if settings else [],
        "Not computed in this study": [("", missing)] if missing else [],
    }
    return [(name, places) for name, places in found.items() if places]


def _line(row):
    """Return the line of the paper that a row is about."""
    return int(re.search(r"lines? (\d+)", row["where"])[1])


def rendered(rows, template):
    """Return a page of rows of claims.parquet."""
    templates = table.templates(Path(__file__).parent)
    templates.filters |= {"escape": html.escape, "cell": lambda text: text.replace("|", "\\|").replace("<", "&lt;")}
    lacking = sum(row["verdict"] == verdicts.MISSING or verdicts.PARTLY in row["why"] for row in rows)
    return templates.get_template(template).render(
        title=TITLE,
        intro=INTRO + (LACKING.format(lacking) if lacking else ""),
        counted=", ".join(f"{verdict}: {count}" for verdict, count in counts(rows).items()) + ".",
        intervals=INTERVALS,
        heads=HEADS,
        counts=counts(rows),
        limits=[limit["means"] for limit in verdicts.DATA["limits"].values() if "means" in limit],
        rule=verdicts.DATA["rule"],
        sections=sections(rows),
    )


def interval(row):
    """Return the interval of a value in brackets, or nothing."""
    if row["value_low"] is None:
        return ""
    powers = 0.1 if "e-" in row["computed"] else 0.01  # as the value is written
    ends = (math.inf if row[key] is None else row[key] for key in ("value_low", "value_high"))
    return "[{}, {}]".format(*(verdicts.show(end, powers=powers) for end in ends))
