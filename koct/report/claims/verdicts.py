"""Check what the paper states, statement by statement: claims.json says what, this module says whether it holds."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from koct.report.claims.statistics import STATISTICS
from koct.report.measured import NotComputedError
from koct.report.text import words

HOLDS, PART, FAILS, MISSING = "holds", "holds in part", "does not hold", "not computed in this study"
VERDICTS = (HOLDS, PART, FAILS, MISSING)
DATA = json.loads(Path(__file__).with_name("claims.json").read_text(encoding="utf-8"))
PREFIXES = {"KiB": 1024**2, "MiB": 1024, "GiB": 1}  # how many of them a GiB has
NOTATION = re.compile(r"([\d,]+)(?:\.(\d+))?(?:e(-?\d+))?(?: ([KMG]iB))?")


# The statements


def claims():
    """Return the claims, one by one: families are spelled out, and the names of limits and lists replaced."""
    known = {name: limit["value"] for name, limit in DATA["limits"].items()} | DATA["names"]
    listed = []
    for entry in DATA["claims"]:
        template = {key: value for key, value in entry.items() if key != "each"}
        family = _filled(entry.get("each", [{}]), {}, known)
        listed += [_filled(template, variables, known) for variables in family]
    return listed


def limits():
    """Return what words of the paper mean here, in words."""
    return [limit["means"] for limit in DATA["limits"].values() if "means" in limit]


def _filled(value, variables, known):
    """Return a template with `<name>` replaced by a variable and `@name` by what is known by that name."""
    if isinstance(value, dict):
        return {key: _filled(item, variables, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables, known) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("@"):
        return known[value[1:]]
    for name, text in variables.items():
        value = value.replace(f"<{name}>", str(text))
    return value


# Verdicts


@dataclass(frozen=True)
class Value:
    """A number that a claim is about, and how to compute it from a study."""

    number: float
    label: str
    sweep: str | None
    statistic: str
    options: dict
    key: str | None = None

    def of(self, study):
        computed = STATISTICS[self.statistic](study, self.sweep, **self.options)
        return computed if self.key is None else computed.get(self.key, math.nan)

    def interval(self, study):
        sweeps = [] if self.sweep is None else [self.sweep, *self.options.get("others", [])]
        return study.interval(self.of, sweeps)


def row(claim, study):
    """Return the row of a claim in claims.parquet."""
    where = claim["where"] + (f" (also {claim['also']})" if "also" in claim else "")
    printed = claim.get("printed") or "; ".join(item["printed"] for item in claim.get("items", []))
    stated = {"id": claim["id"], "where": where, "statement": claim["statement"], "printed": printed}
    try:
        return stated | (_digits if "items" in claim else _band)(claim, study)
    except NotComputedError as missing:
        nothing = {"computed": "", **_numbers(None, None, None)}
        return stated | nothing | {"verdict": MISSING, "why": f"This study {missing}."}


def _band(claim, study):
    """Return whether numbers lie within limits: all of them, some, or none."""
    parts = [(part, values(part, study)) for part in claim["parts"]]
    held = [
        part.get("low", -math.inf) <= value.number <= part.get("high", math.inf)
        for part, listed in parts
        for value in listed
    ]
    first, points = parts[0]
    if not points:
        raise NotComputedError("has no point that this is about")
    decisive = min(points, key=lambda value: _margin(value.number, first))
    low, high = decisive.interval(study) if claim.get("interval", True) else (None, None)
    unit = f" {claim['unit']}" if "unit" in claim else ""
    fields = {f"values{i if i > 1 else ''}": _listed(listed) for i, (_, listed) in enumerate(parts, 1)}
    fields |= {key: show(first[key]) for key in ("low", "high") if key in first}
    count = f"all {len(held)}" if all(held) else f"{sum(held) or 'none'} of {len(held)}"
    fields |= {"count": count, "least": _listed(points, min(points, key=lambda value: value.number))}
    fields |= {name: _fact(fact, study) for name, fact in claim.get("facts", {}).items()}
    why = claim["why"].format(**fields)
    if low is not None and any(low < first[key] < high for key in ("low", "high") if key in first):
        why = why.removesuffix(".") + "; the interval over seeds includes the limit."
    return {
        "computed": _listed(points, decisive) + unit,
        **_numbers(decisive.number, low, high),
        "verdict": HOLDS if all(held) else PART if any(held) else FAILS,
        "why": why,
    }


def _digits(claim, study):
    """Return whether numbers are those that are printed, to their digits: all of them, some or nearly, or none."""
    texts, exact, same, off = [], [], [], []
    for item in claim["items"]:
        (value,) = values({**item, "sweeps": [item["sweep"]]}, study)
        number, printed, text, step = in_print(value.number, item["printed"])
        texts.append(text)
        exact.append(f"{number:,.0f}" if number > 1000 else show(number, 4))
        off.append(abs(number / printed - 1))
        same.append(text == item["printed"] or abs(number - printed) <= claim.get("units", 0) * step)
    low, high = value.interval(study) if len(texts) == 1 else (None, None)
    near = max(off) <= DATA["limits"]["digits"]["value"]
    difference = f"{100 * max(off):.2g} %" if max(off) < 1 else f"a factor of {show(1 + max(off))}"
    return {
        "computed": "; ".join(texts),
        **_numbers(number if len(texts) == 1 else None, low, high),
        "verdict": HOLDS if all(same) else PART if near or any(same) else FAILS,
        "why": claim["why"].format(exact=", ".join(exact), difference=difference),
    }


def values(part, study):
    """Return the values of a part of a claim: of every sweep, every set of options, and every N if it has several."""
    listed = []
    for sweep in part.get("sweeps", [None]):
        for more in part.get("each", [{}]):
            options = {**part.get("options", {}), **more}
            number = STATISTICS[part["statistic"]](study, sweep, **options)
            at = [study.label(more["arch"])] if "arch" in more else []
            at += [sweep] if len(part.get("sweeps", [])) > 1 else []
            at += [f"N = {more['N']:,}"] if "N" in more else []
            for key, one in number.items() if isinstance(number, dict) else [(None, number)]:
                name = ", ".join(at if key is None else [*at, key])
                listed.append(Value(one, name, sweep, part["statistic"], options, key))
    return listed


def in_print(number, printed):
    """Return (number in the printed unit, printed number, number in print, a unit of the last printed digit)."""
    whole, decimals, exponent, unit = NOTATION.fullmatch(printed).groups()
    number *= PREFIXES.get(unit, 1)
    power, digits = int(exponent or 0), len(decimals or "")
    step = 10.0 ** (power - digits)
    value = float(f"{whole.replace(',', '')}.{decimals or 0}e{power}")
    if exponent is None:
        return number, value, f"{number:,.{digits}f}" + (f" {unit}" if unit else ""), step
    mantissa, power = f"{number:.{digits}e}".split("e")
    return number, value, f"{mantissa}e{int(power)}", step


def _numbers(number, low, high):
    finite = number is not None and math.isfinite(number)
    return {"value": float(number) if finite else None, "value_low": low, "value_high": high}


def _margin(number, part):
    """Return how far a number is inside of its limits, in logarithms; negative outside."""
    inside = [number / part["low"]] if part.get("low") else []
    inside += [part["high"] / number] if part.get("high") and number else []
    return min((math.log(ratio) if ratio > 0 else -math.inf for ratio in inside), default=0.0)


def _listed(values, only=None):
    """Return numbers, or only one of them, and where they are from; equal ones are said once."""
    if len({show(value.number) for value in values}) == 1:
        return show(values[0].number)
    return ", ".join(f"{show(value.number)} ({value.label})" for value in ([only] if only else values))


def _fact(fact, study):
    """Return a number or a text that goes into the sentence."""
    try:
        fact = STATISTICS[fact["statistic"]](study, fact["sweep"], **fact.get("options", {}))
    except NotComputedError:
        return "not computed"
    return fact if isinstance(fact, str) else show(fact)


def show(number, digits=3, powers=0.01):
    """Return a number as a reader wants it: whole ones in full, those below `powers` with a power of ten."""
    if not math.isfinite(number):
        return "out of reach"
    if number == int(number) and abs(number) < words.PLAIN:
        return f"{int(number):,}"
    if abs(number) < powers:
        mantissa, power = f"{number:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(power)}"
    return f"{number:.{digits}g}" if abs(number) < 1000 else words.number(number)
