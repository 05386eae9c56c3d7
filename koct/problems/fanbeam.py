"""The fan-beam problem: sinograms of random ellipses with few views, as on the paper's GPU.

Its known chain is FBP: weights that theory gives, ramp filter, backprojection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from koct.contracts import Sizes, option
from koct.problems.ct import ANALYTIC, CTProblem
from koct.problems.known_chain import DETECTOR, MOST_BINS, SOURCE

MOST_VIEWS = 512  # of more, some are looked at: their neighbours see the same
CENTRE, AXIS = 0.5, 0.4  # how far out an ellipse has its centre, and its largest half axis, in halves of the image


class FanBeamProblem(CTProblem):
    rays: Literal["printed", "exact", "analytic"] = option(
        "forward projection: `printed`: 2H samples from source to detector, as in the paper; `exact`: line integrals "
        f"in steps of half a pixel; {ANALYTIC}"
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
        """Return whether any sample touches a pixel that an ellipse can cover: small images may lie between samples."""
        if DETECTOR / (2 * self.H - 1) <= CENTRE * self.B * SOURCE / DETECTOR:
            return True  # two samples of the central ray are nearer than the ends of where centres lie
        import numpy as np

        from koct.operators.geometry import FanBeam

        degrees = self.angles and self.angles[:: 1 + self.V // MOST_VIEWS]
        views = len(degrees) if degrees else min(self.V, MOST_VIEWS)
        rays, count = FanBeam(self.H, views, self.B, arc=self.arc, degrees=degrees).samples("printed")
        middle = (self.H - 1) / 2
        for step in range(count):
            away = abs(rays[:, :2] + step * rays[:, 2:4] - middle)  # from the centre, in pixels
            inner = abs(np.floor(away - middle % 1 + 1e-9) + middle % 1) / middle  # the nearer of two pixels
            if (np.hypot(*np.maximum(inner - CENTRE, 0).T) < AXIS).any():
                return True
        return False

    def geometry(self) -> Any:
        from koct.operators.geometry import FanBeam

        return FanBeam(self.H, self.V, self.B, arc=self.arc, degrees=self.angles)

    def projector(self) -> Any:
        from koct.operators.fanbeam import Projector

        return Projector(self.geometry(), "exact" if self.analytic else self.rays)
