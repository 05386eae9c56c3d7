"""Random damage to bytes, to texts and to values as JSON has them, and foreign files that are valid of their kind."""

import copy
import datetime
import decimal
import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TOKENS = ["nan", "inf", "-inf", "1e999", "-1", "0", "", "0,05", "1_000", "٣", "9" * 60, "1e-400", "null", "true", "x"]
TOKENS += ["=1+1", '"', "'", ";", "\t", "\0", "\r", "\ufeff", "a" * 200_000, "{", "[", "&a", "*a", "!!python/object:x"]
JUNK = [None, True, False, 0, 1, -1, 2, 1.5, float("nan"), float("inf"), 1e308, -1e-320, 10**30, -(10**400), "", "x"]
JUNK += [
    "nan",
    "\0",
    "\ud800",
    "$",
    "\\",
    "../x",
    "1",
    "mse",
    "ko",
    [],
    {},
    [1],
    [[]],
    {"x": 1},
    [None],
    [1, 1],
    "é" * 999,
]


def damaged(data, rng, others=()):
    """Bytes with one kind of damage, or several."""
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = rng.choice([flip, flip, truncate, cut, repeat, insert, token, splice, lines, noise])(data, rng, others)
    return data


def flip(data, rng, others):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8, 64]) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def truncate(data, rng, others):
    return data[: rng.randrange(len(data) + 1)]


def _slice(data, rng):
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice([1, 2, 4, 30, 500]))


def cut(data, rng, others):
    start, end = _slice(data, rng)
    return data[:start] + data[end:]


def repeat(data, rng, others):
    start, end = _slice(data, rng)
    return data[:end] + data[start:end] * rng.choice([1, 1, 3, 100]) + data[end:]


def insert(data, rng, others):
    start, _ = _slice(data, rng)
    return data[:start] + rng.randbytes(rng.choice([1, 2, 8, 100])) + data[start:]


def token(data, rng, others):
    """Something that a person or a spreadsheet might write, often in place of a number."""
    new = rng.choice(TOKENS).encode()
    places = [i for i, letter in enumerate(data[:20_000]) if chr(letter).isdigit()]
    if not places or rng.random() < 0.2:
        start, end = _slice(data, rng)
    else:
        start = end = rng.choice(places)
        while end < len(data) and chr(data[end]) in "0123456789.e-":
            end += 1
    return data[:start] + new + data[end:]


def splice(data, rng, others):
    other = rng.choice(others) if others else data
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def lines(data, rng, others):
    found = data.split(b"\n")
    if rng.random() < 0.5:
        rng.shuffle(found)
    else:
        found[rng.randrange(len(found))] = rng.choice(found)
    return b"\n".join(found)


def noise(data, rng, others):
    return rng.randbytes(rng.choice([0, 1, 4, 100, 5000])) if rng.random() < 0.3 else data


def foreign(rng):
    """A file of some other program."""
    text = rng.choice(["N,error\n4,0.1\n8,0.05\n", "{}", "[]", "a: 1\n", "hello", ""])
    return rng.choice(FOREIGN)(text)


def _zipped(text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("xl/workbook.xml", text)
    return buffer.getvalue()


def _array(text):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(4.0))
    return buffer.getvalue()


FOREIGN = [
    lambda text: text.encode(),
    lambda text: text.encode("utf-16"),
    lambda text: text.encode("utf-16-le"),
    lambda text: b"\xef\xbb\xbf" + text.encode(),
    lambda text: gzip.compress(text.encode()),
    _zipped,
    _array,
    lambda text: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    lambda text: b"\x89PNG\r\n\x1a\n" + bytes(20),
    lambda text: b"%PDF-1.4\n",
    lambda text: json.dumps([{"N": 4}] * 3).encode(),
    lambda text: bytes(1000),
    lambda text: b"[" * 100_000,
    lambda text: b"{a: " * 5000,
    lambda text: b",".join(b"c%d" % i for i in range(20_000)),
    lambda text: b"x" * 300_000,
]


COLUMNS = {
    "whole": lambda n, rng: pa.array([rng.choice([0, 1, 4, 8, -1, 2**31 - 1]) for _ in range(n)], pa.int32()),
    "long": lambda n, rng: pa.array([rng.choice([0, 4, 2**63 - 1]) for _ in range(n)], pa.int64()),
    "unsigned": lambda n, rng: pa.array([rng.choice([2, 2**64 - 1]) for _ in range(n)], pa.uint64()),
    "real": lambda n, rng: pa.array([rng.choice([0.1, 0.0, -1.0, 1e300, float("nan")]) for _ in range(n)]),
    "half": lambda n, rng: pa.array(np.full(n, 0.5, np.float16)),
    "nulls": lambda n, rng: pa.nulls(n),
    "some nulls": lambda n, rng: pa.array([rng.choice([None, 1.0, 4.0]) for _ in range(n)], pa.float64()),
    "text": lambda n, rng: pa.array([rng.choice(["ko", "fc", "mse", "", "0,05", "1", "$", "é"]) for _ in range(n)]),
    "numbers in text": lambda n, rng: pa.array([str(4 * 2**i) for i in range(n)], pa.large_string()),
    "view": lambda n, rng: pa.array(["a"] * n, pa.string_view()),
    "bytes": lambda n, rng: pa.array([rng.randbytes(3) for _ in range(n)], pa.binary()),
    "truth": lambda n, rng: pa.array([rng.random() < 0.5 for _ in range(n)]),
    "list": lambda n, rng: pa.array([[1, 2]] * n),
    "struct": lambda n, rng: pa.array([{"a": 1, "b": None}] * n, pa.struct([("a", pa.int8()), ("b", pa.string())])),
    "map": lambda n, rng: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int8())),
    "category": lambda n, rng: pa.array([rng.choice(["ko", "fc"]) for _ in range(n)]).dictionary_encode(),
    "number category": lambda n, rng: pa.array([rng.choice([4, 8]) for _ in range(n)]).dictionary_encode(),
    "decimal": lambda n, rng: pa.array([decimal.Decimal("0.05")] * n, pa.decimal128(10, 2)),
    "wide decimal": lambda n, rng: pa.array([decimal.Decimal("9" * 60)] * n, pa.decimal256(70, 2)),
    "time": lambda n, rng: pa.array([2**62] * n, pa.timestamp("ns")),
    "far time": lambda n, rng: pa.array([2**60] * n, pa.timestamp("us")),
    "day": lambda n, rng: pa.array([datetime.date(2024, 1, 1)] * n),
    "span": lambda n, rng: pa.array([1] * n, pa.duration("s")),
}
NAMES = ["N", "error", "seed", "arch", "sweep", "mse", "a.b", "", "é", "H"]


