"""How accurate is the budget planner? Held-out points of real curves, and intervals on synthetic pilots.

.venv/bin/python benchmarks/budget.py results/cells.parquet [--first 4] [--figure docs/fig_coverage.png]
"""

import argparse

import numpy as np
import pyarrow.parquet as pq

from koct.bound.calibration import rate
from koct.forecast.budget import Forecast
from koct.forecast.runs import Pilot
from koct.metrics.curve_metric import CurveMetric

N = np.array([4, 8, 16, 32, 64, 128])
TRUE_N = 256  # twice the pilot's largest N; the target is the true error at this N
SEEDS, NOISE = 5, 0.2  # runs per N, and standard deviation of log error
TRUTHS = {
    "floor + σ log N / N": lambda N: 0.002 + 0.06 * rate(N),
    "floor + a N^(−b)": lambda N: 0.003 + 0.1 * N**-0.7,
    "a N^(−1/2)": lambda N: 0.1 * N**-0.5,
}


def out_of_sample(cells, first=None):
    """One row per held-out point, predicted from the smaller N: the two largest of a curve, or all behind `first`."""
    rows = []
    cells = [cell for cell in cells if cell["N"]]  # N = 0: what needs no sample
    for sweep, arch in sorted({(cell["sweep"], cell["arch"]) for cell in cells}):
        curve = [cell for cell in cells if (cell["sweep"], cell["arch"]) == (sweep, arch)]
        metric = CurveMetric("mse" if curve[0]["problem"] == "surrogate" else "rrmse_peak2")
        points = np.array([(cell["N"], metric.of(cell), cell["seed"]) for cell in curve])
        sizes = np.unique(points[:, 0])
        hidden = sizes[-2:] if first is None else sizes[first:]
        pilot = Pilot.from_points(*points[points[:, 0] < hidden[0]].T)
        forecasts = {"auto": Forecast(pilot), "paper": Forecast(pilot, law="paper")}
        for n in hidden:
            true = points[points[:, 0] == n, 1].mean()
            error, low, high = (values[0] for values in forecasts["auto"].predict([n]))
            rows.append(
                {
                    "sweep": sweep,
                    "arch": arch,
                    "N": int(n),
                    "law": forecasts["auto"].law_,
                    "true": true,
                    "forecast": error,
                    "off": error / true - 1,
                    "paper_off": forecasts["paper"].predict([n])[0][0] / true - 1,
                    "low": low,
                    "high": high,
                    "covered": bool(low <= true <= high),
                }
            )
    return rows


def summary(rows):
    """(median relative error of the planner, of the paper's rule, share of points inside their intervals)."""
    median = [float(np.median(np.abs([row[key] for row in rows]))) for key in ("off", "paper_off")]
    return *median, float(np.mean([row["covered"] for row in rows]))


def intervals(truth, draws):
    """Intervals of N for synthetic pilots drawn from a law, shape (draws, 2); inf for an open end."""
    curve = TRUTHS[truth]
    target = float(curve(np.array([float(TRUE_N)]))[0])
    ends = []
    for draw in range(draws):
        noise = np.random.default_rng(draw).standard_normal((SEEDS, len(N)))
        pilot = Pilot(N, curve(N.astype(float)) * np.exp(NOISE * noise - NOISE**2 / 2))
        answer = Forecast(pilot).required(target)
        ends.append([np.inf if end is None else end for end in (answer.n_low, answer.n_high)])
    return np.array(ends)


def coverage(ends):
    """Share of the intervals that contain the true N."""
    return float(np.mean((ends[:, 0] <= TRUE_N) & (ends[:, 1] >= TRUE_N)))


def draw(ends_of, path):
    """Draw the intervals of 60 pilots of each law and the true N."""
    from koct.report import drawing

    with drawing.styled():
        figure, axes = drawing.panels(1, len(ends_of), left=0.2, right=0.2, legend=0.05)
        for axis, (truth, ends) in zip(axes[0], ends_of.items(), strict=True):
            shown = ends[:60][np.argsort(ends[:60, 0])]
            top = 1e5
            for i, (low, high) in enumerate(shown):
                hit = low <= TRUE_N <= high
                axis.plot([min(low, top), min(high, top)], [i, i], color="#0b6e4f" if hit else "#c8553d", linewidth=1)
            axis.axvline(TRUE_N, color="0.2", linestyle=":", linewidth=1)
            axis.set_xscale("log")
            axis.set_xlim(50, top)
            axis.set_yticks([])
            axis.set_title(f"{truth}: {coverage(ends):.0%} of {len(ends)}".replace("%", " %"), fontsize=7.5)
            axis.set_xlabel("90 % interval of $N$")
        drawing.save(figure, [path])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", help="results/cells.parquet of a study")
    parser.add_argument("--first", type=int, help="how many N of a curve are seen; without it all but the last two")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--figure", help="draw the intervals of the synthetic pilots")
    arguments = parser.parse_args()

    rows = out_of_sample(pq.ParquetFile(arguments.cells).read().to_pylist(), arguments.first)
    print("sweep  arch    N  law    forecast/true - 1   the paper's rule   in the 90 % interval")
    for row in rows:
        print(
            f"{row['sweep']:<6} {row['arch']:<4} {row['N']:>4}  {row['law']:<6} {row['off']:>15.0%}"
            f" {row['paper_off']:>18.0%}   {'yes' if row['covered'] else 'no'}"
        )
    own, paper, covered = summary(rows)
    print(f"median error {own:.1%}, of the paper's rule {paper:.1%}; {covered:.0%} of the points in their intervals\n")

    ends_of = {truth: intervals(truth, arguments.draws) for truth in TRUTHS}
    for truth, ends in ends_of.items():
        print(f"{truth:<20} the 90 % interval covers the true N in {coverage(ends):.0%} of {len(ends)} pilots")
    if arguments.figure:
        draw(ends_of, arguments.figure)


if __name__ == "__main__":
    main()
