"""Which tables, figures and pages a study has, and what they have to know of it.

A function here answers one question about a study; a product names it (koct/report/product.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from koct.base import FRESH
from koct.config.sweep import Grid, Sweep
from koct.contracts.options import options
from koct.errors import KoctError
from koct.networks.module import ModuleArchitecture
from koct.report.printed import PAIR, PRINTED
from koct.report.products import products

LEAST_HELD_OUT = 3  # N of a sweep: two to calibrate on, and one to predict
LEAST_OF_LADDER = 3  # networks of a sweep between known and learned
ARC = 180  # degrees, of every operating point of the paper
PAPER = ("H8", "H16", "H32", "H128", "H256")  # its sweeps, by their names here


def published(study: Sequence[Sweep]) -> list[str]:
    """Return the files of all products that a study has."""
    paths = []
    for product in products().values():
        if sweeps := answer(product.when, study):
            paths += [
                path.format(sweep=name) for name in (sweeps if product.per_sweep else [""]) for path in product.outputs
            ]
    return paths


def refuse_others(study: Sequence[Sweep], paths: Iterable[str]) -> None:
    """Raise a KoctError if `paths` hold a product that a study does not have, but for those of single sweeps."""
    asked = set(paths)
    for product in products().values():
        if asked.intersection(product.outputs) and not answer(product.when, study):
            condition = CONDITIONS.get(product.when, product.when)
            raise KoctError(f"{product.name} is only for studies with {condition}; take another study")


def answer(question: str, study: Sequence[Sweep]) -> Any:
    """Return what a function here says about a study or, by sweep, the value of a key that every sweep has."""
    if question in options(Grid):
        return {sweep.name: getattr(sweep, question) for sweep in study}
    if question not in QUESTIONS:
        raise KoctError(f"koct/workflow/when.py lacks {question}, which a product names; add it to ASKED there")
    return QUESTIONS[question](study)


# The questions


def always(study: Iterable[Sweep]) -> bool:
    return True


def predicted(study: Iterable[Sweep]) -> bool:
    """Return whether a curve is predicted before any fit."""
    return any(sweep.predicted for sweep in study)


def transferred(study: Iterable[Sweep]) -> bool:
    """Return whether networks are tested on pairs of another sweep."""
    return any(sweep.tested_on for sweep in study)


def origins(study: Iterable[Sweep]) -> dict[str, str]:
    """Return the sweep whose weights all networks of a sweep that start from others' start from, by sweep."""
    starts = {sweep.name: {arch.starts_from for arch in sweep.archs if arch.starts_from} for sweep in study}
    return {name: others.pop() for name, others in starts.items() if len(others) == 1}


def pictured(study: Iterable[Sweep]) -> list[str]:
    """Return the sweeps whose reconstructions are images to look at."""
    return [sweep.name for sweep in study if sweep.pictured]


def ladder(study: Sequence[Sweep]) -> list[str]:
    """Return the sweeps with networks enough between known and learned, but those of wrong operators."""
    wrong = mismatch(study)
    return [sweep.name for sweep in study if len(sweep.networks) >= LEAST_OF_LADDER and sweep.name not in wrong]


def contained(study: Sequence[Sweep]) -> dict[str, list[tuple[str, str]]]:
    """Return the pairs of networks of which one contains the other, in the sweeps of a ladder."""
    return {sweep.name: sweep.contained for sweep in study if sweep.name in ladder(study)}


def benchmark(study: Sequence[Sweep]) -> list[str]:
    """Return the sweeps with a network that is a torch module, but those of wrong operators."""
    names = [sweep.name for sweep in study if any(isinstance(arch, ModuleArchitecture) for arch in sweep.archs)]
    return [name for name in names if name not in mismatch(study)]


def kinds(study: Iterable[Sweep]) -> dict[str, dict[str, Any]]:
    """Return what each network learns from, of the sweeps in which they learn from pairs and from something else."""
    by_sweep = {
        sweep.name: {arch.name: "pairs and scans" if arch.more_scans else arch.learns_from for arch in sweep.networks}
        for sweep in study
    }
    return {name: of for name, of in by_sweep.items() if "pairs" in of.values() and len(set(of.values())) > 1}


