"""The result tables: what their columns mean, and how they are written to Parquet and read.

images.parquet has a row for each test image of each cell.
"""

import io
import itertools
import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from koct import metrics
from koct.base import FRESH, stamps
from koct.base.files import atomic_write
from koct.base.stamps import TABLE_KEY, VOLATILE, again, checksum_of, digest
from koct.errors import KoctError

OF_METRIC = "that of the metric"  # a unit
COLUMNS = {
    "sweep": (pa.string(), "name of the sweep in config.yaml", ""),
    "tested_on": (pa.string(), "sweep whose test pairs the errors are of; null: those of the sweep itself", ""),
    "problem": (pa.string(), "where pairs and the known operator come from", ""),
    "H": (pa.int32(), "image height and width; null if the problem has no such option", "pixel"),
    "V": (pa.int32(), "views; null if the problem has no such option", "1"),
    "B": (pa.int32(), "detector bins; null if the problem has no such option", "1"),
    "arch": (pa.string(), "architecture", ""),
    "N": (
        pa.int32(),
        "training samples: pairs, scans or images, or groups if the problem has them; 0: none needed; -1: fresh ones",
        "1",
    ),
    "seed": (pa.int32(), "seed of the pool", ""),
    "lam": (pa.float64(), "regularisation strength chosen by validation; null for a fit without one", "1"),
    "tuned_on": (
        pa.string(),
        "what chose lam or a checkpoint: training pairs, scans or images, validation pairs, or noise; null: nothing or "
        "unknown",
        "",
    ),
    "edge": (
        pa.bool_(),
        "whether lam, or steps if there is a gain, is the first or the last that was tried, and the next might have "
        "been better; null: unknown",
        "",
    ),
    "edges": (pa.int32(), "number of seeds whose choice was at an edge; null: unknown", "1"),
    "steps": (pa.int64(), "steps of the training, of a curve the most of all seeds; null: none, or unknown", "1"),
    "gain": (
        pa.float64(),
        "share of the validation loss that the last doubling of the steps gained, of a curve the most of all seeds; "
        "null if the number of steps was given, or there are none",
        "1",
    ),
    "losses": (
        pa.list_(pa.float64()),
        "validation losses of trainings of ever twice as many steps, the last of `steps`; null as gain",
        "1",
    ),
    "drawn": (
        pa.int64(),
        "pairs that stand for fresh ones: those of all steps, or for what is not trained by steps those of the pool; "
        "null unless N is -1",
        "1",
    ),
    "p": (pa.int64(), "learned parameters, counted", "1"),
    "val_mse": (
        pa.float64(),
        "mean squared error on validation pairs, if they chose something; null otherwise",
        "intensity^2",
    ),
    "fit_seconds": (pa.float64(), "wall time of the fit and the choice of lam", "s"),
    "image_seconds": (pa.float64(), "wall time for one of the test images, computed in batches; null if unknown", "s"),
    "device": (pa.string(), "what the fit was computed on", ""),
    "metric": (pa.string(), "which error: a metric, or with a 2 behind its name the square of its mean", ""),
    "error_mean": (pa.float64(), "the metric's mean over seeds", OF_METRIC),
    "error_std": (pa.float64(), "sample standard deviation over seeds; null for one seed", OF_METRIC),
    "seeds": (pa.int32(), "number of seeds", "1"),
    "floor": (pa.float64(), "smallest mean error of the curve", OF_METRIC),
    "sigma": (pa.float64(), "no-intercept slope of error - floor on log N / N", OF_METRIC),
}
METRICS = list(metrics.names())
COLUMNS |= {name: (pa.float64(), f"test {metrics.load(name).DESCRIPTION}", metrics.load(name).UNIT) for name in METRICS}
COLUMNS |= {
    "image": (pa.int32(), "number of the test image; an image of one number is the same in all rows of a sweep", ""),
    "group": (pa.int32(), "number of the test group that the image belongs to; null without groups", ""),
    "target": (pa.float64(), "the mean error to reach", OF_METRIC),
    "law": (pa.string(), "most probable law of the curve", ""),
    "n": (pa.int64(), "samples that reach the target; null if out of reach", "1"),
    "n_low": (pa.int64(), "lower end of the 90 % interval of n; null if out of reach", "1"),
    "n_high": (pa.int64(), "upper end of the 90 % interval of n; null if it has none", "1"),
    "probability": (pa.float64(), "that the target is reached, with at most a million times the largest N", "1"),
    "reachable": (pa.bool_(), "whether the target is reached with a probability of one half or more", ""),
    "at": (pa.int64(), "where error, error_low and error_high are: n, or the largest N if out of reach", "1"),
    "error": (pa.float64(), "the predicted error", OF_METRIC),
    "error_low": (pa.float64(), "lower end of its 90 % interval", OF_METRIC),
    "error_high": (pa.float64(), "upper end of its 90 % interval", OF_METRIC),
    "extrapolation": (pa.float64(), "n over the largest N that was run; null if out of reach", "1"),
    "reason": (pa.string(), "what to know about the answer", ""),
    "theory_n": (pa.int64(), "n by the predicted curve; null without one, or if out of reach within it", "1"),
    "theory_low": (pa.int64(), "lower end of the 90 % interval of theory_n; null if out of reach", "1"),
    "theory_high": (pa.int64(), "upper end of the 90 % interval of theory_n; null if out of reach", "1"),
    "theory_upto": (
        pa.int64(),
        "largest N of the predicted curve; 0 if it is not to be trusted anywhere, null without one",
        "1",
    ),
    "method": (pa.string(), "how the curve was predicted from pairs: spectral, subsets or fixed point", ""),
    "predicted": (pa.float64(), "predicted test mean squared error", "intensity^2"),
    "low": (pa.float64(), "lower end of the 90 % interval of the mean squared error of one cell", "intensity^2"),
    "high": (pa.float64(), "upper end of that interval", "intensity^2"),
    "pairs": (pa.int32(), "pairs that the prediction was made from, of a seed that no fit uses", "1"),
    "trusted": (pa.bool_(), "whether the prediction is to be trusted; if not, reason says why", ""),
    "known": (pa.int32(), "known layers of the network, its ReLU aside; null if it tells no chain", "1"),
    "learned": (pa.int32(), "learned layers of the network; null if it tells no chain", "1"),
    "rank": (pa.int32(), "1 for the smallest error_mean of the sweep at this N; equal ones share the rank", "1"),
    "mean_low": (pa.float64(), "lower end of the 90 % interval of error_mean over seeds and test images", OF_METRIC),
    "mean_high": (pa.float64(), "upper end of that interval; null for one seed", OF_METRIC),
    "best": (pa.bool_(), "whether its rank is 1", ""),
    "behind": (pa.float64(), "error_mean less that of the best", OF_METRIC),
    "beyond": (pa.bool_(), "whether the 90 % interval of its error over the best is above 1; null for one seed", ""),
    "versus": (pa.string(), "the architecture that arch is better than, from N on; null: never up to upto", ""),
    "N_low": (pa.int32(), "lower end of the 90 % interval of N; null if that is never, or if there is one seed", "1"),
    "N_high": (pa.int32(), "upper end of that interval; null if that is never, or if there is one seed", "1"),
    "upto": (pa.int32(), "the largest N at which the two were compared", "1"),
    "id": (pa.string(), "name of the claim", ""),
    "where": (pa.string(), "where the paper states it", ""),
    "statement": (pa.string(), "what it states", ""),
    "printed": (pa.string(), "what is printed: numbers, or the words that stand for one", ""),
    "computed": (pa.string(), "what the study gives, the number that decides if there are several", ""),
    "value": (pa.float64(), "that number; null if it is none, or infinite", "as printed"),
    "value_low": (pa.float64(), "lower end of its 90 % interval; null if it has none", "as printed"),
    "value_high": (pa.float64(), "upper end of that interval; null if it has none, or is infinite", "as printed"),
    "verdict": (pa.string(), "holds, holds in part, does not hold, or not computed in this study", ""),
    "why": (pa.string(), "the numbers behind the verdict, in a sentence", ""),
}
CELLS = ["sweep", "problem", "H", "V", "B", "arch", "N", "seed", "lam", "tuned_on", "edge", "steps"]
CELLS += ["gain", "losses", "drawn", "p"]
CELLS += ["val_mse", *METRICS, "fit_seconds", "image_seconds", "device"]
# what a row may lack, and older files do
UNTOLD = ["tested_on", "tuned_on", "edge", "edges", "steps", "gain", "losses", "drawn", "val_mse", "image_seconds"]
OPTIONAL = (*UNTOLD, *METRICS)  # null where a cell was made before there was the metric, or images have no such score
KEY = ("sweep", "arch", "N", "seed")
TRANSFER = ["sweep", "tested_on", *CELLS[1:]]
IMAGES = [*KEY, "image", "group", *METRICS]
CURVES = ["sweep", "problem", "H", "arch", "N", "metric", "error_mean", "error_std", "seeds", "tuned_on", "edges"]
CURVES += ["steps", "gain"]
CALIBRATION = ["sweep", "problem", "H", "V", "B", "arch", "metric", "p", "floor", "sigma"]
BUDGET = ["sweep", "problem", "H", "arch", "metric", "target", "law", "n", "n_low", "n_high", "reachable"]
BUDGET += ["probability", "at", "error", "error_low", "error_high", "extrapolation", "reason"]
BUDGET += ["theory_n", "theory_low", "theory_high", "theory_upto"]
THEORY = ["sweep", "problem", "H", "arch", "method", "N", "lam", "predicted", "low", "high", "trusted", "reason"]
THEORY += ["metric", "error", "error_low", "error_high", "pairs", "seed"]
LADDER = ["sweep", "problem", "H", "arch", "N", "metric", "p", "known", "learned", "rank", "error_mean"]
LADDER += ["mean_low", "mean_high", "seeds", "best", "behind", "beyond"]
CROSSINGS = ["sweep", "problem", "H", "arch", "versus", "metric", "N", "N_low", "N_high", "upto"]
CLAIMS = ["id", "where", "statement", "printed", "computed", "value", "value_low", "value_high", "verdict", "why"]


