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
JUNK += ["nan", "\0", "\ud800", "$", "\\", "../x", "1", "mse", "ko", "é" * 999]
JUNK += [[], {}, [1], [[]], {"x": 1}, [None], [1, 1]]


def damaged(data, rng):
    """Bytes with one kind of damage, or several."""
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = _damaged(data, rng)
    return data


def _damaged(data, rng):
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([1, 2, 4, 30, 500]))
    match rng.choice(["flip", "flip", "truncate", "cut", "repeat", "insert", "token", "splice", "lines", "noise"]):
        case "flip":
            data = bytearray(data)
            for _ in range(rng.choice([1, 1, 2, 8, 64]) if data else 0):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
        case "truncate":
            return data[:start]
        case "cut":
            return data[:start] + data[end:]
        case "repeat":
            return data[:end] + data[start:end] * rng.choice([1, 1, 3, 100]) + data[end:]
        case "insert":
            return data[:start] + rng.randbytes(rng.choice([1, 2, 8, 100])) + data[start:]
        case "token":  # something that a person or a spreadsheet might write, often in place of a number
            digits = [i for i, letter in enumerate(data[:20_000]) if chr(letter).isdigit()]
            if digits and rng.random() < 0.8:
                start = end = rng.choice(digits)
                while end < len(data) and chr(data[end]) in "0123456789.e-":
                    end += 1
            return data[:start] + rng.choice(TOKENS).encode() + data[end:]
        case "splice":
            return data[:start] + data[rng.randrange(len(data) + 1) :]
        case "lines":
            lines = data.split(b"\n")
            if rng.random() < 0.5:
                rng.shuffle(lines)
            else:
                lines[rng.randrange(len(lines))] = rng.choice(lines)
            return b"\n".join(lines)
        case "noise" if rng.random() < 0.3:
            return rng.randbytes(rng.choice([0, 1, 4, 100, 5000]))
    return data


