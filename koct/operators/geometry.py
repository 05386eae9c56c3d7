"""Fan-beam geometry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from koct.errors import KoctError


@dataclass(frozen=True)
class FanBeam:
    """A source and a flat detector of B bins that turn over the half circle in V views, both ends included.

    Lengths are in mm, angles in radians. The image has H × H pixels around the isocentre, from which x and y are
    measured; x grows with the column and y with the row. Its half width `radius` is what the detector sees at the
    isocentre.
    """

    H: int
    V: int
    B: int
    source_isocentre: float = 1000.0
    source_detector: float = 1500.0
    bin: float = 1.0

    def __post_init__(self) -> None:
        for key in ("H", "V", "B"):
            if getattr(self, key) < 1:
                raise KoctError(f"{key} = {getattr(self, key)!r} must be at least 1; give a whole number")
        for key in ("source_isocentre", "source_detector", "bin"):
            if not 0 < getattr(self, key) < math.inf:
                raise KoctError(f"{key} = {getattr(self, key)!r} must be a length above 0; give it in mm")
        if math.sqrt(2) * self.radius >= self.source_isocentre:
            raise KoctError(
                f"source_isocentre = {self.source_isocentre!r} puts the source inside the image, whose corners are "
                f"{math.sqrt(2) * self.radius:.4g} mm from the centre; use fewer bins or a larger source_detector"
            )

    @property
    def radius(self) -> float:
        """Half the width of the image, from the centre of the first pixel to that of the last, in mm."""
        return 0.5 * self.B * self.bin * self.source_isocentre / self.source_detector

    @property
    def angles(self) -> np.ndarray:
        """(V,): the angle of every view, in radians."""
        return np.linspace(0, np.pi, self.V)

    @property
    def pixels(self) -> np.ndarray:
        """(H,): the centres of the pixels in mm, the same along x and y."""
        return np.linspace(-self.radius, self.radius, self.H)

    @property
    def bins(self) -> np.ndarray:
        """(B,): the centres of the bins along the detector, in mm."""
        return (np.arange(self.B) - (self.B - 1) / 2) * self.bin

    def onto_detector(self, angle: float) -> tuple[np.ndarray, np.ndarray]:
        """Two (H, H) arrays: where the detector sees each pixel, in bins, and its distance U from the source in mm.

        Bin 0 has its centre at position 0; U is measured along the central ray.
        """
        x, y = self.pixels[None, :], self.pixels[:, None]
        c, s = np.cos(angle), np.sin(angle)
        U = (self.source_isocentre + x * s) - y * c
        position = x * (c * self.source_detector / self.bin) + y * (s * self.source_detector / self.bin)
        position /= U
        position += (self.B - 1) / 2
        return position, U

    def taps(self, angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How each pixel interpolates in a view, padded by one zero before and two after: left, weight, share (H, H).

        Its value is weight · view[left] + share · (view[left + 1] − view[left]), with the weight (SI/U)² π/V, where SI
        is `source_isocentre`.
        """
        position, U = self.onto_detector(angle)
        position = np.clip(position + 1, 0, self.B + 1)
        left = position.astype(np.int32)  # truncation is floor, because nothing is negative
        weight = (self.source_isocentre / U) ** 2 * (np.pi / self.V)
        return left, weight, (position - left) * weight
