"""Write the tables of README and docs from results/reference and the code, between marks that name them.

python benchmarks/pages.py            # writes them
python benchmarks/pages.py --check    # says which are out of date, and fails if any is
"""

import argparse
import json
import math
import re
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import yaml

from koct.base import FRESH, stamps
from koct.report import markup, overtakes
from koct.report.claims.verdicts import GROUPS
from koct.report.products import products
from koct.report.tables import table_mismatch, table_printed
from koct.study import results
from koct.workflow.when import CONDITIONS

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "results/reference"
MARK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.S)
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
TWO_TRAININGS = ("benchmark", "benchmark-long")
NAMES = {
    "untrained": "known chain, untrained",
    "fbp": "FBP",
    "nnls": "non-negative least squares",
    "tv": "total variation",
    "ko": "KO",
    "fc": "FC",
}


@cache
def table(study, name):
    """Return a Parquet file of a reference."""
    return pd.read_parquet(REFERENCE / ("" if study == "full" else study) / f"{name}.parquet")


def errors(study, sweep):
    """Return {arch: {N: mean error}} of a sweep; what needs no sample has N = 0."""
    rows = table(study, "curves")
    rows = rows[rows["sweep"] == sweep]
    return {arch: dict(zip(of["N"], of["error_mean"], strict=True)) for arch, of in rows.groupby("arch", sort=False)}


def unfinished(study, sweep):
    """Return (network, N) of the cells with a training whose last doubling still gained."""
    rows = table(study, "curves").reindex(columns=["sweep", "arch", "N", "edges", "gain"])
    rows = rows[rows["sweep"].eq(sweep) & rows["edges"].gt(0) & rows["gain"].notna()]
    return set(zip(rows["arch"], rows["N"], strict=True))


def size(N):
    return "fresh" if N == FRESH else f"{N:,}"


def grid(study, sweep, scale=1e4):
    """Return the rows of a sweep: what needs no sample first, then the error of every network at every N.

    Fresh samples come last; a training that was not finished has a double dagger.
    """
    means, marked = errors(study, sweep), unfinished(study, sweep)
    sizes = sorted({N for curve in means.values() for N in curve if N}, key=lambda N: (N == FRESH, N))
    best = {N: min(curve[N] for curve in means.values() if N in curve) for N in sizes}
    yield "| | N = 0 | " + " | ".join(map(size, sizes)) + " |"
    yield "|---" * (len(sizes) + 2) + "|"
    for arch, curve in means.items():
        cells = [f"`{arch}`", digits(curve[0] * scale) if 0 in curve else ""]
        for N in sizes:
            mark = "<sup>‡</sup>" if (arch, N) in marked else ""
            cells.append(bold(digits(curve[N] * scale), curve[N] == best[N]) + mark if N in curve else "")
        yield f"| {' | '.join(cells)} |"


def gains():
    """The steps of every training that has a gain, and the gain of their last doubling in percent."""
    rows = table("benchmark-long", "cells").dropna(subset="gain")
    sizes = sorted(set(rows["N"]), key=lambda N: (N == FRESH, N))
    yield "| images | network | " + " | ".join(map(size, sizes)) + " |"
    yield "|---" * (len(sizes) + 2) + "|"
    for (sweep, arch), of in rows.groupby(["sweep", "arch"], sort=False):
        cells = []
        for N in sizes:
            same = of[of["N"] == N]
            ended = [f"{row.steps:,.0f}: {100 * row.gain:.1f}{'<sup>‡</sup>' * row.edge}" for row in same.itertuples()]
            cells.append("; ".join(ended).replace("-", "−"))
        yield f"| {'ellipses' if sweep == 'ellipses-long' else 'fan beam'} | `{arch}` | {' | '.join(cells)} |"


def trained_longer():
    """MSE as shares of total variation's, after ten to twenty seconds of training and after longer ones."""
    heads = ["16, short", "longer", "1,024, short", "longer", "4,096, short", "fresh, longer"]
    yield f"| images | network | {' | '.join(heads)} |"
    yield "|---" * 8 + "|"
    means = {study: table(study, "cells").groupby(["sweep", "arch", "N"])["mse"].mean() for study in TWO_TRAININGS}
    for images, *sweeps in (("ellipses", "ellipses50", "ellipses-long"), ("fan beam", "fanbeam-1e4", "fanbeam-long")):
        short, longer = (means[study][sweep] for study, sweep in zip(TWO_TRAININGS, sweeps, strict=True))
        marked = unfinished("benchmark-long", sweeps[1])
        for arch in ("unet", "ko-unet", "lpd", "unrolled"):
            cells = []
            for before, after in ((16, 16), (1024, 1024), (4096, FRESH)):
                cells.append(f"{short[arch, before] / short['tv', 0]:.2f}")
                mark = "<sup>‡</sup>" if (arch, after) in marked else ""
                cells.append(f"{longer[arch, after] / longer['tv', 0]:.2f}{mark}")
            yield f"| {images} | `{arch}` | {' | '.join(cells)} |"


