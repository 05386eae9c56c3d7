"""The bound of a network as text: layer by layer, and whether it says anything."""

from __future__ import annotations

import math
from collections.abc import Mapping

from koct.bound.theorem import BoundNetwork, Term
from koct.report.text import words

HEAD = ["layer", "kind", "Lipschitz", "A_l", "approximation", "estimation", "term", "share", "bound if known"]
FARTHEST = 1e18  # samples


def format_table(
    network: BoundNetwork, N: float, mismatch: Mapping[str, float] | None = None, input_rms: float = 0.0
) -> str:
    """The bound layer by layer as a plain-text table, which layer to replace first, and what the bound is worth.

    `mismatch` has the distance of every known layer that is not the true one from that one.
    """
    terms, total = network.terms(N), network.bound(N)
    rows = [[*HEAD, "assumed"]]
    for term in terms:
        layer = term.layer
        constant = f"{float(layer.lipschitz):.4g}" + "*" * layer.stands_in
        rows.append([layer.name, "known" if layer.known else "learned", constant, f"{term.A_l:.4g}"])
        if layer.known:
            rows[-1] += ["0", "0", "0", "0 %", "-", "-"]
            continue
        share = f"{term.total / total * 100:.1f} %" if total else "-"
        left = network.with_known(layer.name).bound(N)
        assumed = f"C = {layer.C:g}, " + (f"n = {layer.n:g}, " if layer.C else "") + f"κ = {layer.kappa:g}"
        rows[-1] += [f"{value:.4g}" for value in (term.approximation, term.estimation, term.total)]
        rows[-1] += [share, f"{left:.4g}", assumed]
    sums = (sum(term.approximation for term in terms), sum(term.estimation for term in terms), total)
    rows.append(["total", "", "", "", *(f"{value:.4g}" for value in sums), "100 %" if total else "-", "", ""])
    sentences = [_advice(network, N, terms, total), *_worth(network, terms, total)]
    if mismatch:
        sentences.append(_mismatched(network, terms, mismatch, input_rms))
    if any(layer.stands_in for layer in network.layers):
        sentences.append("* is the constant of a learned layer; the theorem asks for that of the true one.")
    *lines, last = words.table(rows, left=2)
    return "\n".join([*lines, lines[1], last, "", *sentences]) + "\n"


def _mismatched(network: BoundNetwork, terms: list[Term], mismatch: Mapping[str, float], input_rms: float) -> str:
    risks = {term.layer.name: term.total / term.A_l if term.A_l else 0.0 for term in terms if not term.layer.known}
    right, wrong = (network.sharp_bound(risks, mismatch=found, input_rms=input_rms) for found in ({}, mismatch))
    off = " and ".join(f"{name} is {delta:g} from the true layer" for name, delta in mismatch.items())
    return (
        f"If {off}, and inputs have a root mean square of {input_rms:g}, the expected squared error is at most "
        f"{wrong:.4g} (docs/theory.md), where right layers would give {right:.4g}; no number of samples changes that."
    )


def _advice(network: BoundNetwork, N: float, terms: list[Term], total: float) -> str:
    head = f"With N = {N:,} samples, and if C and κ are right, the expected squared error is at most {total:.4g}"
    if not total:
        return f"{head}, so replacing a layer cannot reduce it."
    best = max(terms, key=lambda term: term.total)
    left = network.with_known(best.layer.name).bound(N)
    return (
        f"{head}; replacing {best.layer.name} with a known operator helps most: "
        f"it removes {best.total / total * 100:.1f} % of the bound and leaves {left:.4g}."
    )


def _worth(network: BoundNetwork, terms: list[Term], total: float) -> list[str]:
    """Whether the bound is below the error of a trivial prediction, and if not, whether more samples help."""
    trivial, floor = network.trivial, sum(term.approximation for term in terms)
    if not total:
        return []
    if trivial is None:
        return ["Above the error of predicting zero, E‖y‖², the bound would be vacuous: --trivial compares the two."]
    if total < trivial:
        return [f"If so, this is {total / trivial * 100:.2g} % of the trivial error {trivial:.4g}."]
    head = f"The bound is vacuous: a trivial prediction has an error of {trivial:.4g} without any samples"
    if floor >= trivial:
        return [f"{head}, and the approximation terms alone are {floor:.4g}, whatever N is."]
    if network.bound(FARTHEST) >= trivial:
        return [f"{head}, and at any N up to {FARTHEST:.0e}.".replace("+", "")]
    from scipy.optimize import brentq

    needed = math.exp(brentq(lambda log: network.bound(math.exp(log)) - trivial, math.log(3), math.log(FARTHEST)))
    return [f"{head}; it falls below that at about N = {needed:,.3g}."]  # the bound falls from N = 3 on
