"""The fan-beam problem: sinograms of random ellipses with few views, as on the paper's GPU.

Its known chain is FBP: weights that theory gives, ramp filter, backprojection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from koct.contracts import Sizes, option
from koct.problems.ct import ANALYTIC, CTProblem


class FanBeamProblem(CTProblem):
    rays: Literal["printed", "exact", "analytic"] = option(
        "forward projection: `printed` takes 2H samples from source to detector, which made the printed numbers; "
        f"`exact` takes line integrals in steps of half a pixel; {ANALYTIC}"
    )

    @property
    def analytic(self) -> bool:
        return self.rays == "analytic"

    @property
    def label(self) -> str:
        return "fan beam" + ("" if self.rays == "printed" else f", {self.rays} rays") + self.conditions

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        from koct.problems import sampling

        yield from super().check(seeds, sizes)
        if self.B > sampling.MOST_BINS:
            yield f"B = {self.B} makes the image so wide that the source lies in it; take at most {sampling.MOST_BINS}"
        elif self.rays == "printed" and not sampling.sees_an_ellipse(self.H, self.V, self.B, self.arc, self.angles):
            yield (
                f"rays = 'printed' takes a sample every {sampling.DETECTOR / (2 * self.H - 1):.3g} mm at H = {self.H}, "
                f"and none of them meets an ellipse in an image of {2 * sampling.radius(self.B):.3g} mm: all sinograms "
                "would be zero; set rays to exact, or make H and B larger, such as 32"
            )

    def geometry(self) -> Any:
        from koct.operators.geometry import FanBeam

        return FanBeam(self.H, self.V, self.B, arc=self.arc, degrees=self.angles)

    def projector(self) -> Any:
        from koct.operators.fanbeam import Projector

        return Projector(self.geometry(), "exact" if self.analytic else self.rays)
