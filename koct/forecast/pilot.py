"""Read a pilot study: a CSV or Parquet file with columns N and error and, optionally, seed, arch and group."""

import os
from os import PathLike
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from koct.base.messages import listed, printable
from koct.errors import KoctError
from koct.forecast import scores
from koct.forecast.columns import LARGEST_N, Columns, shown
from koct.forecast.runs import MAX_ERROR, MIN_ERROR, Pilot

LARGEST_FILE = 2**26  # bytes: far above any pilot
MOST_ARCHS = 64
ONLY_ARCH = "pilot"  # the name where there is no column arch
COSTS = ("seconds", "cost", "fit_seconds")  # columns with the cost of a run; the first of them counts
RATES = ("error", "error_rate")  # metrics that are taken for error rates if there is a column test_size

OTHER_FORMATS = {  # by the bytes that a file begins with
    b"PK\x03\x04": "is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV",
    b"\x1f\x8b": "is compressed (gzip); unpack it first",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
}


def read_pilots(
    path: str | PathLike[str],
    metric: str | None = None,
    sweep: str | None = None,
    higher: float | None = None,
    group: str | None = None,
    test_size: int | None = None,
) -> dict[str, Pilot]:
    """{arch: Pilot} of a file; the arguments are those of `PilotFile.pilots`."""
    return PilotFile(path).pilots(metric, sweep, higher, group, test_size)