def table(rng, wanted=None):
    """A Parquet file that another program might have written, or one like `wanted` with other columns."""
    if wanted is None:
        n = rng.choice([0, 1, 2, 6, 50])
        names = rng.sample(NAMES, rng.randrange(len(NAMES))) + rng.choice([[], [], ["N", "N"]])
        columns = [rng.choice(list(COLUMNS.values()))(n, rng) for _ in names]
        metadata = {rng.randbytes(3): rng.randbytes(5)} if rng.random() < 0.3 else None
        schema = pa.schema(zip(names, (column.type for column in columns), strict=True), metadata)
        found = pa.Table.from_arrays(columns, schema=schema)
    else:
        found = wanted
        for _ in range(rng.choice([1, 1, 2, 4])):
            found = _other_table(found, rng)
    buffer = io.BytesIO()
    pq.write_table(found, buffer, compression=rng.choice(["none", "snappy"]), use_dictionary=rng.random() < 0.5)
    return buffer.getvalue()


def _other_table(found, rng):
    try:
        return _changed_table(found, rng) if found.column_names else found
    except (pa.ArrowException, ValueError, OverflowError):  # what Arrow and Python cannot do with rarer types
        return found


def _changed_table(found, rng):
    names = found.column_names
    at = rng.randrange(len(names))
    match rng.choice(["drop", "type", "type", "null", "rows", "rename", "twice", "cast", "extra", "value"]):
        case "drop":
            return found.remove_column(at)
        case "type":
            return found.set_column(at, names[at], rng.choice(list(COLUMNS.values()))(found.num_rows, rng))
        case "null":
            values = [value if rng.random() < 0.5 else None for value in found[at].to_pylist()]
            return found.set_column(at, names[at], pa.array(values, found[at].type))
        case "rows":
            n = rng.choice([0, 1, found.num_rows // 2])
            return pa.concat_tables([found.slice(0, n)] * rng.choice([1, 2]))
        case "rename":
            return found.rename_columns([*names[:at], rng.choice(NAMES), *names[at + 1 :]])
        case "twice":
            return found.append_column(names[at], found[at])
        case "extra":
            return found.append_column("more", rng.choice(list(COLUMNS.values()))(found.num_rows, rng))
        case "value" if pa.types.is_floating(found[at].type):
            value = rng.choice([float("nan"), float("inf"), 0.0, -1.0, 1e-300, 1e300])
            return found.set_column(at, names[at], pa.array([value] * found.num_rows, found[at].type))
        case "cast" if pa.types.is_floating(found[at].type) or pa.types.is_integer(found[at].type):
            return found.set_column(at, names[at], found[at].cast(pa.string()))
    return found


def unstamped(found):
    """A table as somebody writes it who knows nothing of stamps: none of its bytes are checked."""
    kept = {key: text for key, text in (found.schema.metadata or {}).items() if key != b"koct.stamp"}
    return found.replace_schema_metadata(kept)


def metadata(found, rng):
    """A table with other bytes under the keys of its metadata."""
    old = dict(found.schema.metadata or {})
    for key in list(old):
        if rng.random() < 0.5:
            old[key] = rng.choice([damaged(old[key], rng), json.dumps(value(rng)).encode(), b"{}", b"[", b"\xff"])
    return found.replace_schema_metadata(old)


# Values


def value(rng, depth=2):
    if depth and rng.random() < 0.2:
        return {rng.choice(["a", "N", "source", "ko"]): value(rng, depth - 1) for _ in range(rng.randrange(3))}
    return copy.deepcopy(rng.choice(JUNK))


def changed(found, rng):
    """A mapping with something else somewhere in it."""
    found = copy.deepcopy(found)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        holder, key = _somewhere(found, rng)
        if holder is None:
            return value(rng)
        match rng.choice(["value", "value", "drop", "rename", "add", "wrap", "swap", "type"]):
            case "value":
                holder[key] = value(rng)
            case "drop":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                holder[str(key) + rng.choice(["", "x", " ", "é"])] = holder.pop(key)
            case "add" if isinstance(holder, dict):
                holder[rng.choice(["more", "H", "ko", "N", "", 1, None])] = value(rng)
            case "add" if isinstance(holder, list):
                holder.append(value(rng))
            case "wrap":
                holder[key] = rng.choice([[holder[key]], {"x": holder[key]}])
            case "swap":
                other, place = _somewhere(found, rng)
                if other is not None:
                    holder[key] = copy.deepcopy(other[place])
            case "type":
                holder[key] = str(holder[key])
    return found


def _somewhere(found, rng):
    """(holder, key) of a value at a random place."""
    places = []

    def walk(inner):
        keys = list(inner) if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        for key in keys:
            places.append((inner, key))
            walk(inner[key])

    walk(found)
    return rng.choice(places) if places else (None, None)
