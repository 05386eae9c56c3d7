"""Read a pilot study: any table with one row per run, in CSV, Parquet or memory.

It needs a column with the number of samples N and one with the error, and may have a seed, an architecture and a group.
Their names are recognised by synonyms, or given.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from koct.base import FRESH
from koct.base.messages import counted, listed, printable
from koct.errors import KoctError
from koct.forecast import scores
from koct.forecast.columns import HEADER, LARGEST_N, ROLES, Columns, fail, missing, shown, text
from koct.forecast.runs import MAX_ERROR, MIN_ERROR, FloatArray, Pilot, told_sizes
from koct.forecast.scores import Score

LARGEST_FILE = 2**26  # bytes: far above any pilot
MOST_ARCHS = 64
ONLY_ARCH = "pilot"  # the name where there is no column arch
COSTS = ("seconds", "cost", "fit_seconds")  # columns with the cost of a run; the first of them counts
RATES = ("error", "error_rate")  # metrics that are taken for error rates if there is a column test_size
OWN = ("p", "sweep", "group", "test_size", *COSTS)  # further columns that have a meaning under these names only

# What a role may be called, in small letters and without anything between the words
OF = "(test|val|valid|validation|eval|mean|avg)"
SYNONYMS = {
    "N": r"n|samples?|(training|train)?examples|(n|num|number|no|nr)(of)?(train|training)?(samples|examples)"
    r"|(n|num)(train|training)|(sample|train|training|dataset|data|trainset|trainingset)size|(train|training)samples",
    "error": rf"{OF}*(error|err|errorrate|loss|mse|rmse|nmse|nrmse|rrmse|rrmsepeak|rrmsenorm|mae){OF}?",
    "arch": "(arch|architecture|model|method|network|net|algorithm|estimator)(name|type)?",
    "seed": "seed|run|fold|repeat|repetition|replicate|rep|trial|randomstate|(run|seed|fold|trial)(id|no|number)",
}
OTHER_FORMATS = {  # by the bytes that a file begins with
    b"PK\x03\x04": "is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV",
    b"\x1f\x8b": "is compressed (gzip); unpack it first",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
}


def plain(name: str) -> str:
    """`ntrain` for `n_train`, `N train` and `nTrain`."""
    return re.sub(r"[\W_]", "", name).lower()


def named_columns(columns: str | Mapping[str, str] | None) -> dict[str, list[str]]:
    """{role: its columns} of `N=n_train,arch=model+size`, or of a dictionary."""
    if isinstance(columns, str):
        parts = [part.partition("=")[::2] for part in columns.split(",")]
    else:
        parts = list((columns or {}).items())
    found: dict[str, list[str]] = {}
    for role, value in parts:
        known = next((name for name in ROLES if name.lower() == role.strip().lower()), None)
        if known is None or not value.strip():
            problem = f"--columns {role}={value} is not ROLE=COLUMN with one of the roles {', '.join(ROLES)}"
            raise KoctError(printable(f"{problem}; write it like --columns N=n_train,error=val_loss"))
        found.setdefault(known, []).extend(name.strip() for name in value.split("+"))
    return found


class PilotFile:
    """A pilot study in a file, which is read once, so that it may be a pipe, or in memory.

    Parameters
    ----------
    source : the path of a CSV or Parquet file, "-" for standard input, a DataFrame, or {column: values}

    Attributes
    ----------
    path : the file
    data : its bytes; none of a table in memory
    notes : what was understood of it, and what was not used, one sentence each
    """

    def __init__(self, source: Any) -> None:
        self.notes: list[str] = []
        self.data = b""
        self.path: str | PathLike[str] = "the table"
        self._source = source
        if isinstance(source, str | PathLike):
            self.path = source
            self._source = self.data = self._read(source)

    def _read(self, path: str | PathLike[str]) -> bytes:
        try:
            if path == "-":
                data = sys.stdin.buffer.read(LARGEST_FILE + 1)
            else:
                with open(path, "rb") as file:
                    data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            cells = os.path.join(path, "cells.parquet")
            instead = f"take {cells}" if os.path.exists(cells) else "give the path of a pilot file"
            raise KoctError(f"{path} cannot be read: {error.strerror}; {instead}") from None
        if len(data) > LARGEST_FILE:
            fail(path, f"the file has over {LARGEST_FILE >> 20} MiB; a pilot needs one row per run and four columns")
        if problem := next((why for start, why in OTHER_FORMATS.items() if data.startswith(start)), None):
            fail(path, f"the file {problem}")
        if not data.startswith(b"PAR1"):
            data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        if not data.strip():
            fail(path, "the file is empty; it needs a header line and one row per run")
        return data

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

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.path, self._source)

    def sweeps(self) -> list[str | None]:
        """The values in the column sweep, in their order; None alone if there is no such column."""
        return list(dict.fromkeys(self._columns.texts("sweep"))) if "sweep" in self._columns.names else [None]

    def metric(
        self,
        metric: str | None = None,
        sweep: str | None = None,
        higher: float | None = None,
        columns: str | Mapping[str, str] | None = None,
        **_: Any,
    ) -> str | None:
        """The metric to read: the one that is named, or else the only column that can be it.

        None stands for the column error, or score with `higher`, or for a table with a column for every run or arch.
        """
        table, named = self._columns.of_sweep(sweep), named_columns(columns)
        given = named.get("error", [])
        if metric is not None and given not in ([], [metric]):
            raise KoctError(
                f"--metric {metric} and --columns error={'+'.join(given)} name two columns; give one of them"
            )
        if metric is not None or len(given) > 1:
            return metric
        if given:
            return given[0]
        called = "error" if higher is None else "score"
        if called in table.names:
            return None
        names = [name for name in table.names if name not in named.get("ignore", [])]
        found = [name for name in names if re.fullmatch(SYNONYMS["error"], plain(name))] if higher is None else []
        found = found or [name for name in names if scores.plain(name) in scores.KNOWN]
        if len(found) > 1 or (found and higher is not None):
            table.fail(f"column {called} is missing; choose another with --metric: {listed(found)}")
        stems = {stem for name in names if scores.plain(stem := _stem(name)) in scores.KNOWN and stem != name}
        return found[0] if found else stems.pop() if len(stems) == 1 else None

    def pilots(
        self,
        metric: str | None = None,
        sweep: str | None = None,
        higher: float | None = None,
        group: str | None = None,
        test_size: int | None = None,
        columns: str | Mapping[str, str] | None = None,
    ) -> dict[str, Pilot]:
        """{arch: Pilot}.

        Parameters
        ----------
        metric : the column with the error; if there is no such column but its name ends in 2, it stands for the square
            of the column without the 2. If it is a score, such as an accuracy, the errors are those of
            `koct.forecast.scores`. By default the only column that can be it.
        sweep : take the rows with this value in the column sweep
        higher : the column is a score, where higher is better, and this is the best one
        group : the column with the groups; by default the column group, if there is one
        test_size : how many test samples an error rate was counted on; by default the smallest value in the column
            test_size, if there is one
        columns : what the columns are, like "N=n_train,error=val_loss,arch=model"; by default, as far as synonyms tell.
            `arch=model+size` takes both together, `error=unet+fbp` is a table with a column for every architecture, and
            `ignore=notes` leaves out a column.
        """
        understood = self.metric(metric, sweep, higher, columns)
        score = scores.named(understood, higher)
        given = named_columns(columns)
        if group is not None:
            self._columns.require(group, "--group")
            given["group"] = [group]
        table, roles, power = _roles(self._columns.of_sweep(sweep), understood, score, given)
        used = {*roles.values(), *OWN, *(name for names in given.values() for name in names)}
        used |= {"steps", "drawn", "gain", "edge"} if "p" in table.names else set()  # on fresh samples, in a study
        unused = [name for name in table.names if name not in used]
        self._say(roles, {*given, *(["error"] if metric else [])}, unused, score)
        table = self._filled(table, roles)
        N, error = table.counts(roles["N"]), _errors(table, roles["error"], power, score)
        seed, groups = (table.names_in(roles[role]) if role in roles else None for role in ("seed", "group"))
        sizes = self._test_sizes(table, understood, score, error, test_size, roles["error"])
        archs, arch = np.unique(_archs(table, roles.get("arch")), return_inverse=True)
        if len(archs) > MOST_ARCHS:
            named = roles["arch"]
            table.fail(f"column {named} has {len(archs):,} different values; keep {MOST_ARCHS} of them, or fewer")
        key = [arch.tolist(), N.tolist(), *(column.tolist() for column in (seed, groups) if column is not None)]
        _check_repeats(table, list(zip(*key, strict=True)), roles, unused)
        pilots, unfinished = {}, []
        for i, name in enumerate(archs):
            rows = np.flatnonzero(arch == i)
            if np.any(N[rows] == FRESH):
                runs = [table.row(row) | {"N": N[row]} for row in rows.tolist()]
                told = told_sizes(runs)
                if any(size is None and run.get("steps") is not None for size, run in zip(told, runs, strict=True)):
                    unfinished.append(str(name))
                rows = rows[[size is not None for size in told]]
                N[rows] = [size for size in told if size is not None]
            own_seed, own_group = (None if column is None else column[rows] for column in (seed, groups))
            own_size = None if sizes is None else int(sizes[rows].min())
            try:
                pilots[str(name)] = Pilot.from_points(N[rows], error[rows], own_seed, own_group, own_size)
            except KoctError as reason:
                table.fail(f"arch {name}: {reason}")
        if unfinished:
            of = f"fresh samples of {listed(unfinished)}"
            self.notes.append(printable(f"{of} are left out, since trainings were not finished"))
        return pilots

    def _say(self, roles: Mapping[str, str], given: set[str], unused: Sequence[str], score: Score | None) -> None:
        """Note what was understood without being told, and what is not used; nothing of a file that koct has made."""
        called = {role: "score" if role == "error" and score else role for role in roles if role not in given}
        guessed = [f"{word} from {roles[role]}" for role, word in called.items() if word != roles[role]]
        parts = [", ".join(guessed)] if guessed else []
        parts += [f"not used: {listed(unused)}"] if unused else []
        if parts and not self.origin:
            self.notes.append(printable("; ".join(parts)))

    def _filled(self, table: Columns, roles: Mapping[str, str]) -> Columns:
        """The rows that have a cell in every column of a role; a note says how many have not."""
        wide = HEADER in roles.values()
        for name in roles.values():
            table.require(name)
            number = name in (roles["N"], roles["error"])
            empty = [missing(cell) if number else not text(cell) for cell in table.values[name]]
            if 2 * sum(empty) > len(empty) and not wide:
                table.refuse(empty, name, "is empty, as in most rows; fill it in, or remove these rows")
            if any(empty):
                rows = f"{sum(empty):,} of {counted(len(empty), 'cell' if wide else 'row')}"
                self.notes.append(printable(f"{rows} left out, since {name} is empty there"))
                table = table.select(~np.array(empty))
        return table

    def costs(self, sweep: str | None = None, columns: Any = None) -> tuple[str, dict[str, FloatArray]] | None:
        """(column, {arch: N and cost of every run, shape (2, n_runs)}); None if there is no column of costs."""
        column = next((name for name in COSTS if name in self._columns.names), None)
        if column is None:
            return None
        table, given = self._columns.of_sweep(sweep), named_columns(columns)
        size, kind = _role(table, "N", given) or "N", _role(table, "arch", given)
        for name in (size, column):
            table.require(name)
        cells = zip(table.values[size], table.values[column], strict=True)
        table = table.select(np.array([not any(map(missing, row)) and row[0] != FRESH for row in cells]))
        N, cost, arch = table.counts(size), table.numbers(column), _archs(table, kind)
        extreme = ~((cost >= MIN_ERROR) & (cost <= MAX_ERROR))
        table.refuse(extreme, column, "is not above 0, or too large to compute with; correct it or remove the column")
        return column, {str(name): np.stack([N[arch == name], cost[arch == name]]) for name in np.unique(arch)}

    def _test_sizes(
        self,
        columns: Columns,
        metric: str | None,
        score: Score | None,
        error: FloatArray,
        test_size: int | None,
        column: str,
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
        columns.refuse(error > 1, column, f"has an error above 1, but a test size is for rates; {fix}")
        return sizes


def _roles(
    table: Columns, metric: str | None, score: Score | None, given: Mapping[str, Sequence[str]]
) -> tuple[Columns, dict[str, str], int]:
    """(the table with a row for every run, {role: its column}, the power to take of the errors)."""
    for ignored in given.get("ignore", []):
        table.require(ignored)
    roles = {role: _role(table, role, given) for role in ("N", "arch", "seed")}
    if "group" in given or "group" in table.names:
        roles["group"] = table.joined(given.get("group", ["group"]))
    names, power = _errors_in(table, metric, score, given.get("error", []))
    roles["error"] = names[0]
    if len(names) > 1:
        role = "seed" if _of_runs(names) else "arch"
        if roles[role]:
            fix = f"the columns {listed(names)} would be one each; keep one column of errors"
            table.fail(f"column {roles[role]} says which {role} a row is of, and {fix}")
        table, roles["error"] = table.melted(names)
        roles[role] = HEADER
    found = {role: name for role in ("N", "error", "arch", "seed", "group") if (name := roles.get(role))}
    return table, found, power


def _role(table: Columns, role: str, given: Mapping[str, Sequence[str]]) -> str | None:
    """The column of a role: the one that is named, that of its own name, or the only one with a synonym of it."""
    if role in given:
        return table.joined(given[role])
    taken = [name for names in given.values() for name in names]
    if role in table.names and role not in taken:
        return role
    found = [name for name in table.names if re.fullmatch(SYNONYMS[role], plain(name)) and name not in taken]
    if len(found) > 1:
        both = "" if role == "N" else f", or {role}={'+'.join(found)} for all of them together"
        table.fail(f"columns {listed(found)} may each be the {role}; say which with --columns {role}={found[0]}{both}")
    if role == "N" and not found:
        table.require(role)
    return found[0] if found else None


def _archs(columns: Columns, column: str | None) -> NDArray[np.str_]:
    """The architecture of every row, shape (n_rows,)."""
    return np.full(len(columns.rows), ONLY_ARCH) if column is None else columns.texts(column).astype(str)


def _stem(name: str) -> str:
    """`run` for `run_1`."""
    return re.sub(r"[\s_.-]*\d+$", "", name)


def _of_runs(names: Sequence[str]) -> bool:
    """Whether columns have a run each: their names are a word for a seed or a metric, or none, and a number."""
    stems = {_stem(name) for name in names}
    words = rf"({SYNONYMS['seed']}|{SYNONYMS['error']})?"
    return len(stems) == 1 and any(re.fullmatch(words, plain(s)) or scores.plain(s) in scores.KNOWN for s in stems)


def _errors_in(table: Columns, metric: str | None, score: Score | None, given: Sequence[str]) -> tuple[list[str], int]:
    """(the columns with the errors, the power to take of them); there are several where each has one run or arch."""
    if len(given) > 1:
        for name in given:
            table.require(name)
        return list(given), 1
    name = metric or ("error" if score is None else "score")
    if name in table.names:
        return [name], 1
    if name.endswith("2") and name[:-1] in table.names:
        if scores.plain(name[:-1]) in scores.KNOWN:
            table.fail(f"--metric {name} is the square of a score, and no error; take --metric {name[:-1]}")
        return [name[:-1]], 2
    runs = [have for have in table.names if _stem(have) != have and _of_runs([have]) and table.numeric(have)]
    runs = [have for have in runs if metric in (None, _stem(have))]
    if len(runs) > 1 and _of_runs(runs):
        return runs, 1
    others = [have for have in table.names if table.numeric(have) and have not in OWN and not _known(have)]
    if metric is None and len(others) > 1:
        fix = f"say which it is with --columns error={others[0]}; if each has the errors of one arch, "
        table.fail(f"column {name} is missing; {fix}--columns error={'+'.join(others)}")
    table.require(name, None if metric is None else "--metric")
    return [name], 1


def _known(name: str) -> bool:
    return any(re.fullmatch(words, plain(name)) for words in SYNONYMS.values())


def _errors(columns: Columns, name: str, power: int, score: Score | None) -> FloatArray:
    """The errors in a column, shape (n_rows,); of a score, those of its values."""
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


def _check_repeats(
    table: Columns, runs: Sequence[tuple[Any, ...]], roles: Mapping[str, str], unused: Sequence[str]
) -> None:
    """Refuse runs that look alike and are not: of one seed twice, or of different kinds by a column that is not used.

    A column with a value of its own in every row tells no kinds apart.
    """
    first: dict[tuple[Any, ...], int] = {}
    before = np.array([first.setdefault(run, row) for row, run in enumerate(runs)])
    again = before != np.arange(len(runs))
    texts = {name: table.values[name].astype(str) for name in unused if name in table.values}
    differ = [name for name, cells in texts.items() if np.any(cells[again] != cells[before[again]])]
    differ = [name for name in differ if len(set(texts[name])) < len(runs)]
    if "seed" not in roles:
        differ = [name for name in differ if not table.numeric(name) or _crossed(runs, texts[name])]
        if differ:
            name = differ[0]
            table.fail(
                f"column {name} has several values at the same N, and is not understood; give --columns "
                f"arch={_plus(roles, 'arch', name)} for a curve of each value, seed={name} if it numbers runs of one "
                f"curve, group={name} if runs with the same value are not independent, or ignore={name}"
            )
        return
    fix = "keep one of the rows"
    if differ:
        name = differ[0]
        fix = (
            f"column {name} differs: give --columns arch={_plus(roles, 'arch', name)} for a curve of each value, or "
            f"--columns seed={_plus(roles, 'seed', name)} if all are runs of one curve"
        )
    table.refuse(again, roles["seed"], f"repeats an earlier run at the same N; {fix}")


def _crossed(runs: Sequence[tuple[Any, ...]], cells: NDArray[np.str_]) -> bool:
    """Whether a column has the same values at every N, as a setting has, and a measurement has not."""
    values: dict[tuple[Any, ...], set[str]] = {}
    for run, cell in zip(runs, cells.tolist(), strict=True):
        values.setdefault(run, set()).add(cell)
    return len(set(map(frozenset, values.values()))) == 1


def _plus(roles: Mapping[str, str], role: str, name: str) -> str:
    return f"{roles[role]}+{name}" if role in roles else name
