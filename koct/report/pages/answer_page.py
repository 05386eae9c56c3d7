"""The answer of a study in words, its configuration, and which files are its own: the first page of the report."""

import html
import json
import re
from collections import Counter
from pathlib import Path

import yaml

from koct.base.files import write_text
from koct.base.messages import counted
from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs, markup, overtakes, products
from koct.report.markup import count, listed, short
from koct.report.product import Product
from koct.report.table import FAR
from koct.study.results import grouped

PRODUCT = Product(
    title="the answer in words",
    about="the answer of this study in words, its configuration and its files",
    reads=("curves.parquet", "budget.parquet", "crossings.parquet"),
    pictures=True,
    takes=("study", "products", "sweeps"),
    files=("README.md", "report/answer.html"),
    caption="What reaches which target with how many samples, what needs none, and what is not decided.",
)
MOST = 12  # sweeps that have sentences of their own
REACHED, NEVER, UNDECIDED = "reached with a known number of samples", "probably out of reach", "not decided"
HOW = (
    "In brackets are 90 % intervals. *Probably out of reach*: fewer than half of the plausible curves get there. *Not "
    f"decided*: the interval has no upper end, or one above {FAR} times the largest N that was measured."
)
UNASKED = (
    "Nothing was asked: add `targets` to a sweep, errors to reach, or to its `archs` what needs no sample, such as fbp."
)
HERE = (
    "All of this folder is produced by `snakemake` and can be deleted, except for `reference` and `brought`. Pools, "
    "fits and cells are shared by all studies; tables, figures and pages of another study are moved to `previous`."
)


def write(paths, out, spec):
    tables = len(PRODUCT.reads)
    summary, sentences = answer(*paths[:tables])
    sweeps = json.loads(json.dumps(spec.get("sweeps", {})))  # plain dictionaries, which YAML can write
    settings = yaml.safe_dump(sweeps, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)
    pictures = [Path(path).with_suffix(".png").name for path in paths[tables:]]
    stamp, texts = Stamp(spec, made_from(*paths)), {}
    for path in out:
        if not path.endswith((".md", ".html")):
            raise KoctError(f"{path}: the name of the answer must end in .md or .html")
        form = _markdown if path.endswith(".md") else _html
        texts[path] = form(summary, sentences, settings, pictures[-1:], spec)
    for path, text in texts.items():
        write_text(path, text, stamp)


def answer(curves_path, budget_path, crossings_path):
    """Return (a sentence on all sweeps, [a few sentences on each]) of a study, as `koct.report.markup` has text."""
    curves, baselines, names = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    budget, _ = inputs.rows(budget_path, ("sweep", "arch", "target", "n", "n_low", "n_high"), empty=True)
    crossings, _ = inputs.rows(
        crossings_path, ("sweep", "arch", "versus", "metric", "N", "N_low", "N_high"), empty=True
    )
    largest = {key: max(row["N"] for row in rows) for key, rows in grouped(curves, "sweep", "arch").items()}
    for row in budget:
        row["state"] = _state(row, largest.get((row["sweep"], row["arch"]), 0))
    sweeps, beaten, sentences = grouped(curves, "sweep"), [], []
    for (sweep,), rows in sweeps.items():
        free = [row for row in baselines if row["sweep"] == sweep]
        asked = [row for row in budget if row["sweep"] == sweep]
        told, better = _against_the_best(rows, free, crossings, names)
        beaten += [better] if told else []
        texts = [*_targets(asked, free, rows, names), told]
        where = f"{names.sweep(rows[0])}, {CurveMetric(rows[0]['metric']).label}"
        sentences += [f"{where}. {text}"] if (text := " ".join(filter(None, texts))) else []
    more = len(sentences) - MOST
    left = [f"And {counted(more, 'sweep')} more: the tables have them."] if more > 0 else []
    return _summary(len(sweeps), beaten, budget), sentences[:MOST] + left


def _state(row, largest):
    """Return whether a target is reached, out of reach, or neither for certain."""
    if row["n"] is None:
        return NEVER
    return REACHED if row["n_high"] is not None and row["n_high"] <= FAR * largest else UNDECIDED


