"""The fan-beam problem: noise-free sinograms of random ellipses with few views, as on the paper's GPU.

Its known chain is FBP: weights that theory gives (Parker's times a cosine), ramp filter, backprojection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import Chunk, Cost, Layer, Part, Problem, Sizes, option

if TYPE_CHECKING:
    from koct.problems.phantoms import Ellipse
    from koct.streams import TorchStream

HELD_OUT: dict[Part, int] = {"val": 20001, "test": 10001}  # seeds of random streams, the same for every training pool
MOST_ELLIPSES = 6
CHUNK = 32  # phantoms projected together
SAMPLE = 11.8  # operations of one bilinear sample along a ray (see `Cost`), measured on one core
TAP = 25.6  # of one pixel's linear interpolation in one view


class FanBeamProblem(Problem):
    device = "auto"
    nonnegative = True
    validation_metric = "rrmse_peak"
    interpolates = True

    H: int = option("image height and width in pixels", minimum=2)
    V: int = option("number of views, equally spaced over 180°, both ends included", minimum=1)
    B: int = option("number of detector bins", minimum=2)
    rays: Literal["printed", "exact"] = option(
        "forward projection: `printed` takes 2H samples from source to detector, which made the printed numbers; "
        "`exact` takes line integrals in steps of half a pixel"
    )

    @property
    def x_shape(self) -> tuple[int, int]:
        return self.V, self.B

    @property
    def y_shape(self) -> tuple[int, int]:
        return self.H, self.H

    @property
    def label(self) -> str:
        return "fan beam" + (", exact rays" if self.rays == "exact" else "")

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        from koct.problems import sampling

        for part, stream in HELD_OUT.items():
            if stream - 1 in seeds:
                yield (
                    f"seeds has {stream - 1}, whose training phantoms are the {part} phantoms of every seed; "
                    "take another seed"
                )
        if self.B > sampling.MOST_BINS:
            yield f"B = {self.B} makes the image so wide that the source lies in it; take at most {sampling.MOST_BINS}"
        elif self.rays == "printed" and not sampling.sees_an_ellipse(self.H, self.V, self.B):
            yield (
                f"rays = 'printed' takes a sample every {sampling.DETECTOR / (2 * self.H - 1):.3g} mm at H = {self.H}, "
                f"and none of them meets an ellipse in an image of {2 * sampling.radius(self.B):.3g} mm: all sinograms "
                "would be zero; set rays to exact, or make H and B larger, such as 32"
            )

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Phantoms are stored as ellipses; validation and test phantoms are the same for all seeds."""
        import numpy as np

        from koct import device
        from koct.operators.fanbeam import Projector
        from koct.problems.phantoms import pack
        from koct.streams import TorchStream

        place = device.choose()
        A = Projector(self.geometry(), self.rays)
        parts: tuple[Part, ...] = ("train", "val", "test")
        for part in parts:
            stream = TorchStream(HELD_OUT.get(part, 1 + seed))
            held = getattr(sizes, part)
            for first in range(0, held, CHUNK):
                count = min(CHUNK, held - first)
                ellipses = np.stack([pack(draw(stream), MOST_ELLIPSES) for _ in range(count)])
                yield part, device.get(A(place.put(self.decode(ellipses)))), ellipses
            print(f"{part}: {held} phantoms", flush=True)

    def decode(self, stored: Any) -> Any:
        import numpy as np

        from koct.problems.phantoms import rasterise, unpack

        images = np.zeros((len(stored), *self.y_shape), np.float32)
        for image, rows in zip(images, stored, strict=True):
            rasterise(unpack(rows), self.H, out=image)
        return images

    def geometry(self) -> Any:
        from koct.operators.fanbeam import FanBeam

        return FanBeam(self.H, self.V, self.B)

    def layers(self, shared: Mapping[str, Any]) -> Sequence[Layer]:
        from koct.operators.algebra import Diagonal
        from koct.operators.fanbeam import Backprojector, analytic_weights
        from koct.operators.filters import RampFilter

        g = self.geometry()
        return (
            Layer("weights", Diagonal(analytic_weights(g))),
            Layer("ramp filter", RampFilter(g.V, g.B)),
            Layer("backprojection", Backprojector(g)),
        )

    def normal_matrix(self, shared: Mapping[str, Any]) -> Any:
        from koct.operators.fanbeam import Backprojector
        from koct.operators.filters import RampFilter
        from koct.operators.normal import backprojection_normal

        g = self.geometry()
        return backprojection_normal(Backprojector(g), RampFilter(g.V, g.B))

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        """Measured on one core of a Neoverse N1: at H = 512 a pool of 2,148 pairs takes 240 s and 0.3 GB."""
        match stage:
            case "pool":  # a few records at a time
                return Cost(SAMPLE * sizes.total * self.x_size * 2 * self.H)
            case "shared":
                return Cost()
            case "normal":
                return Cost(333 * self.V**2 * self.y_size, 3 * 8 * self.x_size**2)
            case "layers":
                return Cost(TAP * self.V * self.y_size)


def draw(stream: TorchStream) -> list[Ellipse]:
    """Three to six ellipses, in the order that made the printed numbers; all in float32."""
    import numpy as np

    from koct.problems.phantoms import Ellipse

    return [
        Ellipse(
            amplitude=stream.rand() * 0.8 + 0.2,
            centre=(stream.rand() - 0.5, stream.rand() - 0.5),
            axes=(stream.rand() * 0.32 + 0.08, stream.rand() * 0.32 + 0.08),
            angle=stream.rand() * np.pi,
        )
        for _ in range(stream.randint(3, 7))
    ]
