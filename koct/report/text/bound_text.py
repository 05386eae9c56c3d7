"""The bound of a network as text: layer by layer, and whether it says anything."""

from __future__ import annotations

import math

from koct.bound.theorem import BoundLayer, BoundNetwork, Term
from koct.report.text import words

PLACEHOLDERS = {"C": 0.0, "n": 1.0, "kappa": 1.0}  # values that stand for "not known" as often as for themselves


def format_table(network: BoundNetwork, N: float) -> str:
    """The bound layer by layer as a plain-text table, which layer to replace first, and what the bound is worth."""
    terms, total = network.terms(N), network.bound(N)
    rows = [["layer", "kind", "Lipschitz", "A_l", "approximation", "estimation", "term", "share", "bound if known"]]
    for term in terms:
        layer = term.layer
        constants = [layer.name, "known" if layer.known else "learned", f"{float(layer.lipschitz):.4g}"]
        constants.append(f"{term.A_l:.4g}")
        if layer.known:
            rows.append([*constants, "0", "0", "0", "0 %", "-"])
            continue
        share = f"{term.total / total * 100:.1f} %" if total else "-"
        parts = [f"{value:.4g}" for value in (term.approximation, term.estimation, term.total)]
        rows.append([*constants, *parts, share, f"{network.with_known(layer.name).bound(N):.4g}"])
    sums = (sum(term.approximation for term in terms), sum(term.estimation for term in terms), total)
    rows.append(["total", "", "", "", *(f"{value:.4g}" for value in sums), "100 %" if total else "-", ""])
    sentences = [_advice(network, N, terms, total), *_worth(network, N, terms, total), *_placeholders(network)]
    *lines, last = words.table(rows, left=2)
    return "\n".join([*lines, lines[1], last, "", *sentences]) + "\n"


def _advice(network: BoundNetwork, N: float, terms: list[Term], total: float) -> str:
    head = f"With N = {N:,} samples the expected squared error is at most {total:.4g}"
    if not total:
        return f"{head}, so replacing a layer cannot reduce it."
    best = max(terms, key=lambda term: term.total)
    left = network.with_known(best.layer.name).bound(N)
    return (
        f"{head}; replacing {best.layer.name} with a known operator helps most: "
        f"it removes {best.total / total * 100:.1f} % of the bound and leaves {left:.4g}."
    )


def _worth(network: BoundNetwork, N: float, terms: list[Term], total: float) -> list[str]:
    """Whether the bound is below the error of a trivial prediction, and if not, whether more samples help."""
    trivial = network.trivial
    if not total:
        return []
    if trivial is None:
        return ["Above the error of predicting zero, E‖y‖², the bound would be vacuous: --trivial compares the two."]
    if not network.is_vacuous(N):
        return [f"This is {total / trivial * 100:.2g} % of the trivial error {trivial:.4g}: the bound is not vacuous."]
    head = f"The bound is vacuous: a trivial prediction has an error of {trivial:.4g} without any samples"
    floor = sum(term.approximation for term in terms)
    if floor >= trivial:
        return [f"{head}, and the approximation terms alone are {floor:.4g}, whatever N is."]
    needed = _first_below(network, trivial)
    return [
        f"{head}; it falls below that at about N = {needed:,.3g}." if needed else f"{head}, and at any N up to 1e18."
    ]


def _first_below(network: BoundNetwork, trivial: float) -> float | None:
    """Where the bound falls below `trivial`: to a thousandth, or None beyond 1e18."""
    low, high = math.log(3), math.log(1e18)  # the bound falls from N = 3 on
    if network.bound(1e18) >= trivial:
        return None
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if network.bound(math.exp(middle)) >= trivial else (low, middle)
    return math.exp(high)


def _placeholders(network: BoundNetwork) -> list[str]:
    """Constants of learned layers that may not have been chosen: their values and what they claim."""
    sentences = []
    for key, claim in (
        ("C", "the layer can represent its map exactly"),
        ("n", "the layer has a width of one"),
        ("kappa", "a parameter costs a squared error of log N / N"),
    ):
        names = [layer.name for layer in network.layers if _assumes(layer, key)]
        if names:
            sentences.append(f"{key} = {PLACEHOLDERS[key]:g} is assumed for {', '.join(names)}: {claim}.")
    return sentences


def _assumes(layer: BoundLayer, key: str) -> bool:
    """Whether the layer has the placeholder for this constant, and it matters."""
    matters = not layer.known and (key != "n" or layer.C > 0)
    return matters and float(getattr(layer, key)) == PLACEHOLDERS[key]
