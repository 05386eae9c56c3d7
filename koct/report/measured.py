"""What claims and tables are about: the curves of a study and their calibrations, and the same without one seed."""

import functools
import math

import numpy as np

from koct.base.stamps import again
from koct.bound.calibration import PAPER_PAIR, Calibration, calibrate
from koct.errors import KoctError
from koct.metrics import error_names
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.labels import Names
from koct.report.printed import PRINTED
from koct.study.results import grouped

LEVEL = 0.9  # of intervals over seeds


class NotComputedError(Exception):
    """A study lacks what a claim is about; the message says what."""


class Study:
    """The results that claims are about.

    Attributes
    ----------
    known, dense : the operator-aware and the fully connected network of the paper
    cells : {(sweep, arch): rows of cells.parquet}
    points : {(sweep, arch): {N: mean error}}
    fitted : {(sweep, arch): row of calibration.parquet}
    baselines : {(sweep, arch): rows of cells.parquet} of what needs no sample
    answers : {(sweep, arch, target): N that the forecast gives, None if out of reach}
    metrics : {sweep: the metric of its curves}
    """

    known, dense = PAPER_PAIR

    def __init__(self, cells, points, fitted, baselines, answers, metrics, names):
        self.cells, self.points, self.fitted, self.metrics = cells, points, fitted, metrics
        self.baselines, self.answers, self.names = baselines, answers, names
        self._without = {}

    @classmethod
    def read(cls, cells_path, curves_path, calibration_path, budget_path=None):
        """(the study in these files, their provenance); the last may be left out by those who do not ask for it."""
        sizes = ("H", "V", "B")
        columns = ("sweep", "arch", "N", "seed", "p", "device", *error_names())
        cells, baselines, origin = inputs.split(cells_path, columns, ("lam",))
        curves, *_ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"))
        fitted, _ = inputs.rows(calibration_path, ("sweep", "problem", "arch", "p", "floor", "sigma"), sizes)
        answers = []
        if budget_path:
            answers, _ = inputs.rows(budget_path, ("sweep", "arch", "target"), ("n",), empty=True)
        found = cls(
            grouped(cells, "sweep", "arch"),
            {
                key: {row["N"]: row["error_mean"] for row in sorted(rows, key=lambda row: row["N"])}
                for key, rows in grouped(curves, "sweep", "arch").items()
            },
            {(row["sweep"], row["arch"]): row for row in fitted},
            grouped(baselines, "sweep", "arch"),
            {(row["sweep"], row["arch"], row["target"]): row["n"] for row in answers},
            {row["sweep"]: CurveMetric(row["metric"]) for row in curves},
            Names(origin),
        )
        found._check(cells_path, curves_path, calibration_path)
        return found, origin

    def _check(self, cells_path, curves_path, calibration_path):
        """Refuse files of different studies."""
        sizes = {(*key, row["N"]) for key, rows in self.cells.items() for row in rows}
        points = {(*key, N) for key, curve in self.points.items() for N in curve}
        for found, path in ((sizes ^ points, curves_path), (self.points.keys() ^ self.fitted.keys(), calibration_path)):
            if found:
                what = " ".join(map(str, min(found)))
                raise KoctError(f"{path} and {cells_path} are not of one study: {what} is in one only; {again(path)}")

    def label(self, arch):
        return self.names.arch(arch)

    # What there is

    def rows(self, sweep, arch):
        """The cells of a curve."""
        if (sweep, arch) not in self.cells:
            there = any(sweep == other for other, _ in self.cells)
            raise NotComputedError(f"has no {self.label(arch)} cells of {sweep}" if there else f"has no sweep {sweep}")
        return self.cells[sweep, arch]

    def curve(self, sweep, arch):
        """(N, mean error) as arrays, N ascending."""
        self.rows(sweep, arch)
        N, error = (np.array(list(part), float) for part in zip(*self.points[sweep, arch].items(), strict=True))
        if len(N) < 2 or not (error > 0).all():
            raise NotComputedError(f"has no curve of {self.label(arch)} in {sweep} with two N and errors above zero")
        return N, error

    def error(self, sweep, arch, N):
        """The mean error at one N."""
        sizes, error = self.curve(sweep, arch)
        return float(error[self._place(sizes, N, sweep)])

    def relative(self, sweep, arch, column):
        """(N, mean over seeds of a metric) as arrays: not squared, as one sees it in an image."""
        N, _ = self.curve(sweep, arch)
        at = {size: rows for (size,), rows in grouped(self.rows(sweep, arch), "N").items()}
        means = np.array([np.mean([row[column] for row in at[size]]) for size in N])
        if not (means > 0).all():
            raise NotComputedError(f"has a {column} of zero in {sweep}")
        return N, means

    def at(self, sizes, values, N, sweep):
        return float(values[self._place(sizes, N, sweep)])

    def _place(self, sizes, N, sweep):
        """The index of N; `first` and `last` are those of the curve."""
        if N in ("first", "last"):
            return 0 if N == "first" else -1
        if N not in sizes:
            raise NotComputedError(f"has no N of {N:,} in {sweep}")
        return list(sizes).index(N)

    def calibration(self, sweep, arch):
        self.curve(sweep, arch)
        row = self.fitted[sweep, arch]
        if not (row["floor"] > 0 and row["sigma"] > 0):
            raise NotComputedError(f"has no falling curve of {self.label(arch)} in {sweep}")
        return Calibration(row["floor"], row["sigma"])

    def pair(self, sweep):
        """The calibrations of the known and the dense network."""
        return self.calibration(sweep, self.known), self.calibration(sweep, self.dense)

    def parameters(self, sweep, arch):
        self.rows(sweep, arch)
        return self.fitted[sweep, arch]["p"]

    def size(self, sweep, key):
        """H, V or B of a sweep."""
        self.rows(sweep, self.known)
        value = self.fitted[sweep, self.known][key]
        if not value:
            raise NotComputedError(f"has no {key} for {sweep}")
        return value

    def norms(self, sweep):
        """(‖K‖, ‖Aᵀ‖) of a sweep's geometry, computed."""
        size = {key: self.size(sweep, key) for key in ("H", "V", "B")}
        problem = self.fitted[sweep, self.known]["problem"]
        for point in PRINTED["operating_points"]:
            if point.items() >= size.items() and PRINTED["problems"][point["beam"]] == problem:
                return norms(**point)
        raise NotComputedError(f"has another geometry in {sweep} than the paper")

    # Over seeds

    def without(self, sweep, seed):
        """The study as it is without one seed of a sweep."""
        if (sweep, seed) not in self._without:
            cells, points, fitted = dict(self.cells), dict(self.points), dict(self.fitted)
            baselines = {
                key: [row for row in rows if key[0] != sweep or row["seed"] != seed or len(rows) == 1]
                for key, rows in self.baselines.items()
            }
            for key in (key for key in self.cells if key[0] == sweep):
                cells[key] = [row for row in self.cells[key] if row["seed"] != seed]
                sizes = sorted(grouped(cells[key], "N").items())
                points[key] = {N: self.metrics[sweep].mean(rows) for (N,), rows in sizes}
                if len(points[key]) > 1:
                    left = calibrate(list(points[key]), list(points[key].values()))
                    fitted[key] = {**fitted[key], "floor": left.floor, "sigma": left.sigma}
            study = Study(cells, points, fitted, baselines, self.answers, self.metrics, self.names)
            self._without[sweep, seed] = study
        return self._without[sweep, seed]

    def interval(self, statistic, sweeps):
        """The 90 % interval of `statistic(study)` by the jackknife over the seeds of some sweeps; (None, None) if none.

        Of logarithms where all values are positive; of a mean it is Student's, up to that.
        """
        from scipy.special import stdtrit

        value, variance, fewest = statistic(self), 0.0, math.inf
        replicates = [self._replicates(statistic, sweep) for sweep in sweeps]
        if not replicates or not all(np.isfinite([value, *values]).all() and len(values) > 1 for values in replicates):
            return None, None
        if not any(map(np.ptp, replicates)):  # no seed makes a difference
            return None, None
        positive = all(number > 0 for values in replicates for number in (value, *values))
        for values in replicates:
            numbers = np.log(values) if positive else np.array(values)
            variance += (len(numbers) - 1) * np.var(numbers)
            fewest = min(fewest, len(numbers))
        margin = float(stdtrit(fewest - 1, (1 + LEVEL) / 2) * math.sqrt(variance))
        if positive:
            return value * math.exp(-margin), value * math.exp(margin)
        return value - margin, value + margin

    def _replicates(self, statistic, sweep):
        seeds = {row["seed"] for (name, _), rows in self.cells.items() if name == sweep for row in rows}
        try:
            return [statistic(self.without(sweep, seed)) for seed in sorted(seeds)] if len(seeds) > 1 else []
        except NotComputedError:
            return []


@functools.cache
def norms(H, V, B, beam):
    """(‖K‖, ‖Aᵀ‖) of a geometry, computed once."""
    from koct.study import norms

    return norms.norms(H, V, B, beam)
