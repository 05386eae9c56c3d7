"""What problems share: where they compute, smooth images, and filtered backprojection as the known chain of CT."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from koct.contracts import PARTS, Chunk, Cost, Layer, Problem, Sizes

if TYPE_CHECKING:
    import numpy as np

CUTOFFS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1)  # of the Hann windows of FBP, as shares of the Nyquist frequency
SOURCE, DETECTOR = 1000.0, 1500.0  # mm: from the source to the isocentre and to the detector, of a fan beam
MOST_BINS = math.floor(math.sqrt(2) * DETECTOR)  # of 1 mm; of more, the corners of the image reach the source
CHUNK = 64  # smooth images made together
LARGEST_ON_CPU = 64  # pixels on each side of images that are not worth a GPU
SAMPLE = 11.8  # operations of one bilinear sample along a ray (see `Cost`), measured on one core
TAP = 25.6  # of one pixel's linear interpolation in one view
KNOWN = (
    "known chain: `exact`: filtered backprojection with right values; `printed`: the paper's, with a ramp"
    " without padding and bin width, and half of the first and last view's weights zero"
)
UNITS = (
    "values of arrays and NIfTI volumes: `HU`, or `relative` to water (arrays) or the maximum (volumes); "
    "by default a NIfTI volume with values below −500 is in HU; DICOM needs none, and PNG goes from "
    "black, 0, to white, 1"
)


class SquareProblem(Problem, ABC):
    """A problem with images of H × H pixels, of which small ones are fitted before a GPU has started.

    What is known of it may be wrong: `wrong` has the words of a table for every option that says by how much.
    """

    wrong: ClassVar[Mapping[str, str]] = {}

    if TYPE_CHECKING:
        H: Any  # an option of subclasses

    @property
    def differences(self) -> dict[str, float]:
        """What is not as it is known, by option."""
        return {key: value for key in self.wrong if (value := getattr(self, key))}

    @property
    def said(self) -> list[str]:
        """The same in words."""
        return [self.wrong[key].format(value) for key, value in self.differences.items()]

    @property
    def device(self) -> Literal["cpu", "auto"]:  # type: ignore[override]
        return "auto" if self.H > LARGEST_ON_CPU else "cpu"

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.H, self.H


class SmoothProblem(SquareProblem, ABC):
    """A problem with images of soft ellipses, and Gaussian noise on its measurements."""

    endless = True
    same_held_out = True

    if TYPE_CHECKING:
        noise: Any  # an option of subclasses: the standard deviation

    @abstractmethod
    def image(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random image."""

    @abstractmethod
    def measure(self, y: np.ndarray) -> np.ndarray:
        """Return what is measured of images, without noise."""

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """The validation and test images are the same for every seed.

        Images do not depend on the noise, which has a stream of its own, and a pair not on how many follow.
        """
        import numpy as np

        for number, part in enumerate(PARTS):
            own, held = seed if part == "train" else 0, getattr(sizes, part)
            images, noise = (np.random.default_rng([number, own, stream]) for stream in (0, 1))
            for first in range(0, held, CHUNK):
                y = np.stack([self.image(images) for _ in range(min(CHUNK, held - first))])
                x = self.measure(y)
                if self.noise:
                    x = x + self.noise * noise.standard_normal(x.shape)
                yield part, x.astype(np.float32), y.astype(np.float32)

    def noise_variance(self, x: Any) -> Any:
        return float(self.noise) ** 2


class ScanProblem(Problem, ABC):
    """A problem with a `koct.operators.geometry.Scan`, whose known chain is filtered backprojection."""

    nonnegative = True
    same_held_out = True
    interpolates = True
    known = "exact"  # or printed, where it is an option

    if TYPE_CHECKING:  # options of subclasses
        H: Any
        V: Any
        B: Any

    @property
    def x_shape(self) -> tuple[int, ...]:
        return self.V, self.B

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.H, self.H

    def geometry(self) -> Any:
        """Return a `koct.operators.geometry.Scan`, by default the fan beam over the half circle."""
        from koct.operators.geometry import FanBeam

        return FanBeam(self.H, self.V, self.B)

    def projector(self) -> Any:
        """Return what projects images by line integrals."""
        from koct.operators.fanbeam import Projector

        return Projector(self.geometry())

    def forward(self, shared: Mapping[str, Any]) -> Any:
        return self.projector()

    def layers(self, shared: Mapping[str, Any]) -> Sequence[Layer]:
        from koct.operators.algebra import Diagonal
        from koct.operators.fanbeam import Backprojector, analytic_weights, printed_weights
        from koct.operators.filters import RampFilter

        g, printed = self.geometry(), self.known == "printed"
        return (
            Layer("weights", Diagonal(printed_weights(g) if printed else analytic_weights(g))),
            Layer("ramp filter", RampFilter(g.V, g.B, width=None if printed else g.width)),
            Layer("backprojection", Backprojector(g)),
        )

    def inverses(self, shared: Mapping[str, Any]) -> Mapping[float | None, Any]:
        """Return exact filtered backprojection without a window and with Hann windows, by their cutoff."""
        from koct.operators.fanbeam import fbp

        return {cutoff: fbp(self.geometry(), cutoff) for cutoff in (None, *CUTOFFS)}

    def normal_matrix(self, shared: Mapping[str, Any]) -> Any:
        from koct.operators.fanbeam import backprojection_normal

        _, ramp, backprojection = self.layers(shared)
        return backprojection_normal(backprojection.operator, ramp.operator)

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        """Measured on one core of a Neoverse N1; subclasses know the cost of a pool."""
        V = self.x_shape[0]
        normal = Cost(333 * V**2 * self.y_size, 3 * 8 * self.x_size**2)
        return {"normal": normal, "layers": Cost(TAP * V * self.y_size)}.get(stage, Cost())
