"""Check what the paper states, statement by statement: claims.json says what, this module says whether it holds."""

import functools
import itertools
import json
import math
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from koct.report.claims.statistics import STATISTICS
from koct.report.measured import NotComputedError
from koct.report.printed import PAIR, PRINTED
from koct.report.text import words

HOLDS, PART, FAILS, UNDECIDED = "holds", "holds in part", "does not hold", "not decided"
MISSING = "not computed in this study"
VERDICTS = (HOLDS, PART, FAILS, UNDECIDED, MISSING)
DATA = json.loads(Path(__file__).with_name("claims.json").read_text(encoding="utf-8"))
GROUPS = DATA["groups"]  # the twelve claims that a reader sees first
PREFIXES = {"KiB": 1024**2, "MiB": 1024, "GiB": 1}  # how many of them a GiB has
NOTATION = re.compile(r"([\d,]+)(?:\.(\d+))?(?:e(-?\d+))?(?: ([KMG]iB))?")
PARTLY = "Without the rest: this study "  # begins the sentence on what it lacks
MANY = 1000  # cases, where nobody knows how many a sweep that is not there would have
SYMBOLS = {"floor": "floor", "sigma": "σ"}


# The statements


def claims():
    """Return the claims and the settings, with the names of limits and lists replaced."""
    known = {name: limit["value"] for name, limit in DATA["limits"].items()} | DATA["names"]
    known |= {"table 1": list(_table_1()), "table 2": list(_table_2())}
    return [_filled({"study": "full", **entry}, known) for entry in DATA["claims"] + DATA["settings"]]


def _table_1():
    """What the paper prints of parameters and memory."""
    printed = PRINTED["fullscale"]
    for i, point in enumerate(PRINTED["operating_points"]):
        sweep = {"sweep": f"H{point['H']}"}
        yield {**sweep, "statistic": "ratio", "options": {"of": "parameters"}, "printed": printed["ratio"][i]}
        for arch in PAIR:
            name = arch.upper()
            yield {**sweep, "statistic": "parameters", "options": {"arch": arch}, "printed": printed[f"p_{name}"][i]}
            for bytes, kind in ((4, "FP32 weights"), (16, "Adam state")):
                options = {"arch": arch, "bytes": bytes}
                yield {**sweep, "statistic": "memory", "options": options, "printed": printed[f"{name} {kind}"][i]}


def _table_2():
    """What the paper prints of floors and slopes."""
    for sweep, archs in PRINTED["calibration"].items():
        for arch, numbers in archs.items():
            for key, text in numbers.items():
                name, printed = f"{SYMBOLS[key]}_{arch.upper()} of {sweep}", text.replace("e-0", "e-")
                options = {"arch": arch, "key": key}
                yield {"statistic": "calibrated", "sweep": sweep, "options": options, "printed": printed, "name": name}


def _filled(value, known):
    """Return an entry with `@name` replaced by what is known by that name."""
    if isinstance(value, dict):
        return {key: _filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, known) for item in value]
    return known[value[1:]] if isinstance(value, str) and value.startswith("@") else value


# Verdicts


class Value(NamedTuple):
    """A number that a claim is about, how to compute it from a study, and the sweeps that it depends on."""

    number: float
    label: str
    of: Callable
    sweeps: list[str]
    several: bool = False  # whether a sweep has several of them


def row(claim, study):
    """Return the row of a claim or a setting in claims.parquet."""
    where = claim["where"] + (f" (also {claim['also']})" if "also" in claim else "")
    printed = "; ".join(item["printed"] for item in claim.get("items", []))
    stated = {"id": claim["id"], "where": where, "statement": claim["says"], "printed": printed}
    nothing = {"computed": "", **_numbers(None, None, None)}
    if "verdict" in claim:  # of a setting that no study can compute
        return {**stated, **nothing, "verdict": claim["verdict"], "why": claim["why"]}
    try:
        return stated | (_digits if "items" in claim else _band)(claim, study)
    except NotComputedError as missing:
        why = f"This study {missing}{_elsewhere(claim)}."
        return {**stated, **nothing, "verdict": MISSING, "why": why}


