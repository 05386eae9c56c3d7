"""Reading anyone's pilot study: CSV or Parquet with N, error and, if there are several, seed and arch."""

import difflib
from csv import reader as csv_lines
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from koct.errors import KoctError
from koct.risk.budget import Pilot

LARGEST_N = 1e15  # beyond, a float no longer tells N from N + 1


def read_pilots(path, metric=None, sweep=None):
    """{arch: Pilot} of a file; `metric` names the error's column, with a 2 at its end the square of a column."""
    table = _Table(path)
    if "sweep" in table.names:
        table.keep_sweep(sweep)
    elif sweep is not None:
        table.fail(f"column sweep is missing, so --sweep {sweep} selects nothing: leave it out")
    N = table.counts("N")
    error = table.errors(metric)
    seed = table.texts("seed") if "seed" in table.names else None
    arch = table.texts("arch") if "arch" in table.names else np.full(len(N), "pilot", dtype=object)
    names, place = np.unique(arch.astype(str), return_inverse=True)
    if seed is not None:
        table.check_unique(place, N, seed)
    pilots = {}
    for i, name in enumerate(names):
        rows = place == i
        if len(np.unique(N[rows])) < 2:
            table.fail(f"column N has the one value {N[rows][0]} for arch {name}; a pilot needs runs at two N at least")
        pilots[str(name)] = Pilot.from_points(N[rows], error[rows], None if seed is None else seed[rows])
    return pilots


class _Table:
    """The file's columns, each checked when it is asked for; every complaint names the file, the row, the column."""

    def __init__(self, path):
        self.path = path
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise KoctError(f"{path} cannot be read: {error.strerror}") from None
        if not data.strip():
            self.fail("is empty; it needs a line of column names and a row for every run")
        self.table = self._parquet() if data.startswith(b"PAR1") else self._csv(data)
        self.names = self.table.column_names
        for name in self.names:
            if self.names.count(name) > 1:
                self.fail(f"column {name} is there twice; keep one of them")
        self.rows = np.arange(1, self.table.num_rows + 1)
        if not self.table.num_rows:
            self.fail("has column names but no rows")

    def fail(self, problem):
        raise KoctError(f"{self.path}: {problem}")

    def fail_at(self, bad, column, problem):
        """Fail at the first row where `bad` holds."""
        row = int(np.flatnonzero(bad)[0])
        value = self.table[column][row].as_py()
        self.fail(f"row {self.rows[row]}, column {column}: {value!r} {problem}")

    def _parquet(self):
        try:
            return pq.ParquetFile(self.path).read()
        except (pa.ArrowException, OSError) as error:
            return self.fail(f"is not a whole Parquet file ({str(error).splitlines()[0]})")

    def _csv(self, data):
        from pyarrow import csv

        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            row = data.count(b"\n", 0, error.start)
            start = data.rfind(b"\n", 0, error.start) + 1
            column = data.count(b",", start, error.start) + 1
            self.fail(f"row {row}, column {column} is not UTF-8 text: save the file as UTF-8")
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
            return self.fail(" ".join(str(error).split())[:200])

    def keep_sweep(self, sweep):
        values = self.texts("sweep")
        known = sorted(set(values))
        if sweep is None and len(known) > 1:
            self.fail(f"column sweep has {len(known)} values; choose one with --sweep: {', '.join(known)}")
        if sweep is not None:
            if sweep not in known:
                self.fail(f"column sweep has no {sweep!r}; it has {', '.join(known)}")
            keep = values == sweep
            self.table, self.rows = self.table.filter(pa.array(keep)), self.rows[keep]

    def column(self, name):
        if name not in self.names:
            near = difflib.get_close_matches(name.lower(), [have.lower() for have in self.names], 1, 0.6)
            near = [have for have in self.names if have.lower() in near]
            hint = f"; rename column {near[0]!r}?" if near else f"; it has {', '.join(self.names)}"
            self.fail(f"column {name} is missing{hint}")
        return self.table[name]

    def numbers(self, name):
        column = self.column(name)
        try:
            values = pc.cast(_trimmed(column), pa.float64(), safe=False)
        except pa.ArrowException:
            self.fail_at([not _is_number(value) for value in column.to_pylist()], name, "is not a plain number")
        values = values.to_numpy(zero_copy_only=False)
        if not np.all(np.isfinite(values)):
            self.fail_at(~np.isfinite(values), name, "is not a finite number")
        return values

    def counts(self, name):
        values = self.numbers(name)
        if np.any(values != np.round(values)):
            self.fail_at(values != np.round(values), name, "is not a whole number")
        if np.any(values < 2):
            self.fail_at(values < 2, name, "is below 2, and the law of a curve needs log N > 0")
        if np.any(values > LARGEST_N):
            self.fail_at(values > LARGEST_N, name, f"is above {LARGEST_N:g} samples")
        return values.astype(np.int64)

    def errors(self, metric):
        name, power = metric or "error", 1
        if metric and metric not in self.names and metric.endswith("2") and metric[:-1] in self.names:
            name, power = metric[:-1], 2
        if metric is None and "error" not in self.names:
            offered = [have for have in ("mse", "rrmse_peak", "rrmse_norm") if have in self.names]
            if offered:
                self.fail(f"column error is missing; choose another with --metric: {', '.join(offered)}")
        values = self.numbers(name)
        if np.any(values <= 0):
            self.fail_at(values <= 0, name, "is not above zero, as an error must be")
        extreme = (values**power < 1e-150) | (values**power > 1e150)
        if np.any(extreme):
            self.fail_at(extreme, name, "is too small or too large to compute with; change its unit")
        return values**power

    def texts(self, name):
        column = self.column(name)
        try:
            values = _trimmed(pc.cast(column, pa.string()))
        except pa.ArrowException:
            self.fail(f"column {name} must hold text or numbers, it holds {column.type}")
        missing = pc.fill_null(pc.equal(values, ""), True).to_numpy()
        if missing.any():
            self.fail_at(missing, name, "is empty")
        return np.array(values.to_pylist(), dtype=object)

    def check_unique(self, arch, N, seed):
        places = [np.unique(values, return_inverse=True)[1] for values in (arch, N, seed.astype(str))]
        order = np.lexsort(places)  # stable: of equal rows the first comes first
        same = np.all([np.diff(place[order]) == 0 for place in places], axis=0)
        if same.any():
            repeated = np.zeros(len(N), dtype=bool)
            repeated[order[1:][same]] = True
            self.fail_at(repeated, "seed", "was run before at the same N; keep one of the rows")


def _trimmed(column):
    return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column


def _is_number(value):
    """Whether Arrow reads this as a number, which is stricter than Python: no 1_000, no other scripts' digits."""
    try:
        pc.cast(_trimmed(pa.chunked_array([[value]])), pa.float64(), safe=False)
    except pa.ArrowException:
        return False
    return value is not None
