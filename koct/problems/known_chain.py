"""Filtered backprojection as the known chain of CT problems, and with windows as what needs no samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from koct.contracts import Layer

CUTOFFS = (1.0, 0.8, 0.6, 0.45, 0.3)  # of the Hann windows of FBP without samples, as shares of the Nyquist frequency
KNOWN = (
    "the known chain: `exact` is filtered backprojection that gives an image its right values; `printed` is that of "
    "the paper, whose ramp has neither padding nor the width of a bin, and whose weights count half of the first and "
    "the last view as zero"
)


def known_layers(geometry: Any, known: Literal["exact", "printed"]) -> Sequence[Layer]:
    """Return weights, ramp filter and backprojection of a `koct.operators.geometry.Scan`."""
    from koct.operators.algebra import Diagonal
    from koct.operators.fanbeam import Backprojector, analytic_weights, printed_weights
    from koct.operators.filters import RampFilter

    g, printed = geometry, known == "printed"
    return (
        Layer("weights", Diagonal(printed_weights(g) if printed else analytic_weights(g))),
        Layer("ramp filter", RampFilter(g.V, g.B, width=None if printed else g.width)),
        Layer("backprojection", Backprojector(g)),
    )


def windowed_fbp(geometry: Any) -> Mapping[float | None, Any]:
    """Return exact filtered backprojection without a window and with Hann windows, by their cutoff."""
    from koct.operators.fanbeam import fbp

    return {cutoff: fbp(geometry, cutoff) for cutoff in (None, *CUTOFFS)}
