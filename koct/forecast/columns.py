"""The columns of a table in CSV, Parquet or memory, each checked when it is requested."""

import copy
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

from koct.base import FRESH
from koct.base.messages import cut, listed, nearest, printable
from koct.errors import KoctError
from koct.forecast.runs import FloatArray

LARGEST_N = 1e15  # integers are exact in float64 up to 9e15
HEADER = "the header"  # the column of a table that was made from a wide one
ROLES = ("N", "error", "arch", "seed", "group", "ignore")  # of `--columns`

EXPONENT = r"([eE][+-]?\d+)?\s*"
NUMBER = re.compile(rf"\s*[+-]?(\d+\.?\d*|\.\d+){EXPONENT}|\s*[+-]?(nan|inf(inity)?)\s*", re.A | re.I)
POINT = re.compile(rf"\s*[+-]?(\d+|[1-9]\d{{0,2}}(,\d{{3}})+)?(\.\d*)?{EXPONENT}", re.A)  # 1,024.5
COMMA = re.compile(rf"\s*[+-]?(\d+|[1-9]\d{{0,2}}(\.\d{{3}})+)?(,\d*)?{EXPONENT}", re.A)  # 1.024,5
GROUPED = re.compile(r"\s*[1-9]\d{0,2}(\.\d{3})+\s*", re.A)  # 2.000
MISSING = ("", "na", "n/a", "#n/a", "null", "none", "-")  # what stands where there is no number
BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
REFUSED = (pa.types.is_nested, pa.types.is_temporal, *BINARY)  # types of columns in Parquet files
Values = Mapping[str, NDArray[np.object_]]


