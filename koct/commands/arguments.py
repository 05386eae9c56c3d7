"""Arguments that verbs share, and how they are read."""

import argparse
import json
import re

from koct.errors import KoctError

LARGEST = 10**18  # of a whole number: one that fits into 64 bits, and into a float


class Spec(dict):
    """What a job depends on, as the workflow writes it."""

    def __missing__(self, key):
        raise KoctError(f"--spec lacks the key {key!r}; snakemake writes specs: copy one from --printshellcmds")


def json_object(text):
    try:
        found = json.loads(text, object_hook=Spec)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("is not a JSON object")
    return found


def number(text):
    try:
        return float(text)
    except ValueError:
        comma = ": write decimals with a point, like 0.05" if "," in text else ""
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number{comma}") from None


def targets(text):
    """Numbers with commas between them, unless it looks like a decimal comma."""
    if re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
        return [number(text)]
    return [number(part) for part in text.split(",")]


def sizes(text):
    return [whole(part) for part in text.split(",")]


def positive(text):
    value = number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not above zero and finite")
    return value


def tolerance(text):
    value = number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not zero or more and finite")
    return value


def named_number(text):
    """NAME=NUMBER."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a name and a number, such as K=0.05")
    return name, number(value)


def name_of(text):
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty; give one, or omit the option")
    return text


def whole(text):
    try:
        value = int(text)
    except ValueError:
        value = LARGEST
    if abs(value) >= LARGEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number, or has too many digits")
    return value


SPEC = (
    "--spec",
    {"type": json_object, "metavar": "JSON", "help": "what the stage depends on, as the workflow passes it"},
)
INPUTS = ("--inputs", {"nargs": "*", "metavar": "FILE", "required": False, "default": [], "help": "what it reads"})
OUTPUTS = ("--outputs", {"nargs": "+", "metavar": "FILE", "help": "what it writes"})
OUT = ("--out", {"metavar": "FILE", "help": "where to write"})


def file(name, help):
    return (name, {"metavar": "FILE", "help": help})


def optional(name, help, **settings):
    return (name, {"required": False, "help": help, **settings})


SWEEP = optional("--sweep", "take the rows with this value in the column sweep", type=name_of)
PILOT = file("pilot", "CSV or Parquet with the columns N, error and, if there are several, seed, arch and group")
READING = [  # how a pilot is read
    optional(
        "--metric",
        "the column, of errors or of a score like psnr; a 2 at its end squares it (default: error, or that of a study)",
        type=name_of,
    ),
    optional(
        "--higher",
        "the metric is a score, where higher is better, and BEST is the best one (default: 1)",
        type=number,
        nargs="?",
        const=1.0,
        metavar="BEST",
    ),
    optional("--group", "the column whose runs are not independent, like patient", type=name_of, metavar="COLUMN"),
    optional("--test-size", "how many test samples an error rate is counted on", type=whole, metavar="K"),
    SWEEP,
]
OUTS = ("--out", {"nargs": "+", "metavar": "FILE", "help": "where to write; the ending says the format"})