def best_lambda(rows):
    """Return the row with the smallest mean squared error at every N of a predicted curve."""
    return [min(group, key=lambda row: row["predicted"]) for _, group in sorted(grouped(rows, "N").items())]


def usable(rows):
    """The predicted curve at the best λ, up to the first N within the pairs where it is not to be trusted."""
    best = best_lambda(rows)
    flagged = (row["N"] for row in best if not row["trusted"] and row["N"] <= row["pairs"])
    end = next(flagged, math.inf)
    return [row for row in best if row["N"] < end]


def write(rows, columns, path, origin, stamp):
    """Rows (dicts; keys beyond `columns` are left out) as typed Parquet with units, provenance and a stamp.

    OPTIONAL values may be missing, and are null then.
    """
    rows = [{name: row.get(name) if name in OPTIONAL else row[name] for name in columns} for row in rows]
    lasting = [{name: value for name, value in row.items() if name not in VOLATILE} for row in rows]
    table = _table_of(rows, _schema(columns))
    about = {**stamp.about, **stamps.timings_of(rows)}
    _save(table, columns, path, origin, stamp._replace(content=checksum_of(lasting), about=about))


def write_images(rows, path, origin, stamp):
    """images.parquet from rows of cells, which have what `evaluation.errors` kept of test images under `images`.

    Metrics are rounded to the digits of float32, which halves the file.
    """
    keys = [{key: row[key] for key in KEY} for row in rows]
    counts = [len(row["images"]["mse"]) for row in rows]
    group = _joined([_groups(row["images"], count) for row, count in zip(rows, counts, strict=True)])
    columns = {"image": _column(_joined(_numbers(rows)), pa.int32()), "group": _column(group, pa.int32(), group >= 0)}
    for name in METRICS:
        values = [row["images"].get(name, [None] * count) for row, count in zip(rows, counts, strict=True)]
        rounded = _joined([np.array(value, float) for value in values]).astype(np.float32)  # None becomes NaN
        columns[name] = _column(rounded.astype(float), pa.float64())

    content = json.dumps([list(key.values()) for key in keys]).encode()
    table = _table_of(keys, _schema(KEY)).take(_column(np.repeat(np.arange(len(rows)), counts), pa.int64()))
    for name, values in columns.items():
        table = table.append_column(name, values)
        content += b"".join(bytes(buffer) for buffer in values.buffers() if buffer is not None)
    split = dict.fromkeys(METRICS, "BYTE_STREAM_SPLIT")  # bytes of the same place in a number together: a small file
    small = {"compression": "zstd", "use_dictionary": [*KEY, "image", "group"], "column_encoding": split}
    _save(table, IMAGES, path, origin, stamp._replace(content=digest(content)), **small)