def _written(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _workbook(buffer):
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("xl/workbook.xml", TEXTS[0])


TEXTS = ["N,error\n4,0.1\n8,0.05\n", "{}", "[]", "a: 1\n", "hello", ""]
ENCODED = [text.encode(encoding) for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-8-sig") for text in TEXTS]
FOREIGN = [
    gzip.compress(TEXTS[0].encode()),
    _written(_workbook),
    _written(lambda buffer: np.save(buffer, np.arange(4.0))),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    b"\x89PNG\r\n\x1a\n" + bytes(20),
    b"%PDF-1.4\n",
    json.dumps([{"N": 4}] * 3).encode(),
    bytes(1000),
    b"[" * 100_000,
    b"{a: " * 5000,
    b",".join(b"c%d" % i for i in range(20_000)),
    b"x" * 300_000,
]


def foreign(rng):
    """A file of some other program."""
    return rng.choice([*FOREIGN, *(rng.choice(ENCODED) for _ in range(4))])


# Values that the columns of a table take, and their type
COLUMNS = [
    ([0, 1, 4, 8, -1, 2**31 - 1], pa.int32()),
    ([0, 4, 2**63 - 1], pa.int64()),
    ([2, 2**64 - 1], pa.uint64()),
    ([0.1, 0.0, -1.0, 1e300, float("nan")], pa.float64()),
    ([np.float16(0.5)], pa.float16()),
    ([None], pa.null()),
    ([None, 1.0, 4.0], pa.float64()),
    (["ko", "fc", "mse", "", "0,05", "1", "$", "é"], pa.string()),
    (["4", "8", "16", "32"], pa.large_string()),
    (["a"], pa.string_view()),
    ([b"\0\xff\x80", b"abc"], pa.binary()),
    ([True, False], pa.bool_()),
    ([[1, 2]], pa.list_(pa.int64())),
    ([{"a": 1, "b": None}], pa.struct([("a", pa.int8()), ("b", pa.string())])),
    ([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
    (["ko", "fc"], pa.dictionary(pa.int32(), pa.string())),
    ([4, 8], pa.dictionary(pa.int32(), pa.int64())),
    ([decimal.Decimal("0.05")], pa.decimal128(10, 2)),
    ([decimal.Decimal("9" * 60)], pa.decimal256(70, 2)),
    ([2**62], pa.timestamp("ns")),
    ([2**60], pa.timestamp("us")),
    ([datetime.date(2024, 1, 1)], pa.date32()),
    ([1], pa.duration("s")),
]
NAMES = ["N", "error", "seed", "arch", "sweep", "mse", "a.b", "", "é", "H"]


def column(rows, rng):
    values, kind = rng.choice(COLUMNS)
    return pa.array([rng.choice(values) for _ in range(rows)], kind)


def table(rng, wanted=None):
    """A Parquet file that another program might have written, or one like `wanted` with other columns."""
    if wanted is None:
        rows = rng.choice([0, 1, 2, 6, 50])
        names = rng.sample(NAMES, rng.randrange(len(NAMES))) + rng.choice([[], [], ["N", "N"]])
        columns = [column(rows, rng) for _ in names]
        about = {rng.randbytes(3): rng.randbytes(5)} if rng.random() < 0.3 else None
        schema = pa.schema(zip(names, (one.type for one in columns), strict=True), about)
        wanted = pa.Table.from_arrays(columns, schema=schema)
    else:
        for _ in range(rng.choice([1, 1, 2, 4])):
            try:
                wanted = _changed_table(wanted, rng) if wanted.column_names else wanted
            except (pa.ArrowException, ValueError, OverflowError):  # what Arrow and Python cannot do with rarer types
                continue
    options = {"compression": rng.choice(["none", "snappy"]), "use_dictionary": rng.random() < 0.5}
    return _written(lambda buffer: pq.write_table(wanted, buffer, **options))


def _changed_table(old, rng):
    names, rows = old.column_names, old.num_rows
    at = rng.randrange(len(names))
    replaced = lambda new: old.set_column(at, names[at], new)  # noqa: E731
    real = pa.types.is_floating(old[at].type)
    match rng.choice(["drop", "type", "type", "null", "rows", "rename", "twice", "cast", "extra", "value"]):
        case "drop":
            return old.remove_column(at)
        case "type":
            return replaced(column(rows, rng))
        case "null":
            values = [value if rng.random() < 0.5 else None for value in old[at].to_pylist()]
            return replaced(pa.array(values, old[at].type))
        case "rows":
            return pa.concat_tables([old.slice(0, rng.choice([0, 1, rows // 2]))] * rng.choice([1, 2]))
        case "rename":
            return old.rename_columns([*names[:at], rng.choice(NAMES), *names[at + 1 :]])
        case "twice":
            return old.append_column(names[at], old[at])
        case "extra":
            return old.append_column("more", column(rows, rng))
        case "value" if real:
            value = rng.choice([float("nan"), float("inf"), 0.0, -1.0, 1e-300, 1e300])
            return replaced(pa.array([value] * rows, old[at].type))
        case "cast" if real or pa.types.is_integer(old[at].type):
            return replaced(old[at].cast(pa.string()))
    return old


def unstamped(old):
    """A table as somebody writes it who knows nothing of stamps: none of its bytes are checked."""
    kept = {key: text for key, text in (old.schema.metadata or {}).items() if key != b"koct.stamp"}
    return old.replace_schema_metadata(kept)


def metadata(old, rng):
    """A table with other bytes under the keys of its metadata."""
    about = dict(old.schema.metadata or {})
    for key in list(about):
        if rng.random() < 0.5:
            about[key] = rng.choice([damaged(about[key], rng), json.dumps(value(rng)).encode(), b"{}", b"[", b"\xff"])
    return old.replace_schema_metadata(about)


def value(rng, depth=2):
    if depth and rng.random() < 0.2:
        return {rng.choice(["a", "N", "source", "ko"]): value(rng, depth - 1) for _ in range(rng.randrange(3))}
    return copy.deepcopy(rng.choice(JUNK))


def changed(old, rng):
    """A mapping with something else somewhere in it."""
    new = copy.deepcopy(old)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = list(_places(new))
        if not places:
            return value(rng)
        holder, key = rng.choice(places)
        match rng.choice(["value", "value", "drop", "rename", "add", "wrap", "swap", "type"]):
            case "value":
                holder[key] = value(rng)
            case "drop":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                holder[str(key) + rng.choice(["", "x", " ", "é"])] = holder.pop(key)
            case "add" if isinstance(holder, dict):
                holder[rng.choice(["more", "H", "ko", "N", "", 1, None])] = value(rng)
            case "add":
                holder.append(value(rng))
            case "wrap":
                holder[key] = rng.choice([[holder[key]], {"x": holder[key]}])
            case "swap":
                other, place = rng.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case "type":
                holder[key] = str(holder[key])
    return new


def _places(holder):
    """(holder, key) of every value."""
    keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
    for key in keys:
        yield holder, key
        yield from _places(holder[key])
