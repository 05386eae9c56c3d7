"""Read a pilot study: a CSV or Parquet file with columns N and error and, optionally, seed, arch and group."""

import csv
import difflib
import re
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError
from koct.risk import scores
from koct.risk.runs import MAX_ERROR, MIN_ERROR, Pilot

LARGEST_N = 1e15  # integers are exact in float64 up to 9e15

# Far above any pilot, and small enough for a laptop's memory and patience.
LARGEST_FILE = 2**28  # bytes
MOST_ROWS = 3_000_000
MOST_COLUMNS = 10_000
MOST_ARCHS = 64
LONGEST_NAME = 100  # letters of an arch, a seed or a sweep
COSTS = ("seconds", "cost", "fit_seconds")  # columns with the cost of a run; the first of them counts

OTHER_FORMATS = {  # by the bytes that a file begins with
    b"PK\x03\x04": "is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet (xls); save it as CSV",
    b"\x1f\x8b": "is compressed (gzip); unpack it first",
    b"\xfd7zXZ": "is compressed (xz); unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed (zstd); unpack it first",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
    b"ARROW1\0": "is an Arrow file; write it as Parquet or CSV",
}


def read_pilots(
    path: str | PathLike[str],
    metric: str | None = None,
    sweep: str | None = None,
    higher: float | None = None,
    group: str | None = None,
    test_size: int | None = None,
) -> dict[str, Pilot]:
    """Read {arch: Pilot} from a file.

    Parameters
    ----------
    path : the file
    metric : the column with the error; if there is no such column but its name ends in 2, it stands for the square of
        the column without the 2. If it is a score, such as an accuracy, the errors are those of `koct.risk.scores`.
    sweep : take the rows with this value in the column sweep
    higher : the column is a score, where higher is better, and this is the best one
    group : the column with the groups; by default the column group, if there is one
    test_size : how many test samples an error rate was counted on; by default the smallest value in the column
        test_size, if there is one
    """
    score = scores.named(metric, higher)
    optional = ["seed", "arch", "sweep", "test_size", group or "group"]
    table = _Table(path, ["N", "error", "score", *optional, *((metric, metric[:-1]) if metric else ())])
    if "sweep" in table.names:
        table.keep_sweep(sweep)
    elif sweep is not None:
        table.fail(f"column sweep is missing, so --sweep {sweep} selects nothing; omit --sweep")
    N = table.counts("N")
    error = table.errors(metric, score)
    seed = table.texts("seed") if "seed" in table.names else None
    arch = table.texts("arch") if "arch" in table.names else np.full(len(N), "pilot", dtype=object)
    groups = table.texts(group or "group") if group or "group" in table.names else None
    sizes = table.test_sizes(metric, score, error, test_size)
    names, arch_index = np.unique(arch.astype(str), return_inverse=True)
    if len(names) > MOST_ARCHS:
        table.fail(f"column arch has {len(names):,} different values, and at most {MOST_ARCHS} are compared; keep some")
    if seed is not None:
        table.check_unique(arch_index, N, seed, groups)
    pilots = {}
    for i, name in enumerate(names):
        rows = arch_index == i
        if len(np.unique(N[rows])) < 2:
            table.fail(f"column N has only the value {N[rows][0]} for arch {name}; a pilot needs runs at two or more N")
        own_seed, own_group = (None if column is None else column[rows] for column in (seed, groups))
        own_size = None if sizes is None else int(sizes[rows].min())
        try:
            pilots[str(name)] = Pilot.from_points(N[rows], error[rows], own_seed, own_group, own_size)
        except KoctError as reason:
            table.fail(str(reason))
    return pilots


def read_costs(
    path: str | PathLike[str], sweep: str | None = None
) -> tuple[str, dict[str, NDArray[np.float64]]] | None:
    """(column, {arch: N and cost of every run, shape (2, n_runs)}) of the file; None if it has no column of costs."""
    table = _Table(path, ["N", "arch", "sweep", *COSTS])
    column = next((name for name in COSTS if name in table.names), None)
    if column is None:
        return None
    if "sweep" in table.names:
        table.keep_sweep(sweep)
    N, cost = table.counts("N"), table.numbers(column)
    if np.any(cost <= 0):
        table.fail_at(cost <= 0, column, "is not above 0; correct it or remove the column")
    arch = table.texts("arch") if "arch" in table.names else np.full(len(N), "pilot", dtype=object)
    return column, {str(name): np.stack([N[arch == name], cost[arch == name]]) for name in np.unique(arch.astype(str))}


