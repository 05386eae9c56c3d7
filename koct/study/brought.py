"""Rows that were made elsewhere: whether one can stand in for a fit.

It can if it was made from the same: the options of its cell, and its `origin`, which its spec tells. That has

- `pairs`: a hash of what its pool was asked for: problem, sizes, and digests of the files that the problem reads,
- `numbers`: the versions of the numbers of koct, of the problem and of the architecture,
- `own`: hashes of a user's own files,
- `read`: the options and the λ of the architecture whose fit its fit reads, and what it starts from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koct import NUMBERS
from koct.base.stamps import checksum_of
from koct.contracts import Architecture, Problem
from koct.contracts.spec import result_options

# Hashes of the code of pools in the time of rows that tell no origin; all `numbers` were 1 then.
EARLIER = {"8ffdafd3f4d61285", "cb98d1862feaf0a1", "861a563b386fa828", "c60df0dea0d319c3"}  # of fanbeam
EARLIER |= {"64f96686613befed", "389b105c5bfc1088", "30f711ca8ef1b3c4"}  # of ellipses50
WORDS = {"pairs": "other pairs", "numbers": "a koct with other numbers", "own": "other code of yours"}
WORDS |= {"read": "other options"}


def origin(
    problem: Problem, archs: Sequence[Architecture], pool: Mapping[str, Any], own: Iterable[str]
) -> dict[str, Any]:
    """Return the origin of the rows of a curve; `archs` are its architecture and the one whose fits it reads."""
    return {
        "pairs": checksum_of({key: value for key, value in pool.items() if key != "code"}),
        "numbers": [NUMBERS, problem.numbers, *(arch.numbers for arch in archs)],
        "own": list(own),
        "read": [result_options(arch) for arch in archs[1:]],
    }


def wanted(
    curve: Mapping[str, Any], pool: Mapping[str, Any], metrics: Mapping[str, str], metric: str
) -> dict[str, Any]:
    """Return what the rows of a curve have to be, from the spec of its fits.

    `metrics` are hashes of a user's own, and `metric` is the one that the curve shows.
    """
    made = curve["origin"]
    old = set(made["numbers"]) == {1} and not (made["own"] or made["read"] or "files" in pool)
    earlier = [checksum_of({**pool, "code": code}) for code in sorted(EARLIER) if old]
    about = {"options": _options(curve), "origin": made, "earlier": earlier}
    return {**about, "metrics": dict(metrics), "metric": metric}


def refused(row: Any, spec: Mapping[str, Any], cell: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return why a row, with the spec in its stamp, cannot stand in for the fit of a cell; empty if it can."""
    try:
        if {key: row[key] for key in cell} != cell or any(spec[key] != cell[key] for key in ("N", "seed")):
            return "another cell"
        if _options(spec) != wanted["options"]:
            return "other options"
        if "origin" not in spec and spec["pool"] not in wanted["earlier"]:
            return "unknown origin"
        made = spec.get("origin", wanted["origin"])
        for key, value in wanted["origin"].items():
            if made[key] != value:
                return WORDS[key]
        theirs, images = spec.get("metrics", {}), row["images"]
        if wanted["metric"] not in images:
            return f"no metric {wanted['metric']}"
        other = [name for name, code in wanted["metrics"].items() if name in images and theirs.get(name) != code]
        return f"another metric {other[0]}" if other else ""
    except (KeyError, TypeError, AttributeError):
        return "another format"


def _options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the spec of a cell its curve shares and a person chose; before `validation`, it was on labels."""
    arch = {**spec["arch"], "options": {"validation": "labels", **spec["arch"]["options"]}}
    keys = {"keys": spec["keys"]} if "keys" in spec else {}
    return {"sweep": spec["sweep"], "problem": spec["problem"], "arch": arch, "lambdas": spec["lambdas"], **keys}
