"""What a report reads: rows of a Parquet file, if it has the columns, the types and the values that koct writes."""

import contextlib
import json
import math
import os

import pyarrow as pa
import pyarrow.parquet as pq

from koct import metrics
from koct.base.files import read_json
from koct.base.stamps import again
from koct.errors import KoctError
from koct.report.labels import described
from koct.study.results import COLUMNS, read, trained
from koct.study.results import baselines as without_samples

MOST_ROWS = 1_000_000  # far above any study
LARGEST = 1e100  # of a number: its square is one, too
COUNTS = ("N", "p", "seeds")
LADDER = ("sweep", "arch", "N", "metric", "p", "rank", "error_mean", "best", "behind")
LADDER_NULLABLE = ("H", "known", "learned", "mean_low", "mean_high", "beyond")


def split(path, columns, nullable=()):
    """(rows of trained networks, rows of what needs no sample, provenance) of a file that has both."""
    found, origin = rows(path, columns, nullable, baselines=True)
    if not trained(found):
        raise KoctError(f"{path} has no row of a network that was trained; {_advice(path)}")
    return trained(found), without_samples(found), origin


def rows(path, columns, nullable=(), loose=(), empty=False, advice=None, baselines=False):
    """(rows, provenance) of a file that `koct.study.results.write` made; a KoctError says what it lacks.

    Columns that are `nullable` may be null, and those that are `loose` also NaN or infinite; `advice` ends the message.
    With `baselines`, N and p may both be 0.
    """
    advice = advice or _advice(path)
    _check_schema(path, [*columns, *nullable, *loose], advice)
    try:
        found, origin = read(path)
    except KoctError as error:
        raise KoctError(str(error).replace(again(path), advice)) from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError):
        raise KoctError(f"{path} is a Parquet file that koct has not made; {advice}") from None
    if not found and not empty:
        raise KoctError(f"{path} has no rows; {advice}")
    for i, row in enumerate(found, 1):
        for name in (*columns, *nullable):
            least = 0 if baselines and row.get("N") == 0 else 1
            wrong = "is null" if row[name] is None and name not in nullable else _wrong(name, row[name], least)
            if wrong:
                raise KoctError(f"{path}, row {i}: {name} {wrong}; {advice}")
    for key in ("koct.archs", "koct.sweeps"):
        try:
            described(origin, key)
        except KoctError as error:
            raise KoctError(f"{path}: {error}; {advice}") from None
    return found, origin


def _advice(path):
    """Only what the workflow has made can be made again."""
    return again(path) if "results" in os.path.normpath(path).split(os.sep) else "give a file that koct has made"


def _check_schema(path, columns, advice):
    """What is no Parquet file at all is left to `read`."""
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
            names = schema.names
        missing = [name for name in columns if name not in names]
        if missing:
            raise KoctError(f"{path} lacks the column {', '.join(missing)}; {advice}")
        for name in columns:
            if names.count(name) > 1:
                raise KoctError(f"{path} has the column {name} twice; {advice}")
            if not _fits(schema.field(name).type, COLUMNS[name][0]):
                raise KoctError(
                    f"{path}: the column {name} holds {schema.field(name).type} and not {COLUMNS[name][0]}; {advice}"
                )
        if count > MOST_ROWS:
            raise KoctError(f"{path} has {count:,} rows, more than any study; {advice}")


def _fits(kind, wanted):
    """Whether values of a type can be used as those of another; a column of nulls is looked at later."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(kind):
        return True
    if pa.types.is_string(wanted):
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if pa.types.is_boolean(wanted):
        return pa.types.is_boolean(kind)
    return pa.types.is_integer(kind) or (pa.types.is_floating(wanted) and pa.types.is_floating(kind))


def _wrong(name, value, least):
    """What is wrong with a value, or nothing; counts are at least `least`."""
    if name == "metric" and (wrong := metrics.wrong_metric(value)):
        return f"is {value!r}, which {wrong}"
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, int | float) and abs(value) > LARGEST:
        return f"is {value:g}, which is too large"
    if name in COUNTS and value is not None and value < least:
        return f"is {value}, and must be at least {least}"
    return ""


def predictions(path):
    """Return (rows, provenance) of a theory.parquet."""
    columns = ("sweep", "arch", "N", "metric", "predicted", "low", "high", "pairs", "trusted")
    return rows(path, columns, ("H", "lam", "error", "error_low", "error_high"), empty=True)


def ladder(path):
    """Return (rows in the study's order of networks, provenance, {sweep: {arch: layers}}) of a ladder.parquet."""
    found, origin = rows(path, LADDER, LADDER_NULLABLE, empty=True)
    if not found:
        raise KoctError("no sweep of this study has three or more networks, as a ladder needs; take another study")
    try:
        chains = json.loads(origin.get("koct.chains", "{}"))
        for layer in (layer for told in chains.values() for chain in told.values() for layer in chain):
            if not isinstance(layer["name"], str) or not isinstance(layer["p"], int):
                raise TypeError
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise KoctError(f"{path}: the metadata koct.chains is not what koct writes; {again(path)}") from None
    listed = list(described(origin, "koct.archs"))
    found.sort(key=lambda row: listed.index(row["arch"]) if row["arch"] in listed else len(listed))
    return found, origin, chains


def norms(path):
    """The operating points of a file that `koct.study.norms.compute` made."""
    try:
        content, _ = read_json(path)
    except KoctError as error:
        raise KoctError(str(error).replace(again(path), _advice(path))) from None
    points = content.get("points")
    if not isinstance(points, list) or not points or not all(isinstance(point, dict) for point in points):
        raise KoctError(f"{path} has no list of points; {_advice(path)}")
    for i, point in enumerate(points, 1):
        wrong = [key for key in ("H", "V", "B") if type(point.get(key)) is not int or not 0 < point[key] < 10**9]
        wrong += [key for key in ("filter_norm", "backprojection_norm", "reference") if not _is_size(point.get(key))]
        wrong += [] if point.get("beam") in ("parallel", "fan") else ["beam"]
        if wrong:
            value = repr(point.get(wrong[0]))[:60]
            raise KoctError(f"{path}, point {i}: {wrong[0]} = {value} is no such value; {_advice(path)}")
    return points


def _is_size(value):
    return type(value) in (int, float) and 0 < value < LARGEST