class _Table:
    """The columns of a file, each checked when it is requested; messages name the file, the row and the column."""

    def __init__(self, path: str | PathLike[str], wanted: Sequence[str]) -> None:
        self.path = path
        data = self._read()
        self.names: list[str] = []
        self.table = self._parquet(data, wanted) if data.startswith(b"PAR1") else self._csv(data)
        self.rows = np.arange(1, self.table.num_rows + 1)
        if not self.table.num_rows:
            self.fail("the file has a header but no rows; add one row per run")
        if self.table.num_rows > MOST_ROWS:
            self._too_many_rows(self.table.num_rows)

    def _read(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            raise KoctError(f"{self.path} cannot be read: {error.strerror}; give the path of a pilot file") from None
        except ValueError:  # a NUL, or a letter that no file system has
            raise KoctError(f"{str(self.path)!r} is not the name of a file; give the path of a pilot file") from None
        if len(data) > LARGEST_FILE:
            self.fail(f"the file has over {LARGEST_FILE >> 20} MiB; a pilot needs one row per run and four columns")
        for start, problem in OTHER_FORMATS.items():
            if data.startswith(start):
                self.fail(f"the file {problem}")
        if not data.startswith(b"PAR1"):
            data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        if not data.strip():
            self.fail("the file is empty; it needs a header line and one row per run")
        return data

    def _too_many_rows(self, count: int) -> NoReturn:
        self.fail(f"the file has {count:,} rows, and a pilot at most {MOST_ROWS:,}; keep one row per run")

    def _name(self, names: Sequence[str]) -> None:
        """Take the names of the columns, if each can be told from the others."""
        if len(names) > MOST_COLUMNS:
            self.fail(f"the file has {len(names):,} columns; keep N, error and, if there are several, seed and arch")
        for name, count in Counter(names).items():
            if count > 1:
                self.fail(f"column {name or _shown(name)} appears twice; keep one of them")
        self.names = list(names)

    def fail(self, problem: str) -> NoReturn:
        raise KoctError(f"{self.path}: {problem}")

    def fail_at(self, bad: ArrayLike, column: str, problem: str) -> NoReturn:
        """Fail at the first row where `bad`, shape (n_rows,), is true."""
        row = int(np.flatnonzero(bad)[0])
        value = self.table[column][row].as_py()
        self.fail(f"row {self.rows[row]}, column {column}: {_shown(value)} {problem}")

    def _parquet(self, data: bytes, wanted: Sequence[str]) -> pa.Table:
        """The wanted columns; others may hold whatever they like."""
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            self._name(file.schema_arrow.names)
            if file.metadata.num_rows > MOST_ROWS:
                self._too_many_rows(file.metadata.num_rows)
            table = file.read(columns=[name for name in self.names if name in wanted], use_threads=False)
            table.validate(full=True)
            for i, name in enumerate(table.column_names):
                if _is_text(table[name].type) or pa.types.is_dictionary(table[name].type):
                    table = table.set_column(i, name, _decoded(table[name]))
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            self.fail(f"the file is not valid Parquet ({first[:200]}); write it again")
        return table

    def _csv(self, data: bytes) -> pa.Table:
        from pyarrow import csv as arrow

        if b"\0" in data:
            self.fail("the file holds NUL bytes, so it is not text; save it as CSV in UTF-8, or as Parquet")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            row = data.count(b"\n", 0, error.start)
            start = data.rfind(b"\n", 0, error.start) + 1
            column = data.count(b",", start, error.start) + 1
            where = f"row {row}, column {column}" if row else "the header"
            self.fail(f"{where} is not UTF-8 text; save the file as UTF-8")
        head = re.split(rb"[\r\n]", data, maxsplit=1)[0].decode()
        separator = max(",;\t", key=head.count)
        try:
            names = [name.strip() for name in next(csv.reader([head], delimiter=separator))]
        except csv.Error as error:
            self.fail(f"the header cannot be read ({error}); it must name the columns, like N,error")
        self._name(names)
        try:
            return arrow.read_csv(
                pa.py_buffer(data),
                read_options=arrow.ReadOptions(column_names=names, skip_rows=1),
                parse_options=arrow.ParseOptions(delimiter=separator),
                convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        except (pa.ArrowException, MemoryError) as error:
            text = " ".join(str(error).split())[:200]
            comma = "; write decimals with a point, like 0.05" if separator == "," and "columns, got" in text else ""
            self.fail(text + comma)

    def keep_sweep(self, sweep: str | None) -> None:
        values = self.texts("sweep")
        known = sorted(set(values))
        if sweep is None and len(known) > 1:
            self.fail(f"column sweep has {len(known)} values; choose one with --sweep: {_listed(known)}")
        if sweep is not None:
            if sweep not in known:
                self.fail(f"column sweep has no value {sweep!r}; choose one of {_listed(known)}")
            keep = values == sweep
            self.table, self.rows = self.table.filter(pa.array(keep)), self.rows[keep]

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self.names:
            near = difflib.get_close_matches(name.lower(), [have.lower() for have in self.names], 1, 0.6)
            near = [have for have in self.names if have.lower() in near]
            hint = f"rename column {near[0]!r}?" if near else f"the columns are {_listed(self.names)}"
            if len(self.names) == 1 and not near:
                hint = f"the header is {_shown(self.names[0])}: separate its columns by commas"
            self.fail(f"column {name} is missing; {hint}")
        return self.table[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        column = self.column(name)
        if not (_is_number(column.type) or pa.types.is_string(column.type) or pa.types.is_null(column.type)):
            self.fail(f"column {name} has type {column.type}; it must hold numbers")
        try:
            cast = _cast(column)
        except pa.ArrowException:
            bad = np.arange(len(column)) == _first_that_is_no_number(column)
            if re.fullmatch(r"\s*[+-]?[\d.]*\d,\d+([eE][+-]?\d+)?\s*", str(column[int(np.argmax(bad))])):
                self.fail_at(bad, name, "has a comma; write decimals with a point, like 0.05, and a thousand as 1000")
            self.fail_at(bad, name, "is not a plain number; write it like 1000 or 1e-3")
        values = cast.to_numpy(zero_copy_only=False)
        if not np.all(np.isfinite(values)):
            self.fail_at(~np.isfinite(values), name, "is not a finite number; correct it or remove the row")
        return values

    def counts(self, name: str) -> NDArray[np.int64]:
        values = self.numbers(name)
        if np.any(values != np.round(values)):
            self.fail_at(values != np.round(values), name, "is not an integer; give the number of samples")
        if np.any(values < 2):
            self.fail_at(values < 2, name, "is below 2, but the laws need log N > 0; remove the row")
        if np.any(values > LARGEST_N):
            self.fail_at(values > LARGEST_N, name, f"is above {LARGEST_N:g}, the largest N allowed; remove the row")
        return values.astype(np.int64)

    def errors(self, metric: str | None, score: scores.Score | None) -> NDArray[np.float64]:
        """The errors in the column of the metric, shape (n_rows,); of a score, those of its values."""
        name, power = self._metric(metric, score)
        values = self.numbers(name)
        with np.errstate(over="ignore", under="ignore"):
            error = values**power if score is None else score.error(values**power)
        if np.any(error < 0) and score is not None:
            best = f"{score.best:g}, the best {score.name}"
            self.fail_at(error < 0, name, f"is above {best}; say with --higher what the best is, like --higher 100")
        if np.any(values < 0) and score is None:
            why = "is below zero, and no error is; correct it or, if a higher value is a better one, give --higher"
            self.fail_at(values < 0, name, why)
        extreme = (error != 0) & ~((error >= MIN_ERROR) & (error <= MAX_ERROR))
        extreme |= (error == 0) & (values != 0) & (score is None)  # the square is too small for a number
        if np.any(extreme):
            self.fail_at(extreme, name, "is too small or too large to compute with; rescale the column")
        return error

    def _metric(self, metric: str | None, score: scores.Score | None) -> tuple[str, int]:
        """(column, power) of the metric."""
        if metric is None:
            name = "error" if score is None else "score"
            if name not in self.names:
                usual = [have for have in ("mse", "rrmse_peak", "rrmse_norm") if have in self.names]
                offered = usual + [have for have in self.names if scores.is_known(have)]
                offered += ["score"] if score is None and "score" in self.names else []
                if offered:
                    self.fail(f"column {name} is missing; choose another with --metric: {_listed(offered)}")
            return name, 1
        if metric in self.names or not (metric.endswith("2") and metric[:-1] in self.names):
            return metric, 1
        if scores.is_known(metric[:-1]):
            self.fail(f"--metric {metric} is the square of a score, and no error; take --metric {metric[:-1]}")
        return metric[:-1], 2

    def test_sizes(
        self, metric: str | None, score: scores.Score | None, error: NDArray[np.float64], given: int | None
    ) -> NDArray[np.float64] | None:
        """How many test samples the error rate of every row was counted on, shape (n_rows,); None if it is no rate."""
        rate = metric in (None, "error", "error_rate") if score is None else scores.is_rate(score.name)
        if given is not None:
            if not 1 <= given <= LARGEST_N:
                raise KoctError(f"--test-size {_shown(given)} must be between 1 and {LARGEST_N:g}")
            if score is not None and scores.is_known(score.name) and not rate:
                raise KoctError(f"--test-size is for error rates and accuracies, and {score.name} is neither; omit it")
            sizes = np.full(len(error), float(given))
        elif rate and "test_size" in self.names:
            sizes = self.numbers("test_size")
            bad = (sizes != np.round(sizes)) | (sizes < 1) | (sizes > LARGEST_N)
            if np.any(bad):
                self.fail_at(bad, "test_size", "is not a number of test samples; give an integer of at least 1")
        else:
            return None
        if np.any(error > 1):
            name = self._metric(metric, score)[0]
            fix = "give rates between 0 and 1, or no test size"
            self.fail_at(error > 1, name, f"has an error above 1, but a test size is for rates; {fix}")
        return sizes

    def texts(self, name: str) -> NDArray[np.object_]:
        column = self.column(name)
        kinds = (_is_number, pa.types.is_string, pa.types.is_boolean, pa.types.is_null)
        if not any(kind(column.type) for kind in kinds):
            self.fail(f"column {name} has type {column.type}; it must hold text or numbers")
        values = _trimmed(pc.cast(column, pa.string()))
        if (pc.max(pc.utf8_length(values)).as_py() or 0) > LONGEST_NAME:
            long = pc.fill_null(pc.greater(pc.utf8_length(values), LONGEST_NAME), False).to_numpy()
            self.fail_at(long, name, f"is longer than {LONGEST_NAME} letters; give it a shorter name")
        missing = pc.fill_null(pc.equal(values, ""), True).to_numpy()
        if missing.any():
            self.fail_at(missing, name, "is empty; fill it in or remove the row")
        return np.array(values.to_pylist(), dtype=object)

    def check_unique(
        self,
        arch: NDArray[np.intp],
        N: NDArray[np.int64],
        seed: NDArray[np.object_],
        group: NDArray[np.object_] | None,
    ) -> None:
        """Fail at the first row with the arch, N, seed and group of an earlier one; each has shape (n_rows,)."""
        columns = [arch, N, seed.astype(str), *([] if group is None else [group.astype(str)])]
        keys = [np.unique(values, return_inverse=True)[1] for values in columns]
        order = np.lexsort(keys)  # stable: equal rows keep their order
        same = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
        if same.any():
            repeated = np.zeros(len(N), dtype=bool)
            repeated[order[1:][same]] = True
            self.fail_at(repeated, "seed", "repeats an earlier run at the same N; keep one of the rows")


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a dictionary, and text as plain strings."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    return pc.cast(column, pa.string()) if _is_text(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _cast(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As numbers. Arrow is stricter than Python: no 1_000, no non-ASCII digits."""
    return pc.cast(_trimmed(column), pa.float64(), safe=False)


def _first_that_is_no_number(column: pa.ChunkedArray) -> int:
    """The first row, by bisection, that `_cast` fails at; there is one."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(column.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    text = text if len(text) <= 40 else f"{text[:40]}…"
    return repr(text) if isinstance(value, str) else text


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return ", ".join(name if len(name) <= 40 else f"{name[:40]}…" for name in names[:12]) + more
