"""KO with its ridge toward the analytic weights: without data it is the known chain, and not zero."""

from __future__ import annotations

from typing import Literal

from koct.contracts import Architecture, option
from koct.networks.ko import KO


class KORidge(KO, Architecture):
    label = "KO (analytic ridge)"
    colour = "#56b4e9"
    marker = "D"

    solver = "ridge"
    lr = iterations = batch = None  # of gradient solvers
    toward: Literal["zero", "analytic"] = option(
        "target of the ridge: the analytic weights, or zero", default="analytic"
    )
