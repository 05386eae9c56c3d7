"""Read a pilot study: a CSV or Parquet file with columns N and error and, optionally, seed, arch and group."""

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from koct.base.messages import cut, listed, nearest, printable
from koct.errors import KoctError
from koct.forecast import scores
from koct.forecast.runs import MAX_ERROR, MIN_ERROR, FloatArray, Pilot

LARGEST_FILE = 2**26  # bytes: far above any pilot
MOST_ARCHS = 64
LARGEST_N = 1e15  # integers are exact in float64 up to 9e15
ONLY_ARCH = "pilot"  # the name where there is no column arch
COSTS = ("seconds", "cost", "fit_seconds")  # columns with the cost of a run; the first of them counts
RATES = ("error", "error_rate")  # metrics that are taken for error rates if there is a column test_size

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(nan|inf(inity)?)\s*", re.A | re.I)
BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
REFUSED = (pa.types.is_nested, pa.types.is_temporal, *BINARY)  # types of columns in Parquet files
OTHER_FORMATS = {  # by the bytes that a file begins with
    b"PK\x03\x04": "is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV",
    b"\x1f\x8b": "is compressed (gzip); unpack it first",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
}


class Columns:
    """The columns of a file, each checked when it is requested.

    Parameters
    ----------
    path : the file, for messages
    data : its bytes
    wanted : the columns to read from a Parquet file; others may hold whatever they like
    """

    def __init__(self, path: str | PathLike[str], data: bytes, wanted: Sequence[str]) -> None:
        self.path, self.names = path, list[str]()
        self.values = self._parquet(data, wanted) if data.startswith(b"PAR1") else self._csv(data)
        count = max(map(len, self.values.values()), default=0)
        self.rows = np.arange(1, count + 1)
        if not count:
            self.fail("the file has a header but no rows; add one row per run")

    def fail(self, problem: str) -> NoReturn:
        _fail(self.path, problem)

    def refuse(self, bad: ArrayLike, column: str, problem: str) -> None:
        """Fail at the first row where `bad`, shape (n_rows,), is true, if there is one."""
        for row in np.flatnonzero(bad).tolist():
            self.fail(f"row {self.rows[row]}, column {column}: {shown(self.values[column][row])} {problem}")

    def _name(self, names: Sequence[str]) -> None:
        """Take the names of the columns, if each can be told from the others."""
        for name, count in Counter(names).items():
            if count > 1:
                self.fail(f"column {name or shown(name)} appears twice; keep one of them")
        self.names = list(names)

    def _parquet(self, data: bytes, wanted: Sequence[str]) -> Mapping[str, NDArray[np.object_]]:
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            self._name(file.schema_arrow.names)
            table = file.read(columns=[name for name in self.names if name in wanted], use_threads=False)
            table.validate(full=True)
            for field in table.schema:
                if any(is_one(field.type) for is_one in REFUSED):
                    self.fail(f"column {field.name} has type {field.type}; it must hold numbers or text")
            return {name: _objects(table[name].to_pylist()) for name in table.column_names}
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            self.fail(f"the file is not valid Parquet ({first[:200]}); write it again")

    def _csv(self, data: bytes) -> Mapping[str, NDArray[np.object_]]:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            self.fail(f"line {line} is not UTF-8 text; save the file as UTF-8")
        separator = max(",;\t", key=re.split(r"[\r\n]", text, maxsplit=1)[0].count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        rows: list[list[str]] = []
        try:
            self._name([name.strip() for name in next(reader)])
            for row in reader:
                if len(row) != len(self.names) and row:
                    text, more = separator.join(row), len(row) > len(self.names)
                    fix = "a cell is too many; remove it" if more else "a cell is missing; fill it in"
                    if more and separator == "," and re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
                        fix = "write decimals with a point, like 0.05, or remove the extra cell"
                    cells = f"Expected {len(self.names)} columns, got {len(row)}: {cut(text, 60)}"
                    self.fail(f"row {len(rows) + 1}: {cells}; {fix}")
                rows += [row] if row else []
        except csv.Error as error:
            where = f"row {len(rows) + 1}" if self.names else "the header"
            self.fail(f"{where} cannot be read ({error}); a header must name the columns, like N,error")
        return {name: _objects(values) for name, values in zip(self.names, zip(*rows, strict=True), strict=False)}

    def keep(self, sweep: str | None) -> None:
        """Keep the rows with this value in the column sweep; without one, there must be no choice.

        The rows of what needs no sample, which the results of a study have, are left out: N and p are 0 there.
        """
        keep = np.ones(len(self.rows), dtype=bool)
        if "sweep" in self.names:
            values = self.texts("sweep")
            known = sorted(set(values))
            if sweep is None and len(known) > 1:
                self.fail(f"column sweep has {len(known)} values; choose one with --sweep: {listed(known)}")
            if sweep is not None and sweep not in known:
                self.fail(f"column sweep has no value {sweep!r}; choose one of {listed(known)}")
            keep = values == (sweep or known[0])
        elif sweep is not None:
            self.fail(f"column sweep is missing, so --sweep {sweep} selects nothing; omit --sweep")
        if {"N", "p"} <= set(self.names):
            keep &= np.any([self.values[name].astype(str) != "0" for name in ("N", "p")], axis=0)
            if not np.any(keep):
                self.fail("every row has N = 0, so nothing was trained; a pilot needs runs at two or more N")
        self.values = {name: values[keep] for name, values in self.values.items()}
        self.rows = self.rows[keep]

    def require(self, name: str, option: str | None = None) -> None:
        """Fail if there is no such column; `option` is the one that names it."""
        if name in self.names:
            return
        small = {have.lower(): have for have in reversed(self.names)}
        hint = f"the columns are {listed(self.names)}"
        if near := nearest(name.lower(), small):
            hint = f"did you mean {option} {small[near]}?" if option else f"rename column {small[near]!r}?"
        elif len(self.names) == 1:
            hint = f"the header is {shown(self.names[0])}: separate its columns by commas"
        self.fail(f"column {name} is missing; {hint}")

    def numbers(self, name: str) -> FloatArray:
        """A column of finite numbers, shape (n_rows,)."""
        self.require(name)
        column = self.values[name]
        wrong = [isinstance(v, bool) or (isinstance(v, str) and not NUMBER.fullmatch(v)) for v in column]
        if any(wrong):
            comma = re.fullmatch(r"\s*[+-]?[\d.]*\d,\d+([eE][+-]?\d+)?\s*", str(column[wrong.index(True)]))
            fix = "has a comma; write decimals with a point, like 0.05, and a thousand as 1000"
            self.refuse(wrong, name, fix if comma else "is not a plain number; write it like 1000 or 1e-3")
        values = np.array([np.nan if value is None else value for value in column], dtype=float)
        self.refuse(~np.isfinite(values), name, "is not a finite number; correct it or remove the row")
        return values

    def counts(self, name: str) -> NDArray[np.int64]:
        """A column of sample sizes, shape (n_rows,)."""
        values = self.numbers(name)
        self.refuse(values != np.round(values), name, "is not an integer; give the number of samples")
        self.refuse(values < 2, name, "is below 2, but the laws need log N > 0; remove the row")
        self.refuse(values > LARGEST_N, name, f"is above {LARGEST_N:g}, the largest N allowed; remove the row")
        return values.astype(np.int64)

    def texts(self, name: str) -> NDArray[np.object_]:
        """A column of names, none of them empty; shape (n_rows,)."""
        self.require(name)
        values = _objects(["" if value is None else str(value).strip() for value in self.values[name]])
        self.refuse(values == "", name, "is empty; fill it in or remove the row")
        return values


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def shown(value: object) -> str:
    return repr(cut(value)) if isinstance(value, str) else cut(str(value))


def _fail(path: str | PathLike[str], problem: str) -> NoReturn:
    raise KoctError(printable(f"{path}: {problem}"))


def read_pilots(path: str | PathLike[str], metric: str | None = None, *reading: Any, **named: Any) -> dict[str, Pilot]:
    """{arch: Pilot} of a file; the arguments are those of `PilotFile.pilots`."""
    return PilotFile(path).pilots(metric, *reading, **named)


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
        if len(self.data) > LARGEST_FILE:
            _fail(path, f"the file has over {LARGEST_FILE >> 20} MiB; a pilot needs one row per run and four columns")
        if problem := next((why for start, why in OTHER_FORMATS.items() if self.data.startswith(start)), None):
            _fail(path, f"the file {problem}")
        if not self.data.startswith(b"PAR1"):
            self.data = self.data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        if not self.data.strip():
            _fail(path, "the file is empty; it needs a header line and one row per run")

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
        columns.keep(sweep)
        N = columns.counts("N")
        error = _errors(columns, metric, score)
        seed = columns.texts("seed") if "seed" in columns.names else None
        if group is not None:
            columns.require(group, "--group")
        groups = columns.texts(group or "group") if group or "group" in columns.names else None
        sizes = self._test_sizes(columns, metric, score, error, test_size)
        names, arch = np.unique(_archs(columns), return_inverse=True)
        if len(names) > MOST_ARCHS:
            columns.fail(f"column arch has {len(names):,} different values; keep {MOST_ARCHS} of them, or fewer")
        if seed is not None:
            key = [arch, N, seed.astype(str), *([] if groups is None else [groups.astype(str)])]
            runs, first = list(zip(*(column.tolist() for column in key), strict=True)), dict[tuple[Any, ...], int]()
            repeated = [first.setdefault(run, row) != row for row, run in enumerate(runs)]
            columns.refuse(repeated, "seed", "repeats an earlier run at the same N; keep one of the rows")
        pilots = {}
        for i, name in enumerate(names):
            rows = arch == i
            own_seed, own_group = (None if column is None else column[rows] for column in (seed, groups))
            own_size = None if sizes is None else int(sizes[rows].min())
            try:
                pilots[str(name)] = Pilot.from_points(N[rows], error[rows], own_seed, own_group, own_size)
            except KoctError as reason:
                columns.fail(f"arch {name}: {reason}")
        return pilots

    def costs(self, sweep: str | None = None) -> tuple[str, dict[str, FloatArray]] | None:
        """(column, {arch: N and cost of every run, shape (2, n_runs)}); None if there is no column of costs."""
        columns = Columns(self.path, self.data, ["N", "p", "arch", "sweep", *COSTS])
        column = next((name for name in COSTS if name in columns.names), None)
        if column is None:
            return None
        columns.keep(sweep)
        N, cost, arch = columns.counts("N"), columns.numbers(column), _archs(columns)
        extreme = ~((cost >= MIN_ERROR) & (cost <= MAX_ERROR))
        columns.refuse(extreme, column, "is not above 0, or too large to compute with; correct it or remove the column")
        return column, {str(name): np.stack([N[arch == name], cost[arch == name]]) for name in np.unique(arch)}

    def _test_sizes(
        self, columns: Columns, metric: str | None, score: scores.Score | None, error: FloatArray, test_size: int | None
    ) -> FloatArray | None:
        """How many test samples the error rate of every row was counted on, shape (n_rows,); None if it is no rate."""
        name = score.name if score is not None else metric or "error"
        known = score is not None and scores.plain(name) in scores.KNOWN
        if test_size is not None:
            if not 1 <= test_size <= LARGEST_N:
                raise KoctError(f"--test-size {shown(test_size)} must be between 1 and {LARGEST_N:g}")
            if known and scores.plain(name) not in scores.RATES:
                raise KoctError(f"--test-size is for error rates and accuracies, and {name} is neither; omit it")
            sizes = np.full(len(error), float(test_size))
        elif "test_size" not in columns.names:
            return None
        elif not (name in RATES if score is None else scores.plain(name) in scores.RATES or not known):
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


def _errors(columns: Columns, metric: str | None, score: scores.Score | None) -> FloatArray:
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
            offered = usual + [have for have in columns.names if scores.plain(have) in scores.KNOWN]
            offered += ["score"] if score is None and "score" in columns.names else []
            if offered:
                columns.fail(f"column {name} is missing; choose another with --metric: {listed(offered)}")
        return name, 1
    if metric in columns.names or not (metric.endswith("2") and metric[:-1] in columns.names):
        return metric, 1
    if scores.plain(metric[:-1]) in scores.KNOWN:
        columns.fail(f"--metric {metric} is the square of a score, and no error; take --metric {metric[:-1]}")
    return metric[:-1], 2
