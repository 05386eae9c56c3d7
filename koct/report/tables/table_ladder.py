"""Networks between known and learned: what they learn, floor, sigma, N for every target, and where they are best."""

import itertools

from koct.report import inputs
from koct.report.markup import INDENT, count, power_of_ten, short
from koct.report.product import Product
from koct.report.table import BREAK, FLOOR, Span, Table, chosen, dagger, defined, needed
from koct.study.results import grouped

PRODUCT = Product(
    title="networks between known and learned",
    about="what each learns, and where it is [the best](ladder.md)",
    reads=("ladder.parquet", "curves.parquet", "calibration.parquet", "budget.parquet"),
    when="ladder",
    caption="""\
**Networks between known and learned:** how many numbers they learn, in which layers, what they need, and where
they are best. What needs no sample comes first, with its error for the floor.""",
)


def table(ladder_path, curves_path, calibration_path, budget_path):
    """Return a row per network and sweep; first what needs no sample, with its error for the floor."""
    rows, names, chains = inputs.ladder(ladder_path)
    fitted, _ = inputs.rows(calibration_path, ("sweep", "arch", "floor", "sigma"))
    answers, _ = inputs.rows(budget_path, ("sweep", "arch", "target", "n"), empty=True)
    sweeps = grouped(rows, "sweep")
    inputs.check_alike(
        {calibration_path: [row for row in fitted if (row["sweep"],) in sweeps], ladder_path: rows}, "sweep", "arch"
    )
    fitted = {(row["sweep"], row["arch"]): row for row in fitted}
    samples = {(row["sweep"], row["arch"], row["target"]): row["n"] for row in answers}
    curves, baselines, _ = inputs.split(curves_path, ("sweep", "arch", "N", "error_mean"))
    curves = [row for row in [*baselines, *curves] if (row["sweep"],) in sweeps]
    measured, baselines = grouped(curves, "sweep", "arch"), grouped(baselines, "sweep")
    wanted = {sweep: sorted({each[2] for each in samples if each[0] == sweep}, reverse=True) for (sweep,) in sweeps}
    most, body = max(map(len, wanted.values())), []
    for (sweep,), group in sweeps.items():
        targets, unused = wanted[sweep], [""] * (most - len(wanted[sweep]))
        heads = [f"$N_{{{short(target).strip('$')}}}$" for target in targets]
        body += [BREAK, [Span(5, "@{}l", names.sweep(group[0])), *heads]]
        for row in baselines.get((sweep,), []):
            met = ["$0$" if row["error_mean"] <= target else "never" for target in targets]
            start = [
                INDENT + names.arch(row["arch"]) + dagger([row]),
                "$0$",
                "none",
                power_of_ten(row["error_mean"]),
                "",
            ]
            body.append([*start, *met, *unused, ""])
        for (arch,), points in grouped(group, "arch").items():
            cells = [INDENT + names.arch(arch) + dagger(measured.get((sweep, arch), [])), count(points[0]["p"], 99_999)]
            cells += [_learned(chains.get(sweep, {}).get(arch))]
            cells += [power_of_ten(fitted[sweep, arch][key]) for key in ("floor", "sigma")]
            largest = max(row["N"] for row in points)
            cells += [needed(samples.get((sweep, arch, target), "--"), largest) for target in targets]
            body.append([*cells, *unused, _ranges(group, points)])
    return Table(
        caption=r"Networks between known and learned: how many numbers $p$ they learn, and in which layers; "
        r"$\mathrm{floor}$ and $\sigma$ of the calibrated bound; the $N$ that reaches a target mean error by the "
        r"forecast, never if it is out of reach, the smallest $N$ of the sweep if that is enough; and the $N$ of the "
        r"sweep at which the network has the smallest error."
        + defined(names, [row for key in sweeps for row in baselines.get(key, [])], FLOOR)
        + chosen(names, curves),
        columns="lrlrr" + "r" * most + "l",
        head=[["Network", "$p$", "Learned", r"$\mathrm{floor}$", r"$\sigma$", *[""] * most, "best at $N$"]],
        body=body,
    )


def _learned(chain):
    """Return the learned layers by name."""
    if not chain:
        return "--"
    return ", ".join(layer["name"].removeprefix("learned ") for layer in chain if layer["p"]) or "none"


def _ranges(group, points):
    """Return the N at which a network is best, neighbours of the sweep as from-to."""
    best = {row["N"] for row in points if row["best"]}
    stretches = itertools.groupby(sorted({row["N"] for row in group}), lambda N: N in best)
    ends = [(N[0], N[-1]) for won, stretch in stretches if won for N in [list(stretch)]]
    return ", ".join(count(low) if low == high else f"{count(low)}–{count(high)}" for low, high in ends)
