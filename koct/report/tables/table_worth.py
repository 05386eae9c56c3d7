"""What a training pair is worth: how many scans, or how many images, give a network the same error."""

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.markup import INDENT, count, power_of_ten
from koct.report.product import Product
from koct.report.table import BREAK, Span, Table, chosen, dagger
from koct.study import crossings
from koct.study.results import Images, grouped, trained

PRODUCT = Product(
    title="what a pair is worth",
    about="how many scans or images [one pair is worth](labels.md)",
    reads=("cells.parquet", "images.parquet"),
    when="kinds",
    takes=("kinds", "metrics"),
    caption="""\
**How many scans, or images, one training pair is worth**: a row for every network that learns from pairs and every N,
with its error. The other columns have the scans or images that a network needs for the same error, over N, with the
90 % interval by the bootstrap.

*Not decided* says that nothing follows from these curves. A > says that the largest N of the study is not enough.""",
)


def table(cells_path, images_path, kinds, metrics):
    rows, names = inputs.rows(cells_path, ("sweep", "arch", "N", "H"))
    kinds, tested, body = inputs.of_study(kinds), Images(images_path), []
    others = {arch: kind for of in kinds.values() for arch, kind in of.items() if "pairs" not in kind}
    compared = [row for row in trained(rows) if row["sweep"] in kinds]
    marks = {arch: dagger([row for row in compared if row["arch"] == arch]) for arch in others}
    for sweep, of in kinds.items():
        metric = CurveMetric(metrics[sweep])
        curves = grouped([row for row in compared if row["sweep"] == sweep], "arch")
        about = next(iter(curves.values()))[0]
        body += [BREAK, [Span(3 + len(others), "@{}l", f"{names.sweep(about)}, {metric.label}")]]
        for arch in (arch for arch in of if of[arch] == "pairs"):
            for (N,), cells in sorted(grouped(curves[arch,], "N").items()):
                found = {
                    other: crossings.crossing(curves[other,], cells, metric, tested) for other in others if other in of
                }
                first = {other: min(row["N"] for row in curves[other,]) for other in found}
                worth = [_worth(found[other], N, first[other]) if other in found else "--" for other in others]
                body.append(
                    [INDENT + names.arch(arch), count(N), power_of_ten(metric.mean(cells)) + dagger(cells), *worth]
                )
    return Table(
        caption="The mean test error of networks that learned from $N$ pairs, and how many scans or images another "
        "network needs for the same error, over $N$: what one pair is worth to it. Between the $N$ of the study, "
        r"errors are interpolated. In brackets, the $90\,\%$ interval by the bootstrap. Not decided: nothing follows "
        "from these curves." + chosen(names, compared),
        columns="lrr" + "r" * len(others),
        head=[
            ["", "pairs", "error", *(f"{kind} for\n{names.arch(arch)}{marks[arch]}" for arch, kind in others.items())]
        ],
        body=body[1:],
    )


def _worth(found, N, first):
    """Return what one of N pairs is worth, where a curve that begins at `first` has the same error as they have.

    `found` is a crossing: N, N_low and N_high where the curve has that error, None beyond its end, which is `upto`.
    """
    low, high = found["N_low"], found["N_high"]
    if low == first and high is None:
        return "not decided"
    middle = _share(found["N"], N, first, found["upto"])
    ends = [_share(end, N, first, found["upto"]) for end in (low, high)]
    alike = (low, high) == (None, None) or len({middle, *ends}) == 1  # one seed has no interval
    return middle if alike else f"{middle} [{', '.join(ends)}]"


def _share(samples, N, first, last):
    sign, samples = (r"$>$ ", last) if samples is None else (r"$\leq$ " if samples <= first else "", samples)
    value = samples / N
    return sign + (count(round(value)) if value >= 10 else f"{value:.2g}")
