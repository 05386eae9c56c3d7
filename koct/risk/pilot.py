"""Read a pilot study: a CSV or Parquet file with columns N and error and, optionally, seed and arch."""

import difflib
from csv import reader as csv_lines
from os import PathLike
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from koct.errors import KoctError
from koct.risk.budget import Pilot

LARGEST_N = 1e15  # integers are exact in float64 up to 9e15


def read_pilots(path: str | PathLike[str], metric: str | None = None, sweep: str | None = None) -> dict[str, Pilot]:
    """Read {arch: Pilot} from a file.

    `metric` names the column with the error; if there is no such column but it ends in 2, it stands for the square of
    the column without the 2. `sweep` selects the rows with that value in the column sweep.
    """
    table = _Table(path)
    if "sweep" in table.names:
        table.keep_sweep(sweep)
    elif sweep is not None:
        table.fail(f"column sweep is missing, so --sweep {sweep} selects nothing; omit --sweep")
    N = table.counts("N")
    error = table.errors(metric)
    seed = table.texts("seed") if "seed" in table.names else None
    arch = table.texts("arch") if "arch" in table.names else np.full(len(N), "pilot", dtype=object)
    names, arch_index = np.unique(arch.astype(str), return_inverse=True)
    if seed is not None:
        table.check_unique(arch_index, N, seed)
    pilots = {}
    for i, name in enumerate(names):
        rows = arch_index == i
        if len(np.unique(N[rows])) < 2:
            table.fail(f"column N has only the value {N[rows][0]} for arch {name}; a pilot needs runs at two or more N")
        pilots[str(name)] = Pilot.from_points(N[rows], error[rows], None if seed is None else seed[rows])
    return pilots


class _Table:
    """The columns of a file, each checked when it is requested; messages name the file, the row and the column."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise KoctError(f"{path} cannot be read: {error.strerror}; give the path of a pilot file") from None
        if not data.strip():
            self.fail("the file is empty; it needs a header line and one row per run")
        self.table = self._parquet() if data.startswith(b"PAR1") else self._csv(data)
        self.names: list[str] = self.table.column_names
        for name in self.names:
            if self.names.count(name) > 1:
                self.fail(f"column {name} appears twice; keep one of them")
        self.rows = np.arange(1, self.table.num_rows + 1)
        if not self.table.num_rows:
            self.fail("the file has a header but no rows; add one row per run")

    def fail(self, problem: str) -> NoReturn:
        raise KoctError(f"{self.path}: {problem}")

    def fail_at(self, bad: ArrayLike, column: str, problem: str) -> NoReturn:
        """Fail at the first row where `bad`, shape (n_rows,), is true."""
        row = int(np.flatnonzero(bad)[0])
        value = self.table[column][row].as_py()
        self.fail(f"row {self.rows[row]}, column {column}: {value!r} {problem}")

    def _parquet(self) -> pa.Table:
        try:
            return pq.ParquetFile(self.path).read()
        except (pa.ArrowException, OSError) as error:
            self.fail(f"the file is not valid Parquet ({str(error).splitlines()[0]}); write it again")

    def _csv(self, data: bytes) -> pa.Table:
        from pyarrow import csv

        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            row = data.count(b"\n", 0, error.start)
            start = data.rfind(b"\n", 0, error.start) + 1
            column = data.count(b",", start, error.start) + 1
            self.fail(f"row {row}, column {column} is not UTF-8 text; save the file as UTF-8")
        data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        head = data.splitlines()[0].decode()
        separator = max(",;\t", key=head.count)
        names = [name.strip() for name in next(csv_lines([head], delimiter=separator))]
        try:
            return csv.read_csv(
                pa.py_buffer(data),
                read_options=csv.ReadOptions(column_names=names, skip_rows=1),
                parse_options=csv.ParseOptions(delimiter=separator),
                convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        except pa.ArrowException as error:
            self.fail(" ".join(str(error).split())[:200])

    def keep_sweep(self, sweep: str | None) -> None:
        values = self.texts("sweep")
        known = sorted(set(values))
        if sweep is None and len(known) > 1:
            self.fail(f"column sweep has {len(known)} values; choose one with --sweep: {', '.join(known)}")
        if sweep is not None:
            if sweep not in known:
                self.fail(f"column sweep has no value {sweep!r}; choose one of {', '.join(known)}")
            keep = values == sweep
            self.table, self.rows = self.table.filter(pa.array(keep)), self.rows[keep]

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self.names:
            near = difflib.get_close_matches(name.lower(), [have.lower() for have in self.names], 1, 0.6)
            near = [have for have in self.names if have.lower() in near]
            hint = f"rename column {near[0]!r}?" if near else f"the columns are {', '.join(self.names)}"
            self.fail(f"column {name} is missing; {hint}")
        return self.table[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        column = self.column(name)
        try:
            cast = pc.cast(_trimmed(column), pa.float64(), safe=False)
        except pa.ArrowException:
            bad = [not _is_number(value) for value in column.to_pylist()]
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

    def errors(self, metric: str | None) -> NDArray[np.float64]:
        name, power = metric or "error", 1
        if metric and metric not in self.names and metric.endswith("2") and metric[:-1] in self.names:
            name, power = metric[:-1], 2
        if metric is None and "error" not in self.names:
            offered = [have for have in ("mse", "rrmse_peak", "rrmse_norm") if have in self.names]
            if offered:
                self.fail(f"column error is missing; choose another with --metric: {', '.join(offered)}")
        values = self.numbers(name)
        if np.any(values <= 0):
            self.fail_at(values <= 0, name, "is not above zero; correct it or remove the row")
        extreme = (values**power < 1e-150) | (values**power > 1e150)
        if np.any(extreme):
            self.fail_at(extreme, name, "is too small or too large to compute with; rescale the column")
        return values**power

    def texts(self, name: str) -> NDArray[np.object_]:
        column = self.column(name)
        try:
            values = _trimmed(pc.cast(column, pa.string()))
        except pa.ArrowException:
            self.fail(f"column {name} has type {column.type}; it must hold text or numbers")
        missing = pc.fill_null(pc.equal(values, ""), True).to_numpy()
        if missing.any():
            self.fail_at(missing, name, "is empty; fill it in or remove the row")
        return np.array(values.to_pylist(), dtype=object)

    def check_unique(self, arch: NDArray[np.intp], N: NDArray[np.int64], seed: NDArray[np.object_]) -> None:
        """Fail at the first row that repeats the arch, N and seed of an earlier one; each has shape (n_rows,)."""
        keys = [np.unique(values, return_inverse=True)[1] for values in (arch, N, seed.astype(str))]
        order = np.lexsort(keys)  # stable: equal rows keep their order
        same = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
        if same.any():
            repeated = np.zeros(len(N), dtype=bool)
            repeated[order[1:][same]] = True
            self.fail_at(repeated, "seed", "repeats an earlier run at the same N; keep one of the rows")


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column


def _is_number(value: object) -> bool:
    """Whether Arrow reads this as a number. It is stricter than Python: no 1_000, no non-ASCII digits."""
    try:
        pc.cast(_trimmed(pa.chunked_array([[value]])), pa.float64(), safe=False)
    except pa.ArrowException:
        return False
    return value is not None