class PilotFile:
    """A pilot study in a file; it is read once, so that it may be a pipe.

    Attributes
    ----------
    path : the file
    data : its bytes
    notes : what in it was not used, one sentence each
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path
        self.notes: list[str] = []
        try:
            with open(path, "rb") as file:
                self.data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            cells = os.path.join(path, "cells.parquet")
            instead = f"take {cells}" if os.path.exists(cells) else "give the path of a pilot file"
            raise KoctError(f"{path} cannot be read: {error.strerror}; {instead}") from None
        except ValueError:  # a NUL, or a letter that no file system has
            raise KoctError(f"{str(path)!r} is not the name of a file; give the path of a pilot file") from None
        if len(self.data) > LARGEST_FILE:
            self._fail(f"the file has over {LARGEST_FILE >> 20} MiB; a pilot needs one row per run and four columns")
        for start, problem in OTHER_FORMATS.items():
            if self.data.startswith(start):
                self._fail(f"the file {problem}")
        if not self.data.startswith(b"PAR1"):
            self.data = self.data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        if not self.data.strip():
            self._fail("the file is empty; it needs a header line and one row per run")

    @property
    def origin(self) -> dict[str, str]:
        """What koct wrote into the metadata of a Parquet file; nothing in another file."""
        if not self.data.startswith(b"PAR1"):
            return {}
        try:
            metadata = pq.ParquetFile(pa.BufferReader(self.data)).schema_arrow.metadata or {}
        except (pa.ArrowException, OSError, ValueError):
            return {}  # its reader says what is wrong
        origin = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
        return {key: value for key, value in origin.items() if key.startswith("koct.")}

    def sweeps(self) -> list[str | None]:
        """The values in the column sweep, in their order; None alone if there is no such column."""
        columns = Columns(self.path, self.data, ["sweep"])
        return list(dict.fromkeys(columns.texts("sweep"))) if "sweep" in columns.names else [None]

    def _fail(self, problem: str) -> NoReturn:
        raise KoctError(printable(f"{self.path}: {problem}"))

    def pilots(
        self,
        metric: str | None = None,
        sweep: str | None = None,
        higher: float | None = None,
        group: str | None = None,
        test_size: int | None = None,
    ) -> dict[str, Pilot]:
        """{arch: Pilot}.

        Parameters
        ----------
        metric : the column with the error; if there is no such column but its name ends in 2, it stands for the square
            of the column without the 2. If it is a score, such as an accuracy, the errors are those of
            `koct.forecast.scores`.
        sweep : take the rows with this value in the column sweep
        higher : the column is a score, where higher is better, and this is the best one
        group : the column with the groups; by default the column group, if there is one
        test_size : how many test samples an error rate was counted on; by default the smallest value in the column
            test_size, if there is one
        """
        score = scores.named(metric, higher)
        wanted = ["N", "p", "error", "score", "seed", "arch", "sweep", "test_size", group or "group"]
        columns = Columns(self.path, self.data, [*wanted, *((metric, metric[:-1]) if metric else ())])
        columns.keep_sweep(sweep)
        columns.drop_baselines()
        N = columns.counts("N")
        error = _errors(columns, metric, score)
        seed = columns.texts("seed") if "seed" in columns.names else None
        if group is not None:
            columns.require(group, "--group")
        groups = columns.texts(group or "group") if group or "group" in columns.names else None
        sizes = self._test_sizes(columns, metric, score, error, test_size)
        names, arch = np.unique(_archs(columns), return_inverse=True)
        if len(names) > MOST_ARCHS:
            problem = f"column arch has {len(names):,} different values, and at most {MOST_ARCHS} are compared"
            columns.fail(f"{problem}; keep some")
        if seed is not None:
            key = [arch, N, seed.astype(str), *([] if groups is None else [groups.astype(str)])]
            columns.check_unique(
                *key, name="seed", problem="repeats an earlier run at the same N; keep one of the rows"
            )
        pilots = {}
        for i, name in enumerate(names):
            rows = arch == i
            if len(np.unique(N[rows])) < 2:
                problem = f"column N has only the value {N[rows][0]} for arch {name}"
                columns.fail(f"{problem}; a pilot needs runs at two or more N")
            own_seed, own_group = (None if column is None else column[rows] for column in (seed, groups))
            own_size = None if sizes is None else int(sizes[rows].min())
            try:
                pilots[str(name)] = Pilot.from_points(N[rows], error[rows], own_seed, own_group, own_size)
            except KoctError as reason:
                columns.fail(str(reason))
        return pilots

    def costs(self, sweep: str | None = None) -> tuple[str, dict[str, NDArray[np.float64]]] | None:
        """(column, {arch: N and cost of every run, shape (2, n_runs)}); None if there is no column of costs."""
        columns = Columns(self.path, self.data, ["N", "p", "arch", "sweep", *COSTS])
        column = next((name for name in COSTS if name in columns.names), None)
        if column is None:
            return None
        columns.keep_sweep(sweep)
        columns.drop_baselines()
        N, cost, arch = columns.counts("N"), columns.numbers(column), _archs(columns)
        columns.refuse(cost <= 0, column, "is not above 0; correct it or remove the column")
        extreme = ~((cost >= MIN_ERROR) & (cost <= MAX_ERROR))
        columns.refuse(extreme, column, "is too small or too large to compute with; rescale the column")
        return column, {str(name): np.stack([N[arch == name], cost[arch == name]]) for name in np.unique(arch)}

    def _test_sizes(
        self,
        columns: Columns,
        metric: str | None,
        score: scores.Score | None,
        error: NDArray[np.float64],
        test_size: int | None,
    ) -> NDArray[np.float64] | None:
        """How many test samples the error rate of every row was counted on, shape (n_rows,); None if it is no rate."""
        name = score.name if score is not None else metric or "error"
        known = score is not None and scores.is_known(name)
        if test_size is not None:
            if not 1 <= test_size <= LARGEST_N:
                raise KoctError(f"--test-size {shown(test_size)} must be between 1 and {LARGEST_N:g}")
            if known and not scores.is_rate(name):
                raise KoctError(f"--test-size is for error rates and accuracies, and {name} is neither; omit it")
            sizes = np.full(len(error), float(test_size))
        elif "test_size" not in columns.names:
            return None
        elif not (name in RATES if score is None else scores.is_rate(name) or not known):
            why = "is not a rate" if known else "is not known to be a rate; if it is one, give --test-size"
            self.notes.append(printable(f"the column test_size is not used, since {name} {why}"))
            return None
        else:
            sizes = columns.numbers("test_size")
            bad = (sizes != np.round(sizes)) | (sizes < 1) | (sizes > LARGEST_N)
            columns.refuse(bad, "test_size", "is not a number of test samples; give an integer of at least 1")
        fix = "give rates between 0 and 1, or no test size"
        problem = f"has an error above 1, but a test size is for rates; {fix}"
        columns.refuse(error > 1, _metric(columns, metric, score)[0], problem)
        return sizes


def _archs(columns: Columns) -> NDArray[np.str_]:
    """The architecture of every row, shape (n_rows,)."""
    if "arch" in columns.names:
        return columns.texts("arch").astype(str)
    return np.full(len(columns.rows), ONLY_ARCH)


def _errors(columns: Columns, metric: str | None, score: scores.Score | None) -> NDArray[np.float64]:
    """The errors in the column of the metric, shape (n_rows,); of a score, those of its values."""
    name, power = _metric(columns, metric, score)
    columns.require(name, None if metric is None else "--metric")
    values = columns.numbers(name)
    with np.errstate(over="ignore", under="ignore"):
        error = values**power if score is None else score.error(values**power)
    if score is None:
        why = "is below zero, and no error is; correct it or, if a higher value is a better one, give --higher"
        columns.refuse(values < 0, name, why)
    else:
        best = f"{score.best:g}, the best {score.name}"
        columns.refuse(error < 0, name, f"is above {best}; say with --higher what the best is, like --higher 100")
        columns.refuse(values < score.lowest, name, f"is below {score.lowest:g}, and no {score.name} is; correct it")
    extreme = (error != 0) & ~((error >= MIN_ERROR) & (error <= MAX_ERROR))
    extreme |= (error == 0) & (values != 0) & (score is None)  # the square is too small for a number
    columns.refuse(extreme, name, "is too small or too large to compute with; rescale the column")
    return error


def _metric(columns: Columns, metric: str | None, score: scores.Score | None) -> tuple[str, int]:
    """(column, power) of the metric."""
    if metric is None:
        name = "error" if score is None else "score"
        if name not in columns.names:
            usual = [have for have in ("mse", "rrmse_peak", "rrmse_norm") if have in columns.names]
            offered = usual + [have for have in columns.names if scores.is_known(have)]
            offered += ["score"] if score is None and "score" in columns.names else []
            if offered:
                columns.fail(f"column {name} is missing; choose another with --metric: {listed(offered)}")
        return name, 1
    if metric in columns.names or not (metric.endswith("2") and metric[:-1] in columns.names):
        return metric, 1
    if scores.is_known(metric[:-1]):
        columns.fail(f"--metric {metric} is the square of a score, and no error; take --metric {metric[:-1]}")
    return metric[:-1], 2
