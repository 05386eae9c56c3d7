"""Phantoms of ellipses: how they are put on pixels, with hard or soft edges, and how they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PEAK = 1.5  # the largest value of an image


@dataclass(frozen=True)
class Ellipse:
    """One ellipse on the square [-1, 1]²; `centre` is (x, y), `axes` are half axes, `angle` is in radians."""

    amplitude: float | np.floating[Any]
    centre: Sequence[float | np.floating[Any]]
    axes: Sequence[float | np.floating[Any]]
    angle: float | np.floating[Any]


Range = tuple[float, float]


def random_ellipse(rng: np.random.Generator, amplitude: Range, reach: float, axes: Range) -> Ellipse:
    """An ellipse with its centre up to `reach` from the middle along x and y, of any angle; all uniform."""
    return Ellipse(
        rng.uniform(*amplitude),
        tuple(rng.uniform(-reach, reach, 2)),
        tuple(rng.uniform(*axes, 2)),
        rng.uniform(0, np.pi),
    )


def rasterise(ellipses: Sequence[Ellipse], H: int, dtype: Any = float, out: np.ndarray | None = None) -> np.ndarray:
    """The phantom on H×H pixel centres `linspace(-1, 1, H)`: amplitudes add up, clipped to [0, 1.5].

    `out`, zeros of that shape, is filled and returned if given.
    """
    grid = np.linspace(-1, 1, H)
    image = np.zeros((H, H), dtype) if out is None else out
    for e in ellipses:
        c, s = np.cos(e.angle), np.sin(e.angle)
        half_box = np.hypot(e.axes[0] * c, e.axes[1] * s), np.hypot(e.axes[0] * s, e.axes[1] * c)
        columns, rows = (  # only the pixels of its bounding box, slightly widened
            slice(*np.searchsorted(grid, [centre - half - 1e-6, centre + half + 1e-6]))
            for centre, half in zip(e.centre, half_box, strict=True)
        )
        x, y = grid[None, columns] - e.centre[0], grid[rows, None] - e.centre[1]
        inside = ((c * x + s * y) / e.axes[0]) ** 2 + ((c * y - s * x) / e.axes[1]) ** 2 <= 1
        image[rows, columns][inside] += e.amplitude
    return np.minimum(image, PEAK, out=image)  # amplitudes are positive


def grid(H: int) -> np.ndarray:
    """(H,): pixel centres on the field of view [−1, 1); that of pixel H//2 is zero."""
    return 2 * (np.arange(H) - H // 2) / H


def soft(ellipses: Sequence[Ellipse], H: int, edge: float) -> np.ndarray:
    """The sum of ellipses on H×H pixels, clipped to [0, 1.5]; each falls off smoothly over `edge` pixels.

    So an image has little beyond the highest frequency that its pixels can show.
    """
    axis = grid(H)
    image = np.zeros((H, H))
    for e in ellipses:
        c, s = np.cos(e.angle), np.sin(e.angle)
        x, y = axis[None, :] - e.centre[0], axis[:, None] - e.centre[1]
        radius = np.sqrt(((c * x + s * y) / e.axes[0]) ** 2 + ((c * y - s * x) / e.axes[1]) ** 2)
        inside = np.clip((1 - radius) * min(e.axes) * H / (2 * edge) + 0.5, 0, 1)
        image += e.amplitude * inside**2 * (3 - 2 * inside)
    return np.clip(image, 0, PEAK)


def pack(ellipses: Sequence[Ellipse], most: int) -> np.ndarray:
    """Ellipses as rows (amplitude, x, y, a, b, angle), filled up with zeros to `most` rows."""
    rows = np.zeros((most, 6), np.float32)
    for row, e in zip(rows, ellipses, strict=False):
        row[:] = e.amplitude, *e.centre, *e.axes, e.angle
    return rows


def unpack(rows: np.ndarray) -> list[Ellipse]:
    """The ellipses of `pack`."""
    return [Ellipse(a, (x, y), axes, angle) for a, x, y, *axes, angle in rows.tolist() if a]


def limited(rows: np.ndarray) -> np.ndarray:
    """Return packed phantoms (n, most, 6) with amplitudes times min(1, 1.5 / their sum).

    Then no image value is above 1.5, wherever the ellipses overlap, and no clip is needed, which has no closed form.
    """
    rows = rows.copy()
    total = rows[..., 0].sum(axis=-1, dtype=float, keepdims=True)
    rows[..., 0] *= PEAK / np.maximum(total, PEAK)
    return rows
