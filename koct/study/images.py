"""The errors of every test image: images.parquet has a row for each image of each cell."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from koct import metrics
from koct.base.stamps import again, check_table, open_file
from koct.errors import KoctError

KEY = ("sweep", "arch", "N", "seed")


class Errors(NamedTuple):
    """A metric of the test images of one network at one N.

    Images that have no such metric are left out. Where every seed has images of its own, there is one column, with
    the mean of each seed.
    """

    values: np.ndarray  # (seeds, images)
    seeds: tuple[int, ...]
    groups: np.ndarray | None = None  # (images,): images of the same number belong together; None: each stands alone


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[pa.Table, bytes]:
    """(columns of images.parquet, their numbers as bytes) from rows of cells with what `evaluation.errors` kept.

    An image of one number is the same in all rows of a sweep. Metrics are rounded to the digits of float32, which
    halves the file.
    """
    counts = [len(row["images"][metrics.names()[0]]) for row in rows]
    kinds = (pa.string(), pa.string(), pa.int32(), pa.int32())
    keys = [{key: row[key] for key in KEY} for row in rows]
    cells = table_of(keys, pa.schema(list(zip(KEY, kinds, strict=True))))
    cells = cells.take(_column(np.repeat(np.arange(len(rows)), counts), pa.int64()))
    columns = {name: _column(_joined(row["images"][name] for row in rows), pa.float64()) for name in metrics.names()}
    places: dict[str, dict[int, int]] = {}
    image, group = [], []
    for row, count in zip(rows, counts, strict=True):
        held = row["images"]
        place = places.setdefault(row["sweep"], {}).setdefault(row["seed"], len(places[row["sweep"]]))
        image.append(np.arange(count) + (0 if held["same"] else place * count))
        sizes = held["groups"]
        group.append(np.repeat(np.arange(len(sizes)), sizes) if sizes else np.full(count, -1))
    joined = np.concatenate([np.zeros(0, int), *group])
    added = {
        "image": _column(np.concatenate([np.zeros(0, int), *image]), pa.int32()),
        "group": _column(joined, pa.int32(), joined >= 0),
        **columns,
    }
    for name, values in added.items():
        cells = cells.append_column(name, values)
    content = b"".join(bytes(buffer) for values in added.values() for buffer in values.buffers() if buffer is not None)
    return cells, json.dumps([list(key.values()) for key in keys]).encode() + content


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table, by way of JSON, since pyarrow imports pandas (0.3 s) to look at Python lists."""
    if not rows:
        return schema.empty_table()
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    return pa.json.read_json(io.BytesIO(lines), parse_options=pa.json.ParseOptions(explicit_schema=schema))


def _joined(lists: Any) -> np.ndarray:
    """Numbers of several lists one after the other, NaN for null."""
    parts = [np.array(values, dtype=float) for values in lists]  # None becomes NaN
    return np.concatenate([np.zeros(0), *parts]).astype(np.float32).astype(float)


def _column(values: np.ndarray, kind: Any, valid: np.ndarray | None = None) -> Any:
    """An array of Arrow, null where a value is NaN or not valid; from buffers, since `pa.array` imports pandas."""
    valid = values == values if valid is None else valid
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(data)])


def read_table(path: str) -> pa.Table:
    """Return a Parquet file of koct, if its checksum is right; one of an older koct is read too."""
    try:
        with open_file(path) as file:
            data = file.read()
        check_table(path, data)
        return pq.ParquetFile(pa.BufferReader(data)).read()  # pq.read_table would import pandas
    except FileNotFoundError:
        raise KoctError(f"{path} does not exist; `snakemake {path}` makes it") from None
    except (pa.ArrowException, OSError):
        raise KoctError(f"{path} is not a Parquet file; {again(path)}") from None


class Images:
    """An images.parquet."""

    def __init__(self, path: str):
        self.path, table = path, read_table(path)
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
