"""KO with a learned filter, both fitted by Adagrad through the ReLU: it contains `ko` as that is fitted."""

from __future__ import annotations

from koct.contracts import Architecture, option
from koct.networks.ko_filter import KOFilter


class KOFilterAdagrad(KOFilter, Architecture):
    label = "KO+filter (Adagrad)"
    colour = "#a6761d"
    marker = "<"

    solver = "adagrad"
    tolerance = rounds = None  # of the ridge
    lr: float = option("learning rate", above=0)
    iterations: int = option("steps", minimum=1)
    batch: int = option("samples per step, at most N, drawn by a generator seeded 1 + 1000·seed", minimum=1)
