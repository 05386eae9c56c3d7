"""What every network of a benchmark needs: parameters, samples for each target, time to train and to reconstruct."""

import statistics

from koct.report import inputs
from koct.report.markup import INDENT, count, power_of_ten
from koct.report.product import Product
from koct.report.table import BREAK, Span, Table, chosen, dagger, defined, needed
from koct.study.results import fresh, grouped

PRODUCT = Product(
    title="what networks need",
    about="parameters, samples for the targets and time, [the benchmark](benchmark.md)",
    reads=("cells.parquet", "curves.parquet", "budget.parquet"),
    when="benchmark",
    timings=True,
    caption="""\
**What a network needs:** learned parameters, the samples that reach each target error, with a 90 % interval, the
time of a training and that of one image. What needs no sample comes first; 0 says that it reaches the target.""",
)

LEAST_TIME = 0.001  # seconds, or milliseconds, that are told


def table(cells_path, curves_path, budget_path):
    """Return a block per sweep: the targets, what needs no sample, and the networks."""
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"))
    cells, free, names = inputs.split(cells_path, ("sweep", "arch", "N", "p", "fit_seconds", "image_seconds"))
    endless = {(row["sweep"], row["arch"]): row for row in fresh(inputs.rows(curves_path, ())[0])}
    answers, _ = inputs.rows(budget_path, ("sweep", "arch", "target", "n", "n_low", "n_high"), empty=True)
    fits, answers = grouped([*cells, *free], "sweep", "arch", "N"), grouped(answers, "sweep")
    targets = {sweep: sorted({row["target"] for row in rows}, reverse=True) for (sweep,), rows in answers.items()}
    most = max(map(len, targets.values()), default=0)
    body = []

    def floor(row):
        """Return the cell of fresh samples, if any network of the table has them."""
        return [power_of_ten(row["error_mean"]) + dagger([row]) if row else ""] if endless else []

    for (sweep,), rows in grouped(curves, "sweep").items():
        own, unused = targets.get(sweep, []), [""] * (most - len(targets.get(sweep, [])))
        body += [BREAK, [Span(3, "@{}l", names.title(sweep)), *map(power_of_ten, own)]]
        for row in (row for row in baselines if row["sweep"] == sweep):
            met = ["$0$" if row["error_mean"] <= target else "never" for target in own]
            first = _first(names, [row], "$0$", row)
            body.append([*first, *met, *unused, *floor(None), *_times(fits[sweep, row["arch"], 0])])
        answered = {(row["arch"], row["target"]): row for row in answers.get((sweep,), [])}
        for (arch,), points in grouped(rows, "arch").items():
            last = max(points, key=lambda row: row["N"])
            same = fits[sweep, arch, last["N"]]
            samples = [_samples(answered.get((arch, target)), points) for target in own]
            first = _first(names, points, count(same[0]["p"], 99_999), last)
            body.append([*first, *samples, *unused, *floor(endless.get((sweep, arch))), *_times(same)])
    return Table(
        caption="What networks need: learned parameters $p$; the mean test error at the largest $N$; "
        + (
            r"the $N$ that reaches a target error, by the forecast, with its $90\,\%$ interval, never if it is out of "
            "reach; "
            if most
            else ""
        )
        + "the time of a training at the largest $N$, and of the reconstruction of one image, both medians over seeds."
        + (
            " Fresh: the error with samples that never repeat, below which no $N$ goes once training is finished."
            if endless
            else ""
        )
        + defined(names, baselines, "0: the target is reached" if most else "")
        + chosen(names, [*baselines, *curves, *endless.values()]),
        columns="lrr" + "r" * most + "r" * bool(endless) + "rr",
        head=[
            [
                "",
                "",
                "",
                *([Span(most, "c", "$N$ for an error of")] if most else []),
                *(["fresh"] if endless else []),
                "training",
                "image",
            ],
            ["Network", "$p$", "error", *[""] * most, *(["error"] if endless else []), "s", "ms"],
        ],
        body=body,
    )


def _first(names, points, parameters, shown):
    """Return the first cells of a network: its name, the number of its parameters and the error that is shown."""
    return [INDENT + names.arch(shown["arch"]) + dagger(points), parameters, power_of_ten(shown["error_mean"])]


def _samples(row, points):
    """Return the N that reaches a target and its interval; the smallest N of the curve if that is enough."""
    first = min(points, key=lambda point: point["N"])
    if row is None:
        return "--"
    if first["error_mean"] <= row["target"]:
        return rf"$\leq$ {count(first['N'])}"
    largest = max(point["N"] for point in points)
    low, high = (r"$\infty$" if row[key] is None else needed(row[key], largest) for key in ("n_low", "n_high"))
    n = needed(row["n"], largest)
    return n if row["n_low"] is None or row["n"] is None or n.startswith("$>$") else f"{n} [{low}, {high}]"


def _times(rows):
    """Return the median seconds of a fit and milliseconds of an image."""
    seconds = statistics.median(row["fit_seconds"] for row in rows)
    images = [row["image_seconds"] for row in rows if row["image_seconds"] is not None]
    return [_rounded(seconds), _rounded(1000 * statistics.median(images)) if images else "--"]


def _rounded(number):
    """Return a time with two digits."""
    if number < LEAST_TIME:
        return f"$<$ {LEAST_TIME:g}"
    return f"{number:.2g}" if number < 99.5 else f"{number:,.0f}"
