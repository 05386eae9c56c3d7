"""The parallel-beam problem: the phantoms and pixels of the fan beam, seen by parallel rays.

Its known chain is FBP: weights (one at 180°), ramp filter, backprojection. A bin is as wide as one of the fan beam at
the isocentre, so that images have the same size in mm, and photons the same meaning.
"""

from __future__ import annotations

from typing import Any, Literal

from koct.contracts import option
from koct.problems.ct import ANALYTIC, CTProblem

BIN = 1000 / 1500  # mm


class ParallelBeamProblem(CTProblem):
    rays: Literal["exact", "analytic"] = option(
        f"forward projection: `exact`: line integrals in steps of half a pixel; {ANALYTIC}",
        default="exact",
    )

    @property
    def label(self) -> str:
        return "parallel beam" + (", analytic rays" if self.analytic else "") + self.conditions

    def geometry(self) -> Any:
        from koct.operators.geometry import ParallelBeam

        return ParallelBeam(self.H, self.V, self.B, bin=BIN, arc=self.arc, degrees=self.angles)
