"""What a report reads: rows of a Parquet file, if it has the columns, the types and the values that koct writes."""

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
    """Return (rows of trained networks, rows of what needs no sample, provenance) of a file that has both."""
    both, origin = rows(path, columns, nullable, baselines=True)
    if not trained(both):
        raise KoctError(f"{path} has no row of a network that was trained; {_advice(path)}")
    return trained(both), without_samples(both), origin


def rows(path, columns, nullable=(), loose=(), empty=False, advice=None, baselines=False):
    """Return (rows, provenance) of a file that `koct.study.results.write` made; a KoctError says what it lacks.

    Columns that are `nullable` may be null, and those that are `loose` also NaN or infinite; `advice` ends the message.
    With `baselines`, N and p may both be 0.
    """
    advice = advice or _advice(path)
    _check_schema(path, [*columns, *nullable, *loose], advice)
    try:
        table, origin = read(path)
    except KoctError as error:
        raise KoctError(str(error).replace(again(path), advice)) from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError):
        raise KoctError(f"{path} is a Parquet file that koct has not made; {advice}") from None
    if not table and not empty:
        raise KoctError(f"{path} has no rows; {advice}")
    for i, row in enumerate(table, 1):
        least = 0 if baselines and row.get("N") == 0 else 1
        for name in (*columns, *nullable):
            wrong = "is null" if row[name] is None and name not in nullable else _wrong(name, row[name], least)
            if wrong:
                raise KoctError(f"{path}, row {i}: {name} {wrong}; {advice}")
    for key in ("koct.archs", "koct.sweeps"):
        try:
            described(origin, key)
        except KoctError as error:
            raise KoctError(f"{path}: {error}; {advice}") from None
    return table, origin


def _advice(path):
    """Return what to do about a file: only what the workflow has made can be made again."""
    return again(path) if "results" in os.path.normpath(path).split(os.sep) else "give a file that koct has made"


def _check_schema(path, columns, advice):
    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError, ValueError):
        return  # `read` says that it is no Parquet file
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise KoctError(f"{path} lacks the column {', '.join(missing)}; {advice}")
    for name in columns:
        if schema.names.count(name) > 1:
            raise KoctError(f"{path} has the column {name} twice; {advice}")
        kind, wanted = schema.field(name).type, COLUMNS[name][0]
        if not _fits(kind, wanted):
            raise KoctError(f"{path}: the column {name} holds {kind} and not {wanted}; {advice}")
    if count > MOST_ROWS:
        raise KoctError(f"{path} has {count:,} rows, more than any study; {advice}")


def _fits(kind, wanted):
    """Return whether values of a type can be used as those of another; a column of nulls is looked at later."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(kind):
        return True
    if pa.types.is_string(wanted):
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if pa.types.is_boolean(wanted):
        return pa.types.is_boolean(kind)
    return pa.types.is_integer(kind) or (pa.types.is_floating(wanted) and pa.types.is_floating(kind))


def _wrong(name, value, least):
    """Return what is wrong with a value, or nothing; counts are at least `least`."""
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
    table, origin = rows(path, LADDER, LADDER_NULLABLE, empty=True)
    if not table:
        raise KoctError("no sweep of this study has three or more networks, as a ladder needs; take another study")
    try:
        chains = json.loads(origin.get("koct.chains", "{}"))
        layers = [layer for archs in chains.values() for chain in archs.values() for layer in chain]
        right = all(isinstance(layer["name"], str) and isinstance(layer["p"], int) for layer in layers)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        right = False
    if not right:
        raise KoctError(f"{path}: the metadata koct.chains is not what koct writes; {again(path)}")
    order = {arch: place for place, arch in enumerate(described(origin, "koct.archs"))}
    table.sort(key=lambda row: order.get(row["arch"], len(order)))
    return table, origin, chains


def norms(path):
    """Return the operating points of a file that `koct.study.norms.compute` made."""
    try:
        content, _ = read_json(path)
    except KoctError as error:
        raise KoctError(str(error).replace(again(path), _advice(path))) from None
    points = content.get("points")
    if not isinstance(points, list) or not points or not all(map(_is_point, points)):
        raise KoctError(f"{path} has no list of operating points with their norms; {_advice(path)}")
    return points


def _is_point(point):
    if not isinstance(point, dict) or point.get("beam") not in ("parallel", "fan"):
        return False
    sizes, numbers = ("H", "V", "B"), ("filter_norm", "backprojection_norm", "reference")
    return all(type(point.get(key)) is int and 0 < point[key] < 10**9 for key in sizes) and all(
        type(point.get(key)) in (int, float) and 0 < point[key] < LARGEST for key in numbers
    )