def calibration():
    rows = table("full", "calibration").set_index(["sweep", "arch"])
    yield "| sweep | floor, KO | σ, KO | floor, FC | σ, FC |"
    yield "|---|---|---|---|---|"
    for sweep in CONFIG["studies"]["full"]:
        values = [f"{rows.loc[(sweep, arch), key]:.2e}" for arch in ("ko", "fc") for key in ("floor", "sigma")]
        yield f"| `{sweep}` | {' | '.join(values)} |"


def no_sample():
    """The errors of what needs no sample beside those of the two networks, in every sweep of `full`."""
    yield "| sweep | known chain, untrained | FBP | NNLS | TV | KO, fewest and most samples | FC |"
    yield "|---|---|---|---|---|---|---|"
    for sweep in CONFIG["studies"]["full"]:
        means = errors("full", sweep)
        cells = [power(means[arch][0]) for arch in ("untrained", "fbp", "nnls", "tv")]
        for arch in ("ko", "fc"):
            first, last = min(means[arch]), max(means[arch])
            cells.append(f"{power(means[arch][first])}, {power(means[arch][last])}")
        yield f"| `{sweep}` | {' | '.join(cells)} |"


def crossings(study, against=NAMES):
    """From which N on each network is better than those of `against`, by metrics that differ."""
    rows, _ = results.read(REFERENCE / study / "crossings.parquet")
    curves = table(study, "curves").query("N > 0").groupby(["sweep", "arch"])
    metrics, first = curves["metric"].first(), curves["N"].min()
    versus = [name for name in against if any(row["versus"] == name for row in rows)]
    yield "| sweep | network | " + " | ".join(f"below {NAMES[name]} from" for name in versus) + " |"
    yield "|---" * (len(versus) + 2) + "|"
    for key, answers in overtakes.by_metric(rows).items():
        for metric, asked in overtakes.lines(answers, metrics[key], versus):
            by = "" if metric == metrics[key] else f" by `{metric}`"
            cells = [since(row, first[key]) if row else "" for row in asked]
            yield f"| `{key[0]}` | `{key[1]}`{by} | {' | '.join(cells)} |"


def since(row, first):
    """N with its interval, or up to which N it is never reached."""
    return markup.html(overtakes.since(row, first, never=f"not up to {row['upto']:,}"))


def claims():
    """The twelve claims that come first, as the study `full` decides them."""
    rows = table("full", "claims").set_index("id")
    yield "| the paper | | why |"
    yield "|---|---|---|"
    for group, ids in GROUPS.items():
        yield f"| **{group}** | | |"
        for row in (rows.loc[name] for name in ids):
            said, why = (row[key].replace("|", "\\|") for key in ("statement", "why"))
            yield f"| {said} ({row['where'].partition(' (')[0]}) | {row['verdict']} | {why} |"