class Columns:
    """The columns of a table, each checked when it is requested.

    Parameters
    ----------
    path : the file, for messages
    source : its bytes, or {column: values} of a table in memory
    """

    def __init__(self, path: str | PathLike[str], source: Any) -> None:
        self.path, self.names = path, list[str]()
        self.semicolons = False  # whether they separate the columns, as where a comma is the decimal point
        self.types: dict[str, str] = {}  # of columns that hold neither numbers nor text
        if not isinstance(source, bytes):
            read = self._memory(source)
        else:
            read = self._parquet(source) if source.startswith(b"PAR1") else self._csv(source)
        self.values = _points(read)
        lengths = {len(values) for values in self.values.values()}
        if len(lengths) > 1:
            self.fail(f"the columns have different lengths, from {min(lengths)} to {max(lengths)}")
        self.rows = np.arange(1, max(lengths, default=0) + 1)
        if not len(self.rows):
            self.fail("the file has a header but no rows; add one row per run")

    def fail(self, problem: str) -> NoReturn:
        fail(self.path, problem)

    def refuse(self, bad: ArrayLike, column: str, problem: str) -> None:
        """Fail at the first row where `bad`, shape (n_rows,), is true, if there is one."""
        for row in np.flatnonzero(bad).tolist():
            self.fail(f"row {self.rows[row]}, column {column}: {shown(self.values[column][row])} {problem}")

    def _name(self, names: Sequence[str]) -> None:
        """Take the names of the columns, if each can be told from the others; one without a name gets its number."""
        names = [name or f"column {place}" for place, name in enumerate(names, 1)]
        for name, count in Counter(names).items():
            if count > 1:
                self.fail(f"column {name} appears twice; keep one of them")
        self.names = names

    def _memory(self, table: Any) -> Values:
        if not hasattr(table, "keys") and not hasattr(table, "columns"):
            self.fail(f"a pilot is a path, a DataFrame or {{column: values}}, and not of type {type(table).__name__}")
        names = list(getattr(table, "columns", table))
        self._name(list(map(str, names)))
        try:
            return {str(name): _objects(_python(table[name])) for name in names}
        except TypeError:
            self.fail("a column is not a list of values; give every column one value per run")

    def _parquet(self, data: bytes) -> Values:
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            schema = file.schema_arrow
            self._name(schema.names)
            self.types = {
                field.name: str(field.type) for field in schema if any(is_one(field.type) for is_one in REFUSED)
            }
            table = file.read(columns=[name for name in self.names if name not in self.types], use_threads=False)
            table.validate(full=True)
            return {name: _objects(table[name].to_pylist()) for name in table.column_names}
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            self.fail(f"the file is not valid Parquet ({first[:200]}); write it again")

    def _csv(self, data: bytes) -> Values:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            self.fail(f"line {line} is not UTF-8 text; save the file as UTF-8")
        separator = max(",;\t", key=re.split(r"[\r\n]", text, maxsplit=1)[0].count)
        self.semicolons = separator == ";"
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        rows: list[list[str]] = []
        try:
            header = [name.strip() for name in next(reader)]
            while len(header) > 1 and not header[-1]:  # spreadsheets write empty columns, and empty rows
                header.pop()
            self._name(header)
            for row in reader:
                if not any(cell.strip() for cell in row):
                    continue
                while len(row) > len(header) and not row[-1].strip():
                    row.pop()
                if len(row) != len(header):
                    text, more = separator.join(row), len(row) > len(header)
                    fix = "a cell is too many; remove it" if more else "a cell is missing; fill it in"
                    if more and separator == "," and re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
                        fix = "write decimals with a point, like 0.05, or remove the extra cell"
                    cells = f"Expected {len(header)} columns, got {len(row)}: {cut(text, 60)}"
                    self.fail(f"row {len(rows) + 1}: {cells}; {fix}")
                rows.append(row)
        except csv.Error as error:
            where = f"row {len(rows) + 1}" if self.names else "the header"
            self.fail(f"{where} cannot be read ({error}); a header must name the columns, like N,error")
        return {name: _objects(values) for name, values in zip(self.names, zip(*rows, strict=True), strict=False)}

    def select(self, keep: NDArray[np.bool_]) -> "Columns":
        """The rows where `keep`, shape (n_rows,), is true."""
        part = copy.copy(self)
        part.values = {name: values[keep] for name, values in self.values.items()}
        part.rows = self.rows[keep]
        return part

    def row(self, place: int) -> dict[str, Any]:
        """The cells of a row, by column; None where one has nothing."""
        return {name: None if missing(cells[place]) else cells[place] for name, cells in self.values.items()}

    def of_sweep(self, sweep: str | None) -> "Columns":
        """The rows with this value in the column sweep; without one, there must be no choice.

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
        if {"N", "p"} <= set(self.values):
            keep &= np.any([self.values[name].astype(str) != "0" for name in ("N", "p")], axis=0)
            if not np.any(keep):
                self.fail("every row has N = 0, so nothing was trained; a pilot needs runs at two or more N")
        return self.select(keep)

    def joined(self, names: Sequence[str]) -> str:
        """The name of a column; of several, that of a new one with all their values, empty where one is."""
        if "+".join(names) in self.values:
            return "+".join(names)
        for name in names:
            self.require(name)
        rows = zip(*([text(cell) for cell in self.values[name]] for name in names), strict=True)
        both = _objects([" / ".join(row) if all(row) else "" for row in rows])
        self.values = {**self.values, "+".join(names): both}
        return "+".join(names)

    def melted(self, names: Sequence[str]) -> tuple["Columns", str]:
        """(a table with a row for every cell of these columns, its column of these cells); HEADER has their names."""
        cells, long = cut("+".join(names), 60), copy.copy(self)
        values = {name: np.tile(values, len(names)) for name, values in self.values.items()}
        values[cells] = np.concatenate([self.values[name] for name in names])
        values[HEADER] = np.repeat(_objects(names), len(self.rows))
        long.values, long.rows = values, np.tile(self.rows, len(names))
        long.names = [name for name in self.names if name not in names]
        return long, cells

    def require(self, name: str, option: str | None = None) -> None:
        """Fail if there is no such column; `option` is the one that names it."""
        if name in self.types:
            self.fail(f"column {name} has type {self.types[name]}; it must hold numbers or text")
        if name in self.values:
            return
        small = {have.lower(): have for have in reversed(self.names)}
        hint = f"the columns are {listed(self.names)}"
        if near := nearest(name.lower(), small):
            hint = f"did you mean {option} {small[near]}?" if option else f"rename column {small[near]!r}?"
        elif len(self.names) == 1:
            hint = f"the header is {shown(self.names[0])}: separate its columns by commas"
        elif name in ROLES:
            hint += f"; say which it is with --columns {name}=COLUMN"
        self.fail(f"column {name} is missing; {hint}")

    def numeric(self, name: str) -> bool:
        """Whether a column has numbers, and nothing else but empty cells."""
        cells = [cell for cell in self.values.get(name, ()) if not missing(cell)]
        return bool(cells) and all(map(_numeric, cells))

    def numbers(self, name: str) -> FloatArray:
        """A column of finite numbers, shape (n_rows,)."""
        self.require(name)
        column = self.values[name]
        wrong = [not (value is None or _numeric(value)) for value in column]
        if any(wrong):
            comma = re.fullmatch(r"\s*[+-]?[\d.]*\d,\d+([eE][+-]?\d+)?\s*", str(column[wrong.index(True)]))
            fix = "has a comma; write decimals with a point, like 0.05, and a thousand as 1000"
            self.refuse(wrong, name, fix if comma else "is not a plain number; write it like 1000 or 1e-3")
        values = np.array([np.nan if value is None else value for value in column], dtype=float)
        self.refuse(~np.isfinite(values), name, "is not a finite number; correct it or remove the row")
        return values

    def counts(self, name: str) -> NDArray[np.int64]:
        """A column of sample sizes, shape (n_rows,); in the results of a study, fresh samples are one of them."""
        values = self.numbers(name)
        doubtful = [self.semicolons and bool(GROUPED.fullmatch(str(cell))) for cell in self.values[name]]
        self.refuse(doubtful, name, "may be thousands or a decimal fraction; write it without a point, like 2000 or 2")
        self.refuse(values != np.round(values), name, "is not an integer; give the number of samples")
        self.refuse(
            (values < 2) & ((values != FRESH) | ("p" not in self.values)),
            name,
            "is below 2, but the laws need log N > 0; remove the row",
        )
        self.refuse(values > LARGEST_N, name, f"is above {LARGEST_N:g}, the largest N allowed; remove the row")
        return values.astype(np.int64)

    def texts(self, name: str) -> NDArray[np.object_]:
        """A column of names, none of them empty; shape (n_rows,)."""
        self.require(name)
        values = _objects([text(value) for value in self.values[name]])
        self.refuse(values == "", name, "is empty; fill it in or remove the row")
        return values

    def names_in(self, name: str) -> NDArray[np.object_]:
        """A column of names that may be numbers, shape (n_rows,): 1.0 is the same as 1."""
        return _objects([re.sub(r"^(\d+)\.0*$", r"\1", value) for value in self.texts(name)])


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _python(values: Any) -> list[Any]:
    """The values of a column in memory; NaN, and what pandas has for it, stand for a missing one there."""
    cells = values.tolist() if hasattr(values, "tolist") else list(values)
    return [None if type(cell).__name__ == "NAType" or cell != cell else cell for cell in cells]


def _numeric(cell: object) -> bool:
    if isinstance(cell, str):
        return NUMBER.fullmatch(cell) is not None
    return not isinstance(cell, bool) and hasattr(cell, "__float__")


def text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()


def missing(cell: object) -> bool:
    """Whether a cell has no number, and says no more than that."""
    return cell is None or (isinstance(cell, str) and text(cell).lower() in MISSING)


def _points(columns: Values) -> Values:
    """Write numbers with a decimal point, where the table as a whole leaves no doubt about its commas."""
    cells = {cell for values in columns.values() for cell in values if isinstance(cell, str) and re.search(r"\d", cell)}
    if not any("," in cell for cell in cells):
        return columns
    point, comma = ({cell for cell in cells if pattern.fullmatch(cell)} for pattern in (POINT, COMMA))
    if bool(point - comma) == bool(comma - point):
        return columns
    pattern, remove, decimal = (COMMA, ".", ",") if comma - point else (POINT, ",", ".")

    numbers = {cell: cell.replace(remove, "").replace(decimal, ".") for cell in cells if pattern.fullmatch(cell)}

    return {name: _objects([numbers.get(cell, cell) for cell in values]) for name, values in columns.items()}


def shown(value: object) -> str:
    return repr(cut(value)) if isinstance(value, str) else cut(str(value))


def fail(path: str | PathLike[str], problem: str) -> NoReturn:
    raise KoctError(printable(f"{'standard input' if path == '-' else path}: {problem}"))
