"""The fan-beam problem: sinograms of random ellipses with few views, as on the paper's GPU.

Its known chain is FBP: weights that theory gives, ramp filter, backprojection.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from koct.contracts import Sizes, option
from koct.problems.ct import ANALYTIC, CTProblem
from koct.problems.known_chain import DETECTOR, MOST_BINS, SOURCE

CENTRE, AXIS = 0.5, 0.4  # how far out an ellipse has its centre, and its largest half axis, in halves of the image


class FanBeamProblem(CTProblem):
    rays: Literal["printed", "exact", "analytic"] = option(
        "forward projection: `printed` takes 2H samples from source to detector, which made the printed numbers; "
        f"`exact` takes line integrals in steps of half a pixel; {ANALYTIC}"
    )

    @property
    def label(self) -> str:
        return "fan beam" + ("" if self.rays == "printed" else f", {self.rays} rays") + self.conditions

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        yield from super().check(seeds, sizes)
        if self.B > MOST_BINS:
            yield f"B = {self.B} makes the image so wide that the source lies in it; take at most {MOST_BINS}"
        elif self.rays == "printed" and not self._sees_ellipses():
            yield (
                f"rays = 'printed' takes a sample every {DETECTOR / (2 * self.H - 1):.3g} mm at H = {self.H}, and none "
                f"of them meets an ellipse in an image of {self.B * SOURCE / DETECTOR:.3g} mm: all sinograms would be "
                "zero; set rays to exact, or make H and B larger, such as 32"
            )

    def _sees_ellipses(self) -> bool:
        """Return whether samples of a central ray can touch an ellipse: small images may lie between samples."""
        step, radius = DETECTOR / (2 * self.H - 1), self.B * SOURCE / DETECTOR / 2
        reach = (math.sqrt(2) * CENTRE + AXIS) * radius + 2.1 * radius / (self.H - 1) + 0.2  # a pixel and a bit more
        return min(SOURCE % step, -SOURCE % step) < reach

    def geometry(self) -> Any:
        from koct.operators.geometry import FanBeam

        return FanBeam(self.H, self.V, self.B, arc=self.arc, degrees=self.angles)

    def projector(self) -> Any:
        from koct.operators.fanbeam import Projector

        return Projector(self.geometry(), "exact" if self.analytic else self.rays)
