"""Random-ellipse phantoms: how they are drawn, and how they are put on pixels."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ellipse:
    """One ellipse on the square [-1, 1]²; `centre` is (x, y), `axes` are half axes, `angle` is in radians."""

    amplitude: float
    centre: tuple
    axes: tuple
    angle: float


def draw_surrogate(rng):
    """One to four ellipses from a NumPy generator, in the order that made the printed numbers."""
    return [
        Ellipse(
            amplitude=rng.uniform(0.2, 1),
            centre=tuple(rng.uniform(-0.5, 0.5, 2)),
            axes=tuple(rng.uniform(0.08, 0.4, 2)),
            angle=rng.uniform(0, np.pi),
        )
        for _ in range(rng.integers(1, 5))
    ]


def draw_fanbeam(stream):
    """Three to six ellipses from a TorchStream, in the order that made the printed numbers; all in float32."""
    return [
        Ellipse(
            amplitude=stream.rand() * 0.8 + 0.2,
            centre=(stream.rand() - 0.5, stream.rand() - 0.5),
            axes=(stream.rand() * 0.32 + 0.08, stream.rand() * 0.32 + 0.08),
            angle=stream.rand() * np.pi,
        )
        for _ in range(stream.randint(3, 7))
    ]


def rasterise(ellipses, H, dtype=float):
    """The phantom on H×H pixel centres `linspace(-1, 1, H)`: amplitudes add up, clipped to [0, 1.5]."""
    grid = np.linspace(-1, 1, H)
    image = np.zeros((H, H), dtype)
    for e in ellipses:
        c, s = np.cos(e.angle), np.sin(e.angle)
        half_box = np.hypot(e.axes[0] * c, e.axes[1] * s), np.hypot(e.axes[0] * s, e.axes[1] * c)
        columns, rows = (  # only the pixels of its bounding box, widened by a hair
            slice(*np.searchsorted(grid, [centre - half - 1e-6, centre + half + 1e-6]))
            for centre, half in zip(e.centre, half_box, strict=True)
        )
        x, y = grid[None, columns] - e.centre[0], grid[rows, None] - e.centre[1]
        inside = ((c * x + s * y) / e.axes[0]) ** 2 + ((c * y - s * x) / e.axes[1]) ** 2 <= 1
        image[rows, columns][inside] += e.amplitude
    return np.minimum(image, 1.5, out=image)  # amplitudes are positive


def pack(ellipses, most):
    """Ellipses as rows (amplitude, x, y, a, b, angle), filled up with zeros to `most` rows."""
    rows = np.zeros((most, 6), np.float32)
    for row, e in zip(rows, ellipses, strict=False):
        row[:] = e.amplitude, *e.centre, *e.axes, e.angle
    return rows


def unpack(rows):
    """The ellipses of `pack`."""
    return [Ellipse(a, (x, y), axes, angle) for a, x, y, *axes, angle in rows.tolist() if a]
