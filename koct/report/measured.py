"""What claims and tables are about: the curves of a study and their calibrations, and the same without one seed."""

import functools
import itertools
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from koct.base.files import read_record
from koct.bound.calibration import Calibration, calibrate
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.labels import Names
from koct.report.printed import PAIR, PRINTED
from koct.study.results import grouped

LEVEL = 0.9  # of intervals over seeds


class NotComputedError(Exception):
    """A study lacks what a claim is about; the message says what."""


class Estimate(float):
    """A number with a 90 % interval of its own, which may have no ends."""

    low: float | None
    high: float | None

    def __new__(cls, number, low, high):
        made = super().__new__(cls, number)
        made.low, made.high = low, high
        return made


@dataclass
class Study:
    """The results that claims are about.

    Attributes
    ----------
    cells : {(sweep, arch): rows of cells.parquet}
    points : {(sweep, arch): {N: mean error}}
    fitted : {(sweep, arch): row of calibration.parquet}
    baselines : {(sweep, arch): rows of cells.parquet} of what needs no sample
    metrics : {sweep: the metric of its curves}
    crossings : {(sweep, arch, versus): row of crossings.parquet} by the metric of the sweep
    pictures : {sweep: the file with arrays of its reconstructions}
    """

    known, dense = PAIR  # the operator-aware and the fully connected network of the paper

    cells: dict
    points: dict
    fitted: dict
    baselines: dict
    metrics: dict
    names: Names
    crossings: dict = field(default_factory=dict)
    pictures: dict = field(default_factory=dict)
    _without: dict = field(default_factory=dict)

    @classmethod
    def read(cls, cells_path, curves_path, calibration_path, crossings_path=None, pictures=()):
        """Return the study in these files."""
        cells, baselines, names = inputs.split(cells_path, ("sweep", "arch", "N", "seed", "p"))
        curves, *_ = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean"))
        fitted, _ = inputs.rows(calibration_path, ("sweep", "problem", "arch", "p", "floor", "sigma", "H"))
        inputs.check_alike({cells_path: cells, curves_path: curves}, "sweep", "arch", "N")
        inputs.check_alike({curves_path: curves, calibration_path: fitted}, "sweep", "arch")
        metrics = {row["sweep"]: CurveMetric(row["metric"]) for row in curves}
        asked = ("sweep", "arch", "versus", "metric", "N", "N_low", "N_high")
        crossings, _ = inputs.rows(crossings_path, asked, empty=True) if crossings_path else ([], None)
        own = [row for row in crossings if row["sweep"] in metrics and row["metric"] == metrics[row["sweep"]].name]
        return cls(
            grouped(cells, "sweep", "arch"),
            inputs.means(curves),
            {(row["sweep"], row["arch"]): row for row in fitted},
            grouped(baselines, "sweep", "arch"),
            metrics,
            names,
            {(row["sweep"], row["arch"], row["versus"]): row for row in own},
            {Path(path).stem.removeprefix("fig_recons_"): path for path in pictures},
        )

    # What there is

    def rows(self, sweep, arch):
        """Return the cells of a curve."""
        if (sweep, arch) not in self.cells:
            there = any(sweep == other for other, _ in self.cells)
            raise NotComputedError(f"has no {f'{self.names.arch(arch)} cells of' if there else 'sweep'} {sweep}")
        return self.cells[sweep, arch]

    def curve(self, sweep, arch):
        """Return (N, mean error) as arrays, N ascending."""
        self.rows(sweep, arch)
        N, error = (np.array(list(part), float) for part in zip(*self.points[sweep, arch].items(), strict=True))
        if len(N) < 2 or not (error > 0).all():
            curve = f"curve of {self.names.arch(arch)} in {sweep}"
            raise NotComputedError(f"has no {curve} with two N and errors above zero")
        return N, error

    def relative(self, sweep, arch, column):
        """Return (N, mean over seeds of a metric) as arrays: not squared, as one sees it in an image."""
        N, _ = self.curve(sweep, arch)
        at = {size: rows for (size,), rows in grouped(self.rows(sweep, arch), "N").items()}
        if any(row.get(column) is None for rows in at.values() for row in rows):
            raise NotComputedError(f"has no {column} of {sweep}")
        means = np.array([np.mean([row[column] for row in at[size]]) for size in N])
        if not (means > 0).all():
            raise NotComputedError(f"has a {column} of zero in {sweep}")
        return N, means

    def at(self, sizes, values, N, sweep):
        """Return the value of a curve at one N; `first` and `last` are its ends."""
        if N in ("first", "last"):
            return float(values[0 if N == "first" else -1])
        if N not in sizes:
            raise NotComputedError(f"has no N of {N:,} in {sweep}")
        return float(values[list(sizes).index(N)])

    def calibration(self, sweep, arch):
        self.curve(sweep, arch)
        row = self.fitted[sweep, arch]
        if not (row["floor"] > 0 and row["sigma"] > 0):
            raise NotComputedError(f"has no falling curve of {self.names.arch(arch)} in {sweep}")
        return Calibration(row["floor"], row["sigma"])

    def pair(self, sweep):
        """Return the calibrations of the known and the dense network."""
        return self.calibration(sweep, self.known), self.calibration(sweep, self.dense)

    def crossing(self, sweep):
        """Return the N from which on the dense network is below the known one, infinite for never, as an `Estimate`."""
        self.rows(sweep, self.known), self.rows(sweep, self.dense)
        row = self.crossings.get((sweep, self.dense, self.known))
        if row is None:
            raise NotComputedError(f"has no comparison of the two networks in {sweep}")
        N, low, high = (math.inf if row[key] is None else row[key] for key in ("N", "N_low", "N_high"))
        return Estimate(N, *((None, None) if math.isinf(low) else (low, high)))

    def size(self, sweep, key):
        """Return H, V or B of a sweep."""
        self.rows(sweep, self.known)
        value = self.fitted[sweep, self.known][key]
        if not value:
            raise NotComputedError(f"has no {key} for {sweep}")
        return value

    def without_samples(self, sweep, arch):
        """Return the mean error of what needs no sample."""
        if (sweep, arch) not in self.baselines:
            raise NotComputedError(f"has no {self.names.arch(arch)} of {sweep}")
        return self.metrics[sweep].mean(self.baselines[sweep, arch])

    def norms(self, sweep):
        """Return (‖K‖, ‖Aᵀ‖) of a sweep's geometry, computed."""
        size = {key: self.size(sweep, key) for key in ("H", "V", "B")}
        problem = self.fitted[sweep, self.known]["problem"]
        for point in PRINTED["operating_points"]:
            if point.items() >= size.items() and PRINTED["problems"][point["beam"]] == problem:
                return norms(**point)
        raise NotComputedError(f"has another geometry in {sweep} than the paper")

    def arrays(self, sweep):
        """Return {name: test images (n, H, W) over the peak of the truth} of a sweep; empty if none are kept."""
        return read_record(self.pictures[sweep])[0] if sweep in self.pictures else {}

    def images(self, sweep, arch, N):
        """Return (truth, reconstructions) of the test images that are kept of a sweep, (n, H, W) each."""
        self.rows(sweep, arch)
        arrays = self.arrays(sweep)
        if (name := f"{arch} {N}") not in arrays:
            raise NotComputedError(f"has no arrays of the reconstructions of {sweep} at N = {N:,}")
        return arrays["truth"].astype(float), arrays[name].astype(float)

    # Over seeds

    def without(self, sweep, seed):
        """Return the study as it is without one seed of a sweep."""
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
            self._without[sweep, seed] = replace(
                self, cells=cells, points=points, fitted=fitted, baselines=baselines, _without={}
            )
        return self._without[sweep, seed]

    def interval(self, statistic, sweeps):
        """Return the 90 % interval of `statistic(study)` by the jackknife over the seeds of some sweeps, or two None.

        It is that of logarithms where all values are positive; of a mean it is Student's, up to that. An `Estimate` has
        its own.
        """
        from scipy.special import stdtrit

        value = statistic(self)
        if isinstance(value, Estimate):
            return value.low, value.high
        replicates = [self._replicates(statistic, sweep) for sweep in sweeps]
        numbers = np.array([value, *itertools.chain(*replicates)])
        if not (all(replicates) and np.isfinite(numbers).all() and any(map(np.ptp, replicates))):
            return None, None  # last: no seed makes a difference
        positive = (numbers > 0).all()
        variance = sum((len(values) - 1) * np.var(np.log(values) if positive else values) for values in replicates)
        margin = float(stdtrit(min(map(len, replicates)) - 1, (1 + LEVEL) / 2) * math.sqrt(variance))
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
    """Return (‖K‖, ‖Aᵀ‖) of a geometry, computed once."""
    from koct.study import norms

    return norms.norms(H, V, B, beam)
