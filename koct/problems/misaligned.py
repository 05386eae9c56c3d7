"""The fan beam with a scanner that is not quite the known one: its data come from other rays than the network knows.

Line integrals are those of `rays: analytic`. The options say by how much the scanner differs from the known geometry,
each by itself and with a unit; with none of them, this is the fan-beam problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from koct.contracts import Problem, option
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.known_chain import SquareProblem

if TYPE_CHECKING:
    import numpy as np

JITTER_SEED = 7  # of the errors of view angles, the same for all pools: they belong to the scanner


class Misaligned(SquareProblem, FanBeamProblem, Problem):  # type: ignore[misc]
    pictured = False  # forty reconstructions of the same images

    rays: Literal["analytic"] = option("line integrals of the ellipses in closed form", default="analytic")  # type: ignore[assignment]

    gain: float = option("percent by which measurements exceed those of the known operator", default=0.0, above=-100)
    source_mm: float = option(
        "mm by which the source is farther from the isocentre than known; the detector stays", default=0.0
    )
    offset_mm: float = option("mm by which the detector is shifted along its bins", default=0.0)
    tilt: float = option(
        "degrees by which the detector is turned around its middle", default=0.0, above=-60, maximum=60
    )
    turn: float = option("degrees by which all views are rotated", default=0.0)
    jitter: float = option(
        "standard deviation of the views' angular errors in degrees, the same in all pools",
        default=0.0,
        minimum=0,
    )
    spacing: float = option("percent by which views are farther apart than known", default=0.0, above=-100)
    hardening: float = option(
        "percent lost, as by beam hardening, by a ray through the whole image at value 1; the loss is quadratic in the "
        "measurement",
        default=0.0,
        minimum=0,
        maximum=50,
    )

    wrong: ClassVar[Mapping[str, str]] = {
        "gain": "gain {:+g} %",
        "source_mm": "source {:+g} mm",
        "offset_mm": "detector {:+g} mm",
        "tilt": "tilt {:g}°",
        "turn": "turned by {:g}°",
        "jitter": "jitter {:g}°",
        "spacing": "spacing {:+g} %",
        "hardening": "hardening {:g} %",
    }

    @property
    def label(self) -> str:
        return f"fan beam, {', '.join(self.said) or 'aligned'}{self.conditions}"

    def _line_integrals(self, ellipses: np.ndarray, A: Any, place: Any) -> np.ndarray:
        from koct.problems.closed_form import line_integrals

        known = self.geometry()
        true: Any = SimpleNamespace(V=known.V, B=known.B, radius=known.radius, lines=self.lines)
        x = line_integrals(ellipses, true, self.bin_rays, "float32") * (1 + self.gain / 100)
        return x * (1 - self.hardening / 100 * x / (2 * known.radius))

    def lines(self, per_bin: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The true rays, as `koct.operators.geometry.Scan.lines` has the known ones."""
        import numpy as np

        g = self.geometry()
        parts = (np.arange(per_bin) - (per_bin - 1) / 2) / per_bin * g.bin
        along = (g.bins[:, None] + parts).ravel() + self.offset_mm
        tilt = np.deg2rad(self.tilt)
        fan = np.arctan2(along * np.cos(tilt), g.source_detector + self.source_mm + along * np.sin(tilt))
        errors = self.jitter * np.random.default_rng(JITTER_SEED).standard_normal(g.V)
        views = g.angles * (1 + self.spacing / 100) + np.deg2rad(self.turn + errors)
        return views[:, None] + fan, (g.source_isocentre + self.source_mm) * np.sin(fan)