def _band(claim, study):
    """Return whether numbers lie within limits. The first part of the claim with numbers is what the row shows."""
    parts = [(_limited(part), *values(part, study)) for part in claim["parts"]]
    lacking = [missing for *_, lacked in parts for missing in lacked]
    first, points = next(((part, listed) for part, listed, _ in parts if listed), (None, None))
    if points is None:
        raise lacking[0] if lacking else NotComputedError("has no point that this is about")
    inside = [[_inside(one.number, part) for one in listed] for part, listed, _ in parts]
    decisive = min(points, key=lambda value: _margin(value.number, first))
    low, high = study.interval(decisive.of, decisive.sweeps) if claim.get("interval", True) else (None, None)

    # What is lacking could hold or not: the verdict stands if it is the same either way
    unknown = [len(lacked) * (MANY if any(one.several for one in listed) else 1) for _, listed, lacked in parts]
    counts = [(sum(held), len(held), n) for held, n in zip(inside, unknown, strict=True) if held or n]
    worst = judgement([(held, count + n) for held, count, n in counts])
    best = judgement([(held + n, count + n) for held, count, n in counts])
    otherwise = _otherwise(claim, study)
    decided = best == worst and not otherwise

    fields = _band_fields(claim, study, [listed for _, listed, _ in parts], first, points)
    why = claim["why"].format(count=_count([*itertools.chain(*inside)]), **fields)
    if low is not None and any(low < first[key] < high for key in ("low", "high") if key in first):
        why = why.removesuffix(".") + "; the interval over seeds includes the limit."
    return {
        "computed": " ".join(filter(None, (claim.get("what"), _listed(points, decisive), claim.get("unit")))),
        **_numbers(decisive.number, low, high),
        "verdict": best if decided else UNDECIDED,
        "why": why + otherwise + _without(lacking, claim if best != worst and not otherwise else None),
    }


def _band_fields(claim, study, listed, first, points):
    """Return what the sentence of a claim may name: all values, limits, the least and the largest, further facts."""
    fields = {f"values{i if i > 1 else ''}": _listed(values) for i, values in enumerate(listed, 1)}
    fields |= {key: show(first[key]) for key in ("low", "high", "around") if key in first}
    fields |= {"covered": _covered(study, points, first["around"])} if "around" in first else {}
    for name, end in (("least", min), ("most", max)):
        fields[name] = _listed(points, end(points, key=attrgetter("number")))
    return fields | {name: _fact(fact, study) for name, fact in claim.get("facts", {}).items()}


def _digits(claim, study):
    """Return whether numbers are those that are printed, to their digits."""
    exact, same, off, differ, lacking = [], [], [], [], []
    for item in claim["items"]:
        listed, missing = values({**item, "sweeps": [item["sweep"]]}, study)
        lacking += missing
        for value in listed:
            number, printed, text, step = in_print(value.number, item["printed"])
            exact.append(text)
            off.append(abs(number / printed - 1))
            same.append(text == item["printed"] or abs(number - printed) <= claim.get("units", 0) * step)
            if not same[-1]:
                differ.append(f"{item.get('name', item['sweep'])} is {text}, and {item['printed']} in print")
    if not same:
        raise lacking[0]
    few = len(same) < 5
    low, high = study.interval(value.of, value.sweeps) if len(same) == 1 else (None, None)
    near = max(off) <= DATA["limits"]["digits"]["value"]
    fields = {"exact": ", ".join(exact), "count": _count(same), "differ": "; ".join(differ)}
    fields["difference"] = f"{100 * max(off):.2g} %" if max(off) < 1 else f"a factor of {show(1 + max(off))}"
    best = PART if near and not all(same) else judgement([(sum(same) + len(lacking), len(same) + len(lacking))])
    worst = judgement([(sum(same), len(same) + len(lacking))]) if lacking else best
    verdict = best if best == worst else UNDECIDED
    return {
        "computed": "; ".join(exact) if few else f"{_count(same)} as printed",
        **_numbers(None, low, high),
        "verdict": verdict,
        "why": claim["why"].format(**fields).replace("; .", ".")
        + _without(lacking, claim if verdict == UNDECIDED else None),
    }


