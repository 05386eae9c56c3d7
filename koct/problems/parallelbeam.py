"""The parallel-beam problem: the phantoms and pixels of the fan beam, seen by parallel rays.

Its known chain is FBP: weights (one at 180°), ramp filter, backprojection. A bin is as wide as one of the fan beam at
the isocentre, so that images have the same size in mm, and photons the same meaning.
"""

from __future__ import annotations

from typing import Any

from koct.problems.ct import CTProblem

BIN = 1000 / 1500  # mm


class ParallelBeamProblem(CTProblem):
    device = "auto"
    nonnegative = True
    validation_metric = "rrmse_peak"
    interpolates = True

    @property
    def label(self) -> str:
        return "parallel beam" + self.conditions

    def geometry(self) -> Any:
        from koct.operators.geometry import ParallelBeam

        return ParallelBeam(self.H, self.V, self.B, bin=BIN, arc=self.arc, degrees=self.angles)
