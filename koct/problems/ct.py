"""What CT problems have in common: the same random ellipses, the conditions of the scan, and FBP as the known chain.

The conditions are the dose, the angles and the width of the detector: docs/conditions.md explains them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from koct.contracts import PARTS, Chunk, Cost, Part, Sizes, option
from koct.problems.known_chain import KNOWN, SAMPLE, ScanProblem

if TYPE_CHECKING:
    import numpy as np

    from koct.base.streams import TorchStream
    from koct.problems.phantoms import Ellipse

HELD_OUT: dict[Part, int] = {"val": 20001, "test": 10001}  # seeds of random streams, the same for every training pool
MOST_ELLIPSES = 6
CHUNK = 32  # phantoms projected together
WATER = 0.02  # attenuation of water per mm at about 65 keV
CHORD = 60.0  # of one ray and one ellipse
NOISE = 5000.0  # of the noise of one measurement
ANALYTIC = (
    "`analytic`: line integrals of the ellipses in closed form and pixel averages, with amplitudes times "
    "min(1, 1.5 / their sum) instead of a clip at 1.5"
)


class CTProblem(ScanProblem, ABC):
    device = "auto"
    endless = True
    validation_metric = "rrmse_peak"

    H: int = option("image height and width in pixels", minimum=2)
    V: int = option("views, equally spaced over `arc`, or at `angles`", minimum=1)
    B: int = option("detector bins", minimum=2)
    photons: float | None = option(
        "photons per unattenuated ray; by default no noise",
        default=None,
        minimum=1,
    )
    electronic: float = option("standard deviation of electronic noise, in photons", default=0.0, minimum=0)
    attenuation: float = option(
        "attenuation per mm of the image value 1, with `photons`; water at 65 keV has 0.02",
        default=WATER,
        above=0,
    )
    arc: float | None = option(
        "angular range in degrees, from 0; by default 180",
        default=None,
        above=0,
        maximum=360,
    )
    angles: tuple[float, ...] | None = option("angle of every view in degrees", default=None, items=1)
    truncation: float = option(
        "share of the detector that is cut off, half at each end: x is zero there",
        default=0.0,
        minimum=0,
        maximum=1,
    )
    bin_rays: int = option(
        "rays averaged over the width of a bin, with `rays: analytic`",
        default=1,
        minimum=1,
    )
    known: Literal["exact", "printed"] = option(KNOWN, default="exact", pairs=False)

    if TYPE_CHECKING:
        rays: Any  # an option of subclasses

    @property
    def analytic(self) -> bool:
        """Whether line integrals and images are computed from the ellipses in closed form."""
        return bool(self.rays == "analytic")

    @property
    def conditions(self) -> str:
        """Those that are not the default, in the words of a table, each behind a comma."""
        said = [
            self.photons is not None and f"{self.photons:,.0f} photons",
            self.electronic and f"electronic noise {self.electronic:g}",
            self.photons is not None and self.attenuation != WATER and f"attenuation {self.attenuation:g}/mm",
            self.arc is not None and f"arc {self.arc:g}°",
            self.angles is not None and "own angles",
            self.truncation and f"{self.truncation:.3g} of the detector truncated",
            self.bin_rays > 1 and f"{self.bin_rays} rays per bin",
            self.known == "printed" and "printed chain",
        ]
        return "".join(f", {words}" for words in said if words)

    @property
    def truncated(self) -> int:
        """How many bins measure nothing at each end of the detector."""
        return int(self.truncation * self.B / 2 + 0.5)

    def check(self, seeds: Sequence[int], sizes: Sizes) -> Iterable[str]:
        for part, stream in HELD_OUT.items():
            if stream - 1 in seeds:
                yield (
                    f"seeds has {stream - 1}, whose training phantoms are the {part} phantoms of every seed; "
                    "take another seed"
                )
        if self.photons is None and self.electronic:
            yield f"electronic = {self.electronic:g} is in counted photons, and there are none; set photons"
        if self.photons is None and self.attenuation != WATER:
            yield f"attenuation = {self.attenuation:g} changes nothing without photons; set photons, or leave it out"
        if (angles := self.angles) is not None:
            if self.arc is not None:
                yield f"arc = {self.arc:g} and angles exclude each other; remove one of them"
            if len(angles) != self.V:
                yield f"angles has {len(angles)} values for V = {self.V} views; set V to {len(angles)}"
            if max(angles) - min(angles) >= 360:
                yield f"angles reach from {min(angles):g} to {max(angles):g}; keep them within less than 360 degrees"
        if 2 * self.truncated >= self.B:
            yield f"truncation = {self.truncation:g} leaves none of the {self.B} bins; take less, such as 0.25"
        elif self.truncation and not self.truncated:
            yield (
                f"truncation = {self.truncation:g} is less than half a bin at each end of {self.B}; "
                f"take at least {1 / self.B:.2g}, or 0"
            )
        if self.bin_rays > 1 and not self.analytic:
            yield f"bin_rays = {self.bin_rays} changes nothing without rays = 'analytic'; set that, or leave it out"

    def pairs(self, seed: int, sizes: Sizes) -> Iterator[Chunk]:
        """Phantoms are stored as ellipses; validation and test pairs are the same for all seeds, noise included."""
        import numpy as np

        from koct.base import device
        from koct.base.streams import TorchStream
        from koct.problems.phantoms import limited, pack

        place = device.choose()
        A = self.projector()
        for part in PARTS:
            number = HELD_OUT.get(part, 1 + seed)
            stream = TorchStream(number)
            held = getattr(sizes, part)
            for first in range(0, held, CHUNK):
                count = min(CHUNK, held - first)
                ellipses = np.stack([pack(draw(stream), MOST_ELLIPSES) for _ in range(count)])
                if self.analytic:
                    ellipses = limited(ellipses)
                yield part, self.measured(self._line_integrals(ellipses, A, place), number, first), ellipses
            print(f"{part}: {held} phantoms", flush=True)

    def _line_integrals(self, ellipses: np.ndarray, A: Any, place: Any) -> np.ndarray:
        """Return sinograms (n, V, B) of phantoms without noise: in closed form, or by A on the device."""
        if self.analytic:
            from koct.problems.closed_form import line_integrals

            return line_integrals(ellipses, self.geometry(), self.bin_rays, "float32")
        from koct.base.arrays import to_numpy

        return to_numpy(A(place.put(self.decode(ellipses))))

    def measured(self, x: np.ndarray, stream: int, first: int) -> np.ndarray:
        """What the detector makes of line integrals (n, V, B), in the unit of the image times mm.

        They are pairs `first`, `first` + 1, ... of the phantoms of a random stream.
        """
        if self.photons is not None:
            from koct.problems.noise import noisy

            noise = noisy(self.attenuation * x.astype(float), self.photons, self.electronic, stream, first)
            x = (noise / self.attenuation).astype(x.dtype)
        if self.truncated:
            x = x.copy()
            x[..., : self.truncated] = x[..., self.B - self.truncated :] = 0
        return x

    def noise_variance(self, x: Any) -> Any:
        """That of −log(counts / photons) / attenuation, with the counts that were measured for those expected."""
        from koct.base.arrays import double, library
        from koct.problems.noise import FLOOR

        if self.photons is None:
            return 0.0
        counts = (self.photons * library(x).exp(-self.attenuation * double(x))).clip(min=FLOOR)
        variance = ((counts + self.electronic**2) / (counts * self.attenuation) ** 2).reshape(-1, *self.x_shape)
        if self.truncated:
            variance[..., : self.truncated] = variance[..., self.B - self.truncated :] = 0
        return variance.reshape(x.shape)

    def decode(self, stored: Any) -> Any:
        if self.analytic:
            from koct.problems.closed_form import area_averages

            return area_averages(stored, self.H, "float32")
        import numpy as np

        from koct.problems.phantoms import rasterise, unpack

        images = np.zeros((len(stored), *self.y_shape), np.float32)
        for image, rows in zip(images, stored, strict=True):
            rasterise(unpack(rows), self.H, out=image)
        return images

    def forward(self, shared: Mapping[str, Any]) -> Any:
        """The projector, and zero where the detector measures nothing."""
        import numpy as np

        from koct.operators.algebra import Diagonal

        if not self.truncated:
            return self.projector()
        measured = np.ones(self.x_shape)
        measured[:, : self.truncated] = measured[:, self.B - self.truncated :] = 0
        return Diagonal(measured) @ self.projector()

    def cost(self, stage: Literal["pool", "shared", "normal", "layers"], sizes: Sizes) -> Cost:
        """At H = 512 a pool of 2,148 pairs takes 240 s and 0.3 GB on one core of a Neoverse N1."""
        if stage != "pool":
            return super().cost(stage, sizes)
        noise = 0 if self.photons is None else NOISE
        line = CHORD * MOST_ELLIPSES * self.bin_rays if self.analytic else SAMPLE * 2 * self.H
        return Cost(sizes.total * self.x_size * (line + noise))  # a few records at a time


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