def judgement(parts):
    """Return the verdict on parts, each (cases that hold, cases): the rule of claims.json."""
    if all(held == cases for held, cases in parts):
        return HOLDS
    return PART if any(2 * held > cases for held, cases in parts) else FAILS


def values(part, study):
    """Return (values of a part, what this study lacks): of every sweep, set of options, and N if it has several."""
    listed, lacking = [], []
    for sweep in part.get("sweeps", [None]):
        for more in part.get("each", [{}]):
            options = {**part.get("options", {}), **more}
            of = functools.partial(STATISTICS[part["statistic"]], sweep=sweep, **options)
            try:
                number = of(study)
            except NotComputedError as missing:
                lacking.append(missing)
                continue
            at = [study.names.arch(more["arch"])] if "arch" in more else []
            at += [sweep] if len(part.get("sweeps", [])) > 1 else []
            at += [f"N = {more['N']:,}"] if "N" in more else []
            at += [f"within {100 * (more['factor'] - 1):.0f} %"] if "factor" in more else []
            sweeps = [] if sweep is None else [sweep, *options.get("others", [])]
            if not isinstance(number, dict):
                listed.append(Value(number, ", ".join(at), of, sweeps))
                continue
            for key, one in number.items():
                label = ", ".join([*at, key])
                of_key = functools.partial(_of_key, of, key)
                listed.append(Value(one, label, of_key, sweeps, several=True))
    return listed, lacking


def _of_key(of, key, study):
    return of(study).get(key, math.nan)


def _limited(part):
    """Return a part with its limits: `around` a number is within a factor of two."""
    if "around" not in part:
        return part
    factor = DATA["limits"]["close"]["value"]
    return {**part, "low": part["around"] / factor, "high": part["around"] * factor}


def _inside(number, part):
    return part.get("low", -math.inf) <= number <= part.get("high", math.inf)


def _otherwise(claim, study):
    """Return a sentence on what a claim presumes and the study does not find; nothing if it does."""
    premise = claim.get("presumes")
    needed = values(premise, study)[0] if premise else []
    if all(_inside(one.number, premise) for one in needed):
        return ""
    return " " + claim["otherwise"].format(values=_listed(needed))


def _covered(study, points, number):
    """Return in how many cases the interval over seeds includes a number."""
    ends = [study.interval(point.of, point.sweeps) for point in points]
    return _count([low is not None and low <= number <= high for low, high in ends])


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


def _without(lacking, claim):
    """Return a sentence: what of the statement this study lacks, and for a claim that it would decide, where it is."""
    if not lacking:
        return ""
    first, *rest = dict.fromkeys(map(str, lacking))
    more = "".join(f", {text.removeprefix('has no sweep ')}" for text in rest)
    return f" {PARTLY}{first}{more}{_elsewhere(claim) if claim else ''}."


def _elsewhere(claim):
    return f"; snakemake --config study={claim['study']} decides it"


def _count(held):
    return f"all {len(held)}" if all(held) else f"{sum(held) or 'none'} of {len(held)}"


def _numbers(number, low, high):
    values = {"value": number, "value_low": low, "value_high": high}
    return {key: float(one) if one is not None and math.isfinite(one) else None for key, one in values.items()}


def _margin(number, part):
    """Return how far a number is inside of its limits, in logarithms; negative outside."""
    inside = [number / part["low"]] if part.get("low") else []
    inside += [part["high"] / number] if part.get("high") and number else []
    return min((math.log(ratio) if ratio > 0 else -math.inf for ratio in inside), default=0.0)


def _listed(values, only=None):
    """Return numbers, or only one of them, and where they are from; equal ones are said once."""
    if len({show(value.number) for value in values}) <= 1:
        return show(values[0].number) if values else "not computed"
    return ", ".join(f"{show(value.number)} ({value.label})" for value in ([only] if only else values))


def _fact(fact, study):
    """Return a number, several of them or a text that goes into the sentence."""
    if "sweeps" in fact:
        listed, _ = values(fact, study)
        numbers = sorted(value.number for value in listed)
        return f"{show(numbers[0])} to {show(numbers[-1])}" if numbers and fact.get("range") else _listed(listed)
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
