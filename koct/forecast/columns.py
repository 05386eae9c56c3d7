"""The columns of a CSV or Parquet file, checked one by one; messages name the file, the row and the column."""

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

LARGEST_N = 1e15  # integers are exact in float64 up to 9e15
MOST_ROWS = 3_000_000
MOST_COLUMNS = 10_000
LONGEST_NAME = 100  # letters of an arch, a seed or a sweep


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
        self.table = self._parquet(data, wanted) if data.startswith(b"PAR1") else self._csv(data)
        self.rows = np.arange(1, self.table.num_rows + 1)
        if not self.table.num_rows:
            self.fail("the file has a header but no rows; add one row per run")
        if self.table.num_rows > MOST_ROWS:
            self._too_many_rows(self.table.num_rows)

    def fail(self, problem: str) -> NoReturn:
        raise KoctError(printable(f"{self.path}: {problem}"))

    def refuse(self, bad: ArrayLike, column: str, problem: str) -> None:
        """Fail at the first row where `bad`, shape (n_rows,), is true, if there is one."""
        for row in np.flatnonzero(bad).tolist():
            self._fail_at(row, column, problem)

    def _fail_at(self, row: int, column: str, problem: str) -> NoReturn:
        self.fail(f"row {self.rows[row]}, column {column}: {shown(self.table[column][row].as_py())} {problem}")

    def _too_many_rows(self, count: int) -> NoReturn:
        self.fail(f"the file has {count:,} rows, and a pilot at most {MOST_ROWS:,}; keep one row per run")

    def _name(self, names: Sequence[str]) -> None:
        """Take the names of the columns, if each can be told from the others."""
        if len(names) > MOST_COLUMNS:
            self.fail(f"the file has {len(names):,} columns; keep N, error and, if there are several, seed and arch")
        for name, count in Counter(names).items():
            if count > 1:
                self.fail(f"column {name or shown(name)} appears twice; keep one of them")
        self.names = list(names)

    def _parquet(self, data: bytes, wanted: Sequence[str]) -> pa.Table:
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
        wrong: list[arrow.InvalidRow] = []

        def ragged(row: arrow.InvalidRow) -> str:
            wrong.append(row)
            return "error"

        try:
            return arrow.read_csv(
                pa.py_buffer(data),
                read_options=arrow.ReadOptions(column_names=names, skip_rows=1, use_threads=False),  # counts the rows
                parse_options=arrow.ParseOptions(delimiter=separator, invalid_row_handler=ragged),
                convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
        except (pa.ArrowException, MemoryError) as error:
            if not wrong:
                self.fail(" ".join(str(error).split())[:200])
        self._fail_ragged(wrong[0].number - 1, len(names), wrong[0].actual_columns, wrong[0].text, separator)

    def _fail_ragged(self, row: int, expected: int, got: int, text: str, separator: str) -> NoReturn:
        fix = "a cell is missing; fill it in" if got < expected else "a cell is too many; remove it"
        if got > expected and separator == "," and re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
            fix = "write decimals with a point, like 0.05, or remove the extra cell"
        text = text if len(text) <= 60 else f"{text[:60]}…"
        self.fail(f"row {row}: Expected {expected} columns, got {got}: {text}; {fix}")

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
        if not {"N", "p"} <= set(self.names):
            return
        try:
            N, p = (np.array(self.table[name].cast(pa.string()).to_pylist(), dtype=object) for name in ("N", "p"))
        except pa.ArrowException:  # columns of another kind, which are none of a study
            return
        keep = (N != "0") | (p != "0")
        if not np.any(keep):
            self.fail("every row has N = 0, so nothing was trained; a pilot needs runs at two or more N")
        self._keep(keep)

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        """Keep some rows. (`pa.array` imports pandas, as `to_numpy` does, which takes longer than a forecast.)"""
        bits = pa.py_buffer(np.packbits(rows, bitorder="little"))
        self.table = self.table.filter(pa.Array.from_buffers(pa.bool_(), len(rows), [None, bits]))
        self.rows = self.rows[rows]

    def require(self, name: str, option: str | None = None) -> None:
        """Fail if there is no such column; `option` is the one that names it."""
        if name in self.names:
            return
        near = difflib.get_close_matches(name.lower(), [have.lower() for have in self.names], 1, 0.6)
        near = [have for have in self.names if have.lower() in near]
        hint = f"the columns are {listed(self.names)}"
        if near:
            hint = f"did you mean {option} {near[0]}?" if option else f"rename column {near[0]!r}?"
        elif len(self.names) == 1:
            hint = f"the header is {shown(self.names[0])}: separate its columns by commas"
        self.fail(f"column {name} is missing; {hint}")

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of finite numbers, shape (n_rows,)."""
        self.require(name)
        column = self.table[name]
        if not (_is_number(column.type) or pa.types.is_string(column.type) or pa.types.is_null(column.type)):
            self.fail(f"column {name} has type {column.type}; it must hold numbers")
        try:
            cast = _cast(column)
        except pa.ArrowException:
            row = _first_that_is_no_number(column)
            comma = re.fullmatch(r"\s*[+-]?[\d.]*\d,\d+([eE][+-]?\d+)?\s*", str(column[row]))
            fix = "has a comma; write decimals with a point, like 0.05, and a thousand as 1000"
            self._fail_at(row, name, fix if comma else "is not a plain number; write it like 1000 or 1e-3")
        values = np.array(cast.to_pylist(), dtype=float)
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
        column = self.table[name]
        kinds = (_is_number, pa.types.is_string, pa.types.is_boolean, pa.types.is_null)
        if not any(kind(column.type) for kind in kinds):
            self.fail(f"column {name} has type {column.type}; it must hold text or numbers")
        values = np.array(_trimmed(pc.cast(column, pa.string())).to_pylist(), dtype=object)
        lengths = np.array([len(value or "") for value in values])
        self.refuse(lengths > LONGEST_NAME, name, f"is longer than {LONGEST_NAME} letters; give it a shorter name")
        self.refuse(lengths == 0, name, "is empty; fill it in or remove the row")
        return values

    def check_unique(self, *columns: NDArray, name: str, problem: str) -> None:
        """Fail at the first row that has the values of an earlier one in all columns, each of shape (n_rows,)."""
        keys = [np.unique(values, return_inverse=True)[1] for values in columns]
        order = np.lexsort(keys)  # stable: equal rows keep their order
        same = np.all([np.diff(key[order]) == 0 for key in keys], axis=0)
        repeated = np.zeros(len(order), dtype=bool)
        repeated[order[1:][same]] = True
        self.refuse(repeated, name, problem)


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


def printable(text: str) -> str:
    r"""Text in one line: a line break as \n, and so on for all that a terminal would obey and not show."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def shown(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    text = text if len(text) <= 40 else f"{text[:40]}…"
    return repr(text) if isinstance(value, str) else text


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return ", ".join(name if len(name) <= 40 else f"{name[:40]}…" for name in names[:12]) + more
