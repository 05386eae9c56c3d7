"""Geometries of CT: the fan beam and the parallel beam."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from koct.errors import KoctError

RAYS = ("printed", "exact")
MOST_BINS = 2**16 - 3  # tables of taps hold the number of a bin in 16 bits
SAME = 1e-9  # angles and shares that are closer are the same


@dataclass(frozen=True)
class Scan(ABC):
    """V views of an image of H × H pixels with a flat detector of B bins: what all beams have in common.

    Lengths are in mm, angles in radians. x and y are measured from the isocentre, the centre of the image; x grows with
    the column and y with the row. `arc` is the angular range of the views in degrees, from 0 on; or `degrees` are
    angles of one's own, one for every view. Rays are parallel unless a subclass says otherwise.
    """

    H: int
    V: int
    B: int
    arc: float | None = field(default=None, kw_only=True)
    degrees: tuple[float, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for key in ("H", "V", "B"):
            if not isinstance(getattr(self, key), Integral) or getattr(self, key) < 1:
                raise KoctError(f"{key} = {getattr(self, key)!r} must be at least 1; give a whole number")
        if self.B > MOST_BINS:
            raise KoctError(f"B = {self.B} must be at most {MOST_BINS}; use fewer bins")
        if self.arc is not None and not 0 < self.arc <= 360:
            raise KoctError(f"arc = {self.arc!r} must be above 0 and at most 360; give it in degrees")
        if self.degrees is not None:
            if self.arc is not None:
                raise KoctError(f"arc = {self.arc!r} and degrees exclude each other; give one of them")
            if len(self.degrees) != self.V:
                raise KoctError(f"degrees has {len(self.degrees)} angles for V = {self.V} views; give one for each")
            if not max(self.degrees) - min(self.degrees) < 360 or len(set(self.degrees)) < self.V:
                raise KoctError("degrees must be angles that differ, by less than 360; give others")

    if TYPE_CHECKING:  # fields of subclasses
        bin: float  # the width of a bin
        image: float | None

    def _check_lengths(self, *keys: str) -> None:
        for key in keys:
            if not 0 < getattr(self, key) < math.inf:
                raise KoctError(f"{key} = {getattr(self, key)!r} must be a length above 0; give it in mm")

    @property
    def radius(self) -> float:
        """Half the width of the image, from the centre of the first pixel to that of the last, in mm."""
        return 0.5 * (self.B * self.bin if self.image is None else self.image)

    @property
    def reach(self) -> float:
        """How far from the isocentre lines are that the detector measures in every view, in mm."""
        return 0.5 * self.B * self.bin

    @property
    def field_of_view(self) -> np.ndarray:
        """(H, H): which pixels every view sees, by their centres."""
        return np.hypot(self.pixels[:, None], self.pixels) <= self.reach * (1 + SAME)

    @property
    def width(self) -> float:
        """The width of a bin at the isocentre, in mm."""
        return self.bin

    @property
    def bins(self) -> np.ndarray:
        """(B,): the centres of the bins along the detector, in mm."""
        return (np.arange(self.B) - (self.B - 1) / 2) * self.bin

    @property
    def fan_angles(self) -> np.ndarray:
        """(B,): the angle between the ray of every bin and the central ray, in radians."""
        return np.zeros(self.B)

    @property
    def cosines(self) -> np.ndarray:
        """(B,): the cosines of `fan_angles`."""
        return np.ones(self.B)

    @abstractmethod
    def lines(self, per_bin: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The rays as lines: angles (V, B·per_bin) and distances from the isocentre (B·per_bin,), in mm.

        A line of angle θ and distance s has the points with x cos θ + y sin θ = s. The rays of a bin meet the centres
        of its `per_bin` equal parts.
        """

    @property
    def mirrored(self) -> bool:
        """Whether view V − 1 − v is the mirror image of view v, for all v."""
        return False

    @abstractmethod
    def samples(self, rays: str) -> tuple[np.ndarray, int]:
        """The (V·B, 5) table of rays, and how many samples each ray has.

        A ray is the row and column of its first sample, the steps in both directions to the next sample, all in pixels,
        and the weight of a sample in mm.
        """

    @abstractmethod
    def seen(self, angle: float) -> tuple[np.ndarray, np.ndarray | float]:
        """Where a view sees each pixel, in bins (H, H) from the centre of bin 0, and the weight of the pixel in it."""

    @abstractmethod
    def detector_lines(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """A, B, C, D of every view (4, V), if its axes are swapped (V,), and whether to visit all pixels of a line.

        The detector of a view runs more along x or, if the axes are swapped, more along y: `across` is the coordinate
        along that image axis and `along` the one along the other axis, both in pixels from the centre. A pixel is seen
        (across·A + along·B)/U bins from the centre of the detector, with U = 1 + across·C + along·D.
        """

    @property
    def angles(self) -> np.ndarray:
        """(V,): the angle of every view, in radians."""
        if self.degrees is not None:
            return np.deg2rad(self.degrees)
        return np.linspace(0, self.span, self.V, endpoint=self._both_ends)

    @property
    def _both_ends(self) -> bool:
        """Whether the last view is at the end of the arc."""
        return False

    @property
    def span(self) -> float:
        """The angular range that the views stand for, in radians; exactly π or 2π if it is half or all of the circle.

        Angles of one's own stand for the range from the first to the last, or for one more step, as those of an arc do.
        """
        if self.degrees is None:
            span = math.pi if self.arc is None else math.radians(self.arc)
        elif self.V == 1:
            span = math.pi
        else:
            between = math.radians(max(self.degrees) - min(self.degrees))
            extended = between * self.V / (self.V - 1)
            span = extended if not self._both_ends or extended > math.tau - SAME else between
        return next((whole for whole in (math.pi, math.tau) if abs(span - whole) < SAME), min(span, math.tau))

    @property
    def view_weight(self) -> float:
        """What one view stands for on average, in radians: π/V for the half circle."""
        return self.span / self.V

    @property
    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """First and last angle (V,) of what every view stands for, in radians: the angles nearer to it than to others.

        Where views lie at both ends of the arc, the first and the last one reach inward only, as in the trapezoid
        rule. Elsewhere they reach as far outward as inward; around the full circle, half the way to each other.
        """
        if self.V == 1:
            return self.angles - self.span / 2, self.angles + self.span / 2
        order = np.argsort(self.angles)
        angles = self.angles[order]
        gaps = np.diff(angles)
        if self.span == math.tau:
            outside = np.full(2, math.tau - gaps.sum())
        else:
            outside = np.zeros(2) if self._both_ends else gaps[[0, -1]]
        gaps = np.concatenate([outside[:1], gaps, outside[1:]]) / 2
        first, last = np.empty(self.V), np.empty(self.V)
        first[order], last[order] = angles - gaps[:-1], angles + gaps[1:]
        return first, last

    @property
    def pixel(self) -> float:
        """The distance between the centres of neighbouring pixels, in mm."""
        return 2 * self.radius / max(self.H - 1, 1)

    @property
    def pixels(self) -> np.ndarray:
        """(H,): the centres of the pixels in mm, the same along x and y."""
        return np.linspace(-self.radius, self.radius, self.H) if self.H > 1 else np.zeros(1)

    def taps(self, angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How each pixel interpolates in a view, padded by one zero before and two after: left, weight, share (H, H).

        Its value is weight · view[left] + share · (view[left + 1] − view[left]); the weight is that of the pixel times
        `view_weight`.
        """
        position, weight = self.seen(angle)
        position = np.clip(position + 1, 0, self.B + 1)
        left = position.astype(np.int32)  # truncation is floor, because nothing is negative
        weight = np.broadcast_to(weight * self.view_weight, left.shape)
        return left, weight, (position - left) * weight

    def _exact_steps(self) -> tuple[int, float]:
        """How many samples a line integral has, enough for the diagonal of the image, and their distance in mm."""
        step = self.pixel / 2
        return math.ceil(2 * math.sqrt(2) * self.radius / step) + 1, step

    def _parts(self, count: int) -> np.ndarray:
        """The centres of the `count` equal parts of every bin."""
        return (self.bins[:, None] + ((np.arange(count) + 0.5) / count - 0.5) * self.bin).ravel()

    def _axes(self) -> tuple[np.ndarray, np.ndarray]:
        """What `detector_lines` says, for a unit detector at a unit distance."""
        c, s = np.cos(self.angles), np.sin(self.angles)
        swapped = abs(s) > abs(c)
        return np.where(swapped, [s, c, -c, s], [c, s, s, -c]), swapped


@dataclass(frozen=True)
class FanBeam(Scan):
    """A source and a flat detector that turn around the isocentre.

    V views cover the half circle, or the `arc`, both ends included, except for the end of the full circle.

    Parameters
    ----------
    H : height and width of the image, in pixels
    V : number of views
    B : number of bins
    source_isocentre : distance from the source to the isocentre, in mm
    source_detector : distance from the source to the detector, in mm
    bin : width of a bin, in mm
    image : width of the image in mm, from the centre of the first pixel to that of the last; by default what the
        detector sees at the isocentre
    arc : angular range of the views in degrees, from 0 on; the half circle by default
    degrees : the angle of every view instead, shape (V,)

    Examples
    --------
    >>> from koct import FanBeam
    >>> scan = FanBeam(H=8, V=3, B=12)
    >>> scan.radius, np.rad2deg(scan.angles)
    (4.0, array([  0.,  90., 180.]))
    """

    source_isocentre: float = 1000.0
    source_detector: float = 1500.0
    bin: float = 1.0
    image: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_lengths("source_isocentre", "source_detector", "bin", *([] if self.image is None else ["image"]))
        if math.sqrt(2) * self.radius >= self.source_isocentre:
            raise KoctError(
                f"source_isocentre = {self.source_isocentre!r} puts the source inside the image, whose corners are "
                f"{math.sqrt(2) * self.radius:.4g} mm from the centre; use fewer bins or a larger source_detector"
            )

    @property
    def radius(self) -> float:
        if self.image is not None:
            return 0.5 * self.image
        return 0.5 * self.B * self.bin * self.source_isocentre / self.source_detector

    @property
    def reach(self) -> float:
        return self.source_isocentre * math.sin(math.atan2(0.5 * self.B * self.bin, self.source_detector))

    @property
    def width(self) -> float:
        return self.bin * self.source_isocentre / self.source_detector

    @property
    def fan_angles(self) -> np.ndarray:
        return np.arctan2(self.bins, self.source_detector)

    @property
    def cosines(self) -> np.ndarray:
        return self.source_detector / np.hypot(self.source_detector, self.bins)

    def lines(self, per_bin: int = 1) -> tuple[np.ndarray, np.ndarray]:
        fan_angles = np.arctan2(self._parts(per_bin), self.source_detector)
        return self.angles[:, None] + fan_angles, self.source_isocentre * np.sin(fan_angles)

    @property
    def mirrored(self) -> bool:
        return self.degrees is None and self.span == math.pi

    @property
    def _both_ends(self) -> bool:
        return self.arc != 360

    def samples(self, rays: str) -> tuple[np.ndarray, int]:
        pixel = self.pixel
        reach = math.sqrt(2) * (self.radius + pixel)  # samples farther from the isocentre touch no pixel
        c, s = np.cos(self.angles)[:, None], np.sin(self.angles)[:, None]
        source = -self.source_isocentre * s, self.source_isocentre * c
        along = self.source_detector * s + self.bins * c, self.bins * s - self.source_detector * c
        length = np.broadcast_to(np.hypot(self.source_detector, self.bins), (self.V, self.B))
        if rays == "printed":
            step = np.full((self.V, self.B), 1 / (2 * self.H - 1))
            first = math.floor((self.source_isocentre - reach) / length.max() * (2 * self.H - 1))
            last = math.ceil((self.source_isocentre + reach) / self.source_detector * (2 * self.H - 1))
            first, last = max(first, 0), min(last, 2 * self.H - 1)
            count, start, weight = last - first + 1, first * step, length / (2 * self.H)
        else:
            count, distance = self._exact_steps()
            step = distance / length
            start = self.source_isocentre / length - (count - 1) / 2 * step
            weight = np.full((self.V, self.B), distance)
        x, y = ((origin + start * way + self.radius) / pixel for origin, way in zip(source, along, strict=True))
        dx, dy = (step * way / pixel for way in along)
        return np.stack([y, x, dy, dx, weight], axis=-1).reshape(-1, 5), count

    def seen(self, angle: float) -> tuple[np.ndarray, np.ndarray]:
        """The weight is (SI/U)²: SI is `source_isocentre`, U the distance from the source along the central ray."""
        x, y = self.pixels[None, :], self.pixels[:, None]
        c, s = np.cos(angle), np.sin(angle)
        U = (self.source_isocentre + x * s) - y * c
        position = x * (c * self.source_detector / self.bin) + y * (s * self.source_detector / self.bin)
        position /= U
        position += (self.B - 1) / 2
        return position, (self.source_isocentre / U) ** 2

    def detector_lines(self) -> tuple[np.ndarray, np.ndarray, bool]:
        (A, B, C, D), swapped = self._axes()
        # whether the position moves in one direction along every line, and whether every ray crosses every line
        moves = (abs(A) * self.source_isocentre - self.radius * abs(A * D - B * C)).min() > 0
        crosses = (self.source_detector / self.bin * abs(A) - (self.B + 1) / 2 * abs(C)).min() > 0
        scale = self.pixel / self.source_isocentre
        lines = [A * scale * self.source_detector / self.bin, B * scale * self.source_detector / self.bin]
        return np.stack([*lines, C * scale, D * scale]), swapped, not (moves and crosses)


@dataclass(frozen=True)
class ParallelBeam(Scan):
    """Parallel rays, one to every bin of a flat detector that turns around the isocentre.

    V views cover the half circle, or the `arc`, without its end: the view there would be the first one again, mirrored.
    A ray runs as the central ray of a `FanBeam` at the same angle.

    Parameters
    ----------
    H : height and width of the image, in pixels
    V : number of views
    B : number of bins
    bin : width of a bin, in mm
    image : width of the image in mm, from the centre of the first pixel to that of the last; by default the detector's
    arc : angular range of the views in degrees, from 0 on; the half circle by default
    degrees : the angle of every view instead, shape (V,)

    Examples
    --------
    >>> from koct.operators.geometry import ParallelBeam
    >>> np.rad2deg(ParallelBeam(H=8, V=3, B=12).angles)
    array([  0.,  60., 120.])
    """

    bin: float = 1.0
    image: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_lengths("bin", *([] if self.image is None else ["image"]))

    def lines(self, per_bin: int = 1) -> tuple[np.ndarray, np.ndarray]:
        distances = self._parts(per_bin)
        return np.broadcast_to(self.angles[:, None], (self.V, len(distances))), distances

    def samples(self, rays: str) -> tuple[np.ndarray, int]:
        if rays != "exact":
            raise KoctError(f"rays = {rays!r} exist for the fan beam only; set rays to exact")
        pixel, (count, step) = self.pixel, self._exact_steps()
        c, s = np.cos(self.angles)[:, None], np.sin(self.angles)[:, None]
        start = -(count - 1) / 2 * step
        x, y = self.bins * c + start * s, self.bins * s - start * c
        shape = self.V, self.B
        columns = [(y + self.radius) / pixel, (x + self.radius) / pixel, -step * c / pixel, step * s / pixel]
        table = [np.broadcast_to(column, shape) for column in columns]
        return np.stack([*table, np.full(shape, step)], axis=-1).reshape(-1, 5), count

    def seen(self, angle: float) -> tuple[np.ndarray, float]:
        """The weight is one."""
        x, y = self.pixels[None, :], self.pixels[:, None]
        return (x * np.cos(angle) + y * np.sin(angle)) / self.bin + (self.B - 1) / 2, 1.0

    def detector_lines(self) -> tuple[np.ndarray, np.ndarray, bool]:
        (A, B, _, _), swapped = self._axes()
        scale = self.pixel / self.bin
        return np.stack([A * scale, B * scale, np.zeros(self.V), np.zeros(self.V)]), swapped, False
