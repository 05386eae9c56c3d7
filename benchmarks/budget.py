"""Intervals of the budget planner on synthetic pilots; benchmarks/curves.py has real curves.

.venv/bin/python benchmarks/budget.py [--figure docs/fig_coverage.png]
"""

import argparse

import numpy as np

from koct.bound.calibration import rate
from koct.forecast.budget import Forecast
from koct.forecast.runs import Pilot

N = np.array([4, 8, 16, 32, 64, 128])
TRUE_N = 256  # twice the pilot's largest N; the target is the true error at this N
SEEDS, NOISE = 5, 0.2  # runs per N, and standard deviation of log error
TRUTHS = {
    "floor + σ log N / N": lambda N: 0.002 + 0.06 * rate(N),
    "floor + a N^(−b)": lambda N: 0.003 + 0.1 * N**-0.7,
    "a N^(−1/2)": lambda N: 0.1 * N**-0.5,
}


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
        figure, axes = drawing.panels(1, len(ends_of), left=0.2, right=0.2, below=0.5)
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
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--figure", help="draw the intervals of the synthetic pilots")
    arguments = parser.parse_args()

    ends_of = {truth: intervals(truth, arguments.draws) for truth in TRUTHS}
    for truth, ends in ends_of.items():
        print(f"{truth:<20} the 90 % interval covers the true N in {coverage(ends):.0%} of {len(ends)} pilots")
    if arguments.figure:
        draw(ends_of, arguments.figure)


if __name__ == "__main__":
    main()