def _numbers(rows):
    """Return the numbers of the test images of every cell: one number is one image in all rows of a sweep.

    Seeds have the same test images, or each others; the seeds of a sweep are then numbered as they come.
    """
    numbers, places = [], {}
    for row in rows:
        of_sweep = places.setdefault(row["sweep"], {})
        place = of_sweep.setdefault(row["seed"], len(of_sweep))
        count = len(row["images"]["mse"])
        numbers.append(np.arange(count) + (0 if row["images"]["same"] else place * count))
    return numbers


def _groups(images, count):
    """Return the number of the group of every test image of a cell; -1 without groups."""
    sizes = images["groups"]
    return np.repeat(np.arange(len(sizes)), sizes) if sizes else np.full(count, -1)


def _joined(arrays):
    return np.concatenate(arrays) if arrays else np.zeros(0)


def _table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table, by way of JSON, since pyarrow imports pandas (0.3 s) to look at Python lists."""
    if not rows:
        return schema.empty_table()
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    return pa.json.read_json(io.BytesIO(lines), parse_options=pa.json.ParseOptions(explicit_schema=schema))


def _column(values: np.ndarray, kind: Any, valid: np.ndarray | None = None) -> Any:
    """An array of Arrow, null where a value is NaN or not valid; from buffers, since `pa.array` imports pandas."""
    valid = values == values if valid is None else valid
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(data)])


def _schema(columns, metadata=None):
    """Types, descriptions and units of columns."""
    about = {name: {"description": description, "unit": unit} for name, (_, description, unit) in COLUMNS.items()}
    return pa.schema([pa.field(name, COLUMNS[name][0], metadata=about[name]) for name in columns], metadata=metadata)


def _save(table, columns, path, origin, stamp, **options):
    """Write a table with units, provenance and a stamp, which tells it from other tables of its job."""
    stamp = stamp._replace(about={**stamp.about, "file": os.path.basename(path)})
    table = table.cast(_schema(columns, {**origin, TABLE_KEY: stamp.text()}))
    with atomic_write(path, stamp) as temporary:
        pq.write_table(table, temporary, **options)


def _read_table(path: str) -> pa.Table:
    """Return a Parquet file of koct, if its checksum is right; one of an older koct is read too."""
    try:
        with stamps.open_file(path) as file:
            data = file.read()
        stamps.check_table(path, data)
        return pq.ParquetFile(pa.BufferReader(data)).read()  # pq.read_table would import pandas
    except FileNotFoundError:
        raise KoctError(f"{path} does not exist; `snakemake {path}` makes it") from None
    except (pa.ArrowException, OSError):
        raise KoctError(f"{path} is not a Parquet file; {again(path)}") from None


def read(path):
    """(rows, provenance) of a Parquet file that `write` made."""
    table = _read_table(path)
    metadata = (table.schema.metadata or {}).items()
    origin = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata}
    try:
        rows = table.to_pylist()
    except (ValueError, OverflowError, TypeError, NotImplementedError, pa.ArrowException):
        raise KoctError(f"{path} is a Parquet file that koct has not made; {again(path)}") from None
    return rows, {key: value for key, value in origin.items() if key.startswith("koct.") and key != TABLE_KEY}


def trained(rows):
    """The rows of networks that were trained on samples, a number of them."""
    return [row for row in rows if row["N"] > 0]


def fresh(rows):
    """The rows of networks that were trained on pairs that never repeat."""
    return [row for row in rows if row["N"] == FRESH]


def baselines(rows):
    """The rows of what needs no sample."""
    return [row for row in rows if row["N"] == 0]


def read_cells(path):
    """(rows of networks that were trained, rows of what needs no sample, provenance) of a cells.parquet."""
    rows, origin = read_all(path)
    return trained(rows), baselines(rows), origin


def read_all(path):
    """Return (rows, provenance) of a cells.parquet; metrics that it does not know are None."""
    rows, origin = read(path)
    rows = [{**dict.fromkeys(METRICS), **row} for row in rows]
    for name in (name for name in CELLS if name not in ("H", "V", "B", "lam", *OPTIONAL)):
        if any(row.get(name) is None for row in rows):
            raise KoctError(f"{path} has a row without a proper {name}; give the cells.parquet of a run")
    return rows, origin


def grouped(rows, *keys):
    """Lists of rows by their values of `keys`."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def commit():
    """The checkout's commit, marked if files differ from it; 'unknown' outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


# The errors of every test image


class Errors(NamedTuple):
    """A metric of the test images of one network at one N.

    Images that have no such metric are left out. Where every seed has images of its own, there is one column, with
    the mean of each seed.
    """

    values: np.ndarray  # (seeds, images)
    seeds: tuple[int, ...]
    groups: np.ndarray | None = None  # (images,): images of the same number belong together; None: each stands alone


class Images:
    """An images.parquet."""

    def __init__(self, path: str):
        self.path, table = path, _read_table(path)
        self.columns = {name: table[name].to_numpy() for name in table.column_names}
        missing = [name for name in (*KEY, "image", "group") if name not in self.columns]
        if missing:
            raise KoctError(f"{path} lacks the column {', '.join(missing)}; {again(path)}")
        self._rows: dict[tuple[str, str, int], dict[int, slice]] = {}
        ends = np.flatnonzero(np.any([self.columns[key][1:] != self.columns[key][:-1] for key in KEY], axis=0)) + 1
        for start, end in itertools.pairwise([0, *ends.tolist(), table.num_rows] if table.num_rows else []):
            sweep, arch, N, seed = (self.columns[key][start] for key in KEY)
            self._rows.setdefault((sweep, arch, int(N)), {})[int(seed)] = slice(start, end)

    def errors(self, sweep: str, arch: str, N: int, metric: str) -> Errors:
        """A metric of every test image, the seeds in ascending order."""
        cells = self._rows.get((sweep, arch, N))
        if cells is None or metric not in self.columns:
            raise KoctError(f"{self.path} has no {metric} of {arch} of {sweep} at N = {N}; {again(self.path)}")
        seeds = tuple(sorted(cells))
        values = [self.columns[metric][cells[seed]] for seed in seeds]
        images = [self.columns["image"][cells[seed]] for seed in seeds]
        if any(not np.array_equal(images[0], others) for others in images):
            return Errors(np.array([[np.nanmean(of)] for of in values]), seeds)
        together = np.array(values, float)
        seen = np.isfinite(together).all(axis=0)
        groups = self.columns["group"][cells[seeds[0]]]
        known = np.isfinite(groups.astype(float)).all()
        return Errors(together[:, seen], seeds, groups[seen].astype(int) if known else None)


def paired(errors: Errors, others: Errors) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays (seeds, images) of the same seeds; a network that was tested once serves every seed."""
    if len(others.seeds) == 1 < len(errors.seeds) and errors.values.shape[1] == others.values.shape[1] > 1:
        return errors.values, np.broadcast_to(others.values, errors.values.shape)
    seeds = [seed for seed in errors.seeds if seed in others.seeds]
    if not seeds or errors.values.shape[1] != others.values.shape[1]:
        raise KoctError("two networks of a sweep were tested on different seeds or images; make its cells again")
    return tuple(of.values[[of.seeds.index(seed) for seed in seeds]] for of in (errors, others))  # type: ignore[return-value]