def _summary(sweeps, beaten, budget):
    """Return a sentence each on what needs no sample and on the targets; `beaten` says of sweeps who wins there."""
    text, states = "", Counter(row["state"] for row in budget)
    if beaten:
        lost = beaten.count(False)
        count = lost or len(beaten)
        where = "all sweeps" if count == sweeps else f"{count} of {counted(sweeps, 'sweep')}"
        who = "no network is" if lost else "a network becomes"
        text = f"In {where} {who} better than the best of what needs no sample. "
    if states:
        numbers = ", ".join(f"{state} {states[state]}" for state in (REACHED, NEVER, UNDECIDED))
        text += f"Of {counted(len(budget), 'target')}, one for each network: {numbers}."
    return text.strip() or UNASKED


def _targets(rows, free, curves, names):
    """Yield sentences on the targets of a sweep: the hardest that a network reaches, and those that are harder."""
    groups = sorted(grouped(rows, "target").items(), reverse=True)
    reached = [place for place, (_, group) in enumerate(groups) if any(row["state"] == REACHED for row in group)]
    first, last = (end(row["N"] for row in curves) for end in (min, max))
    for (target,), group in groups[max(reached, default=0) :]:
        parts, unit = [], f" {names.counted(curves[0]['sweep'])}"
        for row in sorted((row for row in group if row["state"] == REACHED), key=lambda row: row["n"]):
            answer = overtakes.since({"N": row["n"], "N_low": row["n_low"], "N_high": row["n_high"]}, first, unit=unit)
            beyond = " by extrapolation" if row["n"] > last else ""
            parts.append(f"{names.arch(row['arch'])} {'needs ' if unit else ''}{answer}{beyond}")
            unit = ""
        parts = [", ".join(parts)] if parts else []
        for state in (UNDECIDED, NEVER):
            if archs := [names.arch(row["arch"]) for row in group if row["state"] == state]:
                parts.append(f"{state} for {listed(archs)}")
        if none := [names.arch(row["arch"]) for row in free if row["error_mean"] <= target]:
            parts.append(f"{listed(none)} {'need' if len(none) > 1 else 'needs'} none")
        yield f"Target {short(target)}: {'; '.join(parts)}."


def _against_the_best(rows, free, crossings, names):
    """Return a sentence on who is better than the best of what needs no sample, and whether a network is."""
    if not free:
        return "", False
    best, upto = min(free, key=lambda row: row["error_mean"]), max(row["N"] for row in rows)
    key = {"sweep": best["sweep"], "versus": best["arch"], "metric": best["metric"]}
    better = {row["arch"]: row for row in crossings if key.items() <= row.items() and row["N"] is not None}
    name = f"{names.arch(best['arch'])}, which needs no sample"
    if not better:
        return f"No network is better than {name}, up to $N$ = {count(upto)}.", False
    first = min(row["N"] for row in rows)
    since = (f"{names.arch(arch)} from $N$ = {overtakes.since(row, first)}" for arch, row in better.items())
    return f"Better than {name}: {', '.join(since)} on.", True


def _markdown(summary, sentences, settings, pictures, spec):
    lines = [f"# The study {spec.get('study', '')}", "", markup.plain(summary), ""]
    lines += [f"- {markup.plain(text)}" for text in sentences] + ["", HOW, ""]
    lines += [f"![a test image, its reconstructions and their errors]({name})\n" for name in pictures]
    lines += ["## Files of this study", "", HERE, "", "| file | what it is |", "|---|---|"]
    lines += [f"| {', '.join(f'[{name}]({name})' for name in names)} | {about} |" for names, about in _files(spec)]
    return "\n".join([*lines, "", "## The configuration", "", "```yaml", f"{settings}```", ""])


def _files(spec):
    """Yield (files of this study, what they are) of every product that it has, without those of the report."""
    own = {path.removeprefix("results/") for path in spec.get("products", ())}
    for product in products.products().values():
        patterns = [re.escape(path.removeprefix("results/")).replace(r"\{sweep\}", ".+") for path in product.outputs]
        names = sorted(name for name in own if re.fullmatch("|".join(patterns), name) and "/" not in name)
        if names:
            yield names, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", product.about)


def _html(summary, sentences, settings, pictures, spec):
    items = "".join(f"<li>{markup.html(text)}</li>\n" for text in sentences)
    how = html.escape(HOW).replace("*", "")
    shown = f"<details><summary>The configuration</summary>\n<pre>{html.escape(settings)}</pre></details>"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return f"{head}\n<p>{markup.html(summary)}</p>\n<ul>\n{items}</ul>\n<p>{how}</p>\n{shown}\n"