def layers():
    """Bounds from layer errors that were measured, beside measured errors: mean squares over pixels."""
    heads = ["network, p", "N", "measured", "known layers applied", "root mean squares", "Theorem 1"]
    heads += ["layer error", "by log N / N", "by 1 / N"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    rows = json.loads((ROOT / "benchmarks/layers.json").read_text(encoding="utf-8"))["rows"]
    for before, row in zip([{"arch": None}, *rows], rows, strict=False):
        cells = [f"`{row['arch']}`, {row['p']:,}", f"{row['N']:,}"]
        cells += [power(row[key]) for key in ("measured", "grouped")]
        cells += [power(row[key]) + " *" * (row[key] >= row["trivial"]) for key in ("sharp", "theorem")] + [
            power(row["layer"])
        ]
        rates = [[math.log(size) / size, 1 / size] for size in (before.get("N", 4), row["N"])]
        known = before["arch"] == row["arch"]
        cells += [power(before["layer"] * new / old) if known else "" for old, new in zip(*rates, strict=True)]
        yield f"| {' | '.join(cells)} |"


def files():
    """The tables, figures and pages of a study."""
    yield "| in `results/` | of studies with | what it is |"
    yield "|---|---|---|"
    for product in products().values():
        places = (path.removeprefix("results/").replace("{sweep}", "SWEEP") for path in product.outputs)
        names = ", ".join(f"`{place}`" for place in places if not place.startswith("report/"))
        yield f"| {names} | {CONDITIONS.get(product.when, '')} | {product.about} |"


def dose():
    """The errors of every condition, times 1,000."""
    sweeps = CONFIG["studies"]["dose"]
    archs = [arch for arch in errors("dose", sweeps[0])]
    free = [arch for arch in archs if 0 in errors("dose", sweeps[0])[arch]]
    trained = [arch for arch in archs if arch not in free]
    yield (
        "| conditions | "
        + " | ".join([*(f"`{arch}`" for arch in free), *(f"`{arch}`, N = 4, 64, 1,024" for arch in trained)])
        + " |"
    )
    yield "|---" * (1 + len(archs)) + "|"
    for sweep in sweeps:
        means, entry = errors("dose", sweep), CONFIG["sweeps"][sweep]
        cells = [
            "no noise"
            if sweep == "no-noise"
            else f"arc {entry['arc']}°"
            if entry.get("arc")
            else f"{entry['photons']:,.0f} photons"
        ]
        cells += [digits(means[arch][0] * 1e3) for arch in free]
        cells += [", ".join(digits(means[arch][N] * 1e3) for N in (4, 64, 1024)) for arch in trained]
        yield f"| {' | '.join(cells)} |"


def pairs():
    """The ratio of errors of every pair of learned networks of which one contains the other, at every N."""
    sweeps = json.loads((REFERENCE / "ladder/ladder.json").read_text(encoding="utf-8"))["sweeps"]
    learned = {name: [pair for pair in of["pairs"] if pair["contained"] != "untrained"] for name, of in sweeps.items()}
    sizes = sorted({point["N"] for found in learned.values() for pair in found for point in pair["N"]})
    yield "| sweep | container | contained | " + " | ".join(f"N = {N:,}" for N in sizes) + " |"
    yield "|---" * (len(sizes) + 3) + "|"
    for sweep, found in learned.items():
        for pair in found:
            points = {point["N"]: point for point in pair["N"]}
            cells = [ratio(points[N]) if N in points else "" for N in sizes]
            yield f"| `{sweep}` | `{pair['container']}` | `{pair['contained']}` | {' | '.join(cells)} |"


def mismatch():
    """From which difference on who learns more is better: the product's table, as Markdown."""
    path = REFERENCE / "mismatch/table_mismatch.tex"
    made = table_mismatch.table(path.with_name("curves.parquet"), stamps.read(path).spec["mismatch"])
    pairs, sizes = made.head[0][1:], made.head[-1][1:]
    heads = [f"{pairs[i // 2].text}, {markup.html(size)}" for i, size in enumerate(sizes)]
    yield f"| difference | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    for row in made.body:
        yield f"| {' | '.join(markup.html(cell) for cell in row)} |"


def printed():
    """Print's own experiment: the product's table, as Markdown."""
    made = table_printed.table(REFERENCE / "printed/cells.parquet")
    head, *body = (f"| {' | '.join(markup.html(cell) for cell in row)} |" for row in (*made.head, *made.body))
    yield from (head, "|---" * len(made.head[0]) + "|", *body)


def ratio(point):
    """Return the ratio of a pair, with a mark for its verdict."""
    mark = {"won": "**{}**", "lost": "{} (lost)", "undecided": "{}?"}[point["verdict"]]
    return mark.format(f"{point['ratio']:.2f}")


def digits(value):
    """Three of them: 9.90, 30.2, 349."""
    return f"{value:#.3g}".removesuffix(".") if value >= 1e-3 else f"{value:.1e}"


def power(value):
    """3.4e-3, and 7.6 above 0.1."""
    return f"{value:.2g}" if value > 0.1 else f"{value:.1e}".replace("e-0", "e-")


def bold(text, yes):
    return f"**{text}**" if yes else text


TABLES = {
    "files": files,
    "calibration": calibration,
    "no-sample": no_sample,
    "crossings": lambda: crossings("crossing"),
    "benchmark-crossings": lambda: crossings("benchmark-long", ["fbp", "tv"]),
    "dose": dose,
    "pairs": pairs,
    "layers": layers,
    "claims": claims,
    "ladder-128": lambda: grid("ladder", "H128-ladder"),
    "ladder-256": lambda: grid("ladder", "H256-ladder"),
    "ellipses50": lambda: grid("benchmark", "ellipses50"),
    "fanbeam-1e4": lambda: grid("benchmark", "fanbeam-1e4"),
    "ellipses-long": lambda: grid("benchmark-long", "ellipses-long"),
    "fanbeam-long": lambda: grid("benchmark-long", "fanbeam-long"),
    "gains": gains,
    "trained-longer": trained_longer,
    "mismatch": mismatch,
    "printed": printed,
    "labels-ellipses": lambda: grid("labels", "labels-ellipses"),
    "labels-fanbeam": lambda: grid("labels", "labels-fanbeam"),
    "mri": lambda: grid("modalities", "mri"),
    "deblur": lambda: grid("modalities", "deblur"),
}


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def written(text):
    """Return a page with all of its tables made anew."""
    return MARK.sub(lambda mark: mark[1] + "\n".join(TABLES[mark[2]]()) + "\n" + mark[3], text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check, old = parser.parse_args().check, []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = written(text)
        if new != text:
            old.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    if old:
        print(("out of date: " if check else "written: ") + ", ".join(old))
    sys.exit(bool(old) and check)


if __name__ == "__main__":
    main()