def doubled(study: Iterable[Sweep]) -> bool:
    """Return whether a network is trained until twice the steps gain little."""
    return any(getattr(arch, "schedule", "") == "warmup-stable-decay" for sweep in study for arch in sweep.archs)


def printed(study: Iterable[Sweep]) -> list[str]:
    """Return the sweeps that are tested on the Shepp–Logan phantom, as in print."""
    return [sweep.name for sweep in study if getattr(sweep.problem, "held_out", "") == "shepp-logan"]


def claimed(study: Iterable[Sweep]) -> bool:
    """Return whether there are sweeps of the paper, about which it states something, or the same at larger N."""
    return any(sweep.name.removesuffix("-crossing") in PAPER for sweep in study)


def compared(study: Iterable[Sweep]) -> bool:
    """Return whether sweeps of one problem and size differ in the conditions of the measurement."""
    families: dict[Any, set[Any]] = {}
    for sweep in study:
        H, V, B = (getattr(sweep.problem, key, None) for key in ("H", "V", "B"))
        families.setdefault((sweep.problem.source, H), set()).add((sweep.problem.label, V, B))
    return any(len(conditions) > 1 for conditions in families.values())


def held_out(study: Iterable[Sweep]) -> bool:
    """Return whether there are errors to predict from those at smaller N."""
    return any(len(set(sweep.N) - {FRESH}) >= LEAST_HELD_OUT for sweep in study)


def paired(study: Iterable[Sweep]) -> bool:
    """Return whether a sweep has both networks of the paper."""
    return any(set(PAIR) <= {arch.name for arch in sweep.archs} for sweep in study)


def metrics(study: Iterable[Sweep]) -> dict[str, str]:
    """Return the metric of every sweep."""
    return {sweep.name: sweep.metric for sweep in study}


def normed(study: Iterable[Sweep]) -> list[str]:
    """Return the sweeps at an operating point of the paper that have its known network: those whose norms are known."""
    points = [
        (PRINTED["problems"][point["beam"]], *(point[key] for key in ("H", "V", "B")))
        for point in PRINTED["operating_points"]
    ]
    names = []
    for sweep in study:
        problem = sweep.problem
        here = (problem.source, *(getattr(problem, key, None) for key in ("H", "V", "B")))
        whole = getattr(problem, "arc", None) in (None, ARC) and getattr(problem, "angles", None) is None
        if here in points and whole and PAIR[0] in {arch.name for arch in sweep.archs}:
            names.append(sweep.name)
    return names


def mismatch(study: Iterable[Sweep]) -> dict[str, list[Any]]:
    """Return problem, kind and strength of the one difference between the scanner and what is known of it, by sweep.

    A sweep without a difference has strength 0.
    """
    differences = {}
    for sweep in study:
        kinds = list(getattr(sweep.problem, "differences", {0: 0, 1: 0}).items())
        if len(kinds) < 2:
            differences[sweep.name] = [sweep.problem.name, *(kinds[0] if kinds else ("", 0.0))]
    return differences if any(strength for *_, strength in differences.values()) else {}


ASKED: list[Callable[..., Any]] = [always, predicted, transferred, pictured, ladder, contained, benchmark, doubled]
ASKED += [printed, claimed, compared, held_out, paired, metrics, normed, mismatch, kinds, origins]
QUESTIONS = {function.__name__: function for function in ASKED}

CONDITIONS = {  # what a study must have for a product; the questions that decide it
    "predicted": "curves that are predicted before any fit",
    "transferred": "`tested_on`",
    "pictured": "images to look at",
    "ladder": "three or more networks behind a right operator",
    "benchmark": "a torch module behind a right operator",
    "kinds": "networks from pairs and from scans or images",
    "doubled": "`schedule: warmup-stable-decay`",
    "printed": "`held_out: shepp-logan`",
    "claimed": "sweeps of the paper",
    "compared": "sweeps that differ in conditions",
    "held_out": "three or more N",
    "paired": "`ko` and `fc`",
    "normed": "`ko` at a size of the paper",
    "mismatch": "wrong operators",
}
