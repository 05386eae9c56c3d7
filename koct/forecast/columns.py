"""The columns of a CSV or Parquet file, checked one by one; messages name the file, the row and the column."""

import csv
import io
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

LARGEST_N = 1e15  # integers are exact in float64 up to 9e15
MOST_ROWS = 1_000_000
LONGEST_NAME = 100  # letters of an arch, a seed or a sweep
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(nan|inf(inity)?)\s*", re.A | re.I)


class Columns:
    """The columns of a file, each checked when it is requested.

    Parameters
    ----------
    path : the file, for messages
    data : its bytes
    wanted : the columns to read from a Parquet file; others may hold whatever they like
    """

    def __init__(self, path: str | PathLike[str], data: bytes, wanted: Sequence[str]) -> None:
        self.path = path
        self.names: list[str] = []
        self.values = self._parquet(data, wanted) if data.startswith(b"PAR1") else self._csv(data)
        count = max(map(len, self.values.values()), default=0)
        self.rows = np.arange(1, count + 1)
        if not count:
            self.fail("the file has a header but no rows; add one row per run")

    def fail(self, problem: str) -> NoReturn:
        raise KoctError(printable(f"{self.path}: {problem}"))

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

    def _check_rows(self, count: int) -> None:
        if count > MOST_ROWS:
            self.fail(f"the file has over {MOST_ROWS:,} rows, more than any pilot; keep one row per run")

    def _parquet(self, data: bytes, wanted: Sequence[str]) -> Mapping[str, NDArray[np.object_]]:
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            self._name(file.schema_arrow.names)
            self._check_rows(file.metadata.num_rows)
            table = file.read(columns=[name for name in self.names if name in wanted], use_threads=False)
            table.validate(full=True)
            for field in table.schema:
                if pa.types.is_nested(field.type) or pa.types.is_temporal(field.type) or _is_binary(field.type):
                    self.fail(f"column {field.name} has type {field.type}; it must hold numbers or text")
            return {name: _objects(table[name].to_pylist()) for name in table.column_names}
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            self.fail(f"the file is not valid Parquet ({first[:200]}); write it again")

    def _csv(self, data: bytes) -> Mapping[str, NDArray[np.object_]]:
        if b"\0" in data:
            self.fail("the file holds NUL bytes, so it is not text; save it as CSV in UTF-8, or as Parquet")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data.count(b"\n", 0, error.start)
            column = data.count(b",", data.rfind(b"\n", 0, error.start) + 1, error.start) + 1
            where = f"row {before}, column {column}" if before else "the header"
            self.fail(f"{where} is not UTF-8 text; save the file as UTF-8")
        separator = max(",;\t", key=re.split(r"[\r\n]", text, maxsplit=1)[0].count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        rows: list[list[str]] = []
        try:
            self._name([name.strip() for name in next(reader)])
            for row in reader:
                if len(row) != len(self.names) and row:
                    self._fail_ragged(len(rows) + 1, len(row), separator.join(row), separator)
                rows += [row] if row else []
                self._check_rows(len(rows))
        except csv.Error as error:
            where = f"row {len(rows) + 1}" if self.names else "the header"
            self.fail(f"{where} cannot be read ({error}); a header must name the columns, like N,error")
        return {name: _objects(values) for name, values in zip(self.names, zip(*rows, strict=True), strict=False)}

    def _fail_ragged(self, row: int, got: int, text: str, separator: str) -> NoReturn:
        expected = len(self.names)
        fix = "a cell is missing; fill it in" if got < expected else "a cell is too many; remove it"
        if got > expected and separator == "," and re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
            fix = "write decimals with a point, like 0.05, or remove the extra cell"
        self.fail(f"row {row}: Expected {expected} columns, got {got}: {cut(text, 60)}; {fix}")

    def keep_sweep(self, sweep: str | None) -> None:
        """Keep the rows with this value in the column sweep; without one, there must be no choice."""
        if "sweep" not in self.names:
            if sweep is not None:
                self.fail(f"column sweep is missing, so --sweep {sweep} selects nothing; omit --sweep")
            return
        values = self.texts("sweep")
        known = sorted(set(values))
        if sweep is None and len(known) > 1:
            self.fail(f"column sweep has {len(known)} values; choose one with --sweep: {listed(known)}")
        if sweep is not None:
            if sweep not in known:
                self.fail(f"column sweep has no value {sweep!r}; choose one of {listed(known)}")
            self._keep(values == sweep)

    def drop_baselines(self) -> None:
        """Leave out the rows of what needs no sample, which the results of a study have: N and p are 0 there."""
        if {"N", "p"} <= set(self.names):
            keep = np.any([self.values[name].astype(str) != "0" for name in ("N", "p")], axis=0)
            if not np.any(keep):
                self.fail("every row has N = 0, so nothing was trained; a pilot needs runs at two or more N")
            self._keep(keep)

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        self.values = {name: values[rows] for name, values in self.values.items()}
        self.rows = self.rows[rows]

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

    def numbers(self, name: str) -> NDArray[np.float64]:
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
        lengths = np.array([len(value) for value in values])
        self.refuse(lengths > LONGEST_NAME, name, f"is longer than {LONGEST_NAME} letters; give it a shorter name")
        self.refuse(lengths == 0, name, "is empty; fill it in or remove the row")
        return values

    def check_unique(self, *columns: NDArray, name: str, problem: str) -> None:
        """Fail at the first row that has the values of an earlier one in all columns, each of shape (n_rows,)."""
        first: dict[tuple[Any, ...], int] = {}
        keys = zip(*(column.tolist() for column in columns), strict=True)
        self.refuse([first.setdefault(key, row) != row for row, key in enumerate(keys)], name, problem)


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def shown(value: object) -> str:
    return repr(cut(value)) if isinstance(value, str) else cut(str(value))
