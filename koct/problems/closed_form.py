"""Phantoms of ellipses in closed form: line integrals, and averages over pixels. Compiled by Numba for one thread.

Neither knows the other's pixels or rays, so a sinogram is not the projection of its image by any projector.
Phantoms are packed as in `koct.problems.phantoms`: (n, most, 6), rows of (amplitude, x, y, a, b, angle).
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from koct.operators.geometry import Scan
from koct.operators.machine_code import compiled


def line_integrals(phantoms: np.ndarray, geometry: Scan, bin_rays: int = 1, dtype: DTypeLike = float) -> np.ndarray:
    """Return sinograms (n, V, B) in the unit of the image times mm.

    A measurement is the mean over `bin_rays` rays, which meet the centres of as many equal parts of a bin.
    The line x cos θ + y sin θ = s cuts an ellipse of half axes a and b, turned by φ, at a distance t from its centre,
    in a chord of length 2ab √(w − t²) / w with w = a² cos²(θ − φ) + b² sin²(θ − φ).
    """
    g = geometry
    angles, distances = g.lines(bin_rays)
    sums = np.zeros((len(phantoms), g.V, g.B))
    _add_chords(phantoms.astype(float), np.cos(angles), np.sin(angles), distances / g.radius, bin_rays, sums)
    return (sums * (g.radius / bin_rays)).astype(dtype)


def area_averages(phantoms: np.ndarray, H: int, dtype: DTypeLike = float) -> np.ndarray:
    """Return images (n, H, H): the mean of a phantom over every pixel, exact up to rounding.

    Pixels have their centres at `linspace(-1, 1, H)` and touch each other, so the image reaches half a pixel farther.
    """
    images = np.zeros((len(phantoms), H, H), dtype)
    _add_areas(phantoms.astype(float), 2 / (H - 1), images)
    return images


@compiled
def _add_chords(phantoms, cosines, sines, distances, bin_rays, sums):
    """Add amplitude times chord, in the unit of the ellipses, to `sums` (n, V, B); rays (V, B · bin_rays) by bins."""
    V, rays = cosines.shape
    for n in range(len(phantoms)):
        for amplitude, x, y, a, b, angle in phantoms[n]:
            if amplitude == 0:
                continue
            c, s = np.cos(angle), np.sin(angle)
            for v in range(V):
                for ray in range(rays):
                    cosine, sine = cosines[v, ray], sines[v, ray]
                    w = (a * (c * cosine + s * sine)) ** 2 + (b * (c * sine - s * cosine)) ** 2
                    t = distances[ray] - x * cosine - y * sine
                    if t * t < w:
                        sums[n, v, ray // bin_rays] += 2 * amplitude * a * b * np.sqrt(w - t * t) / w


@compiled
def _add_areas(phantoms, pixel, images):
    """Add amplitude times covered share of every pixel to `images` (n, H, H).

    In coordinates in which the ellipse is the unit disc, a pixel is a parallelogram with sides p and q.
    """
    H = images.shape[1]
    for n in range(len(phantoms)):
        for amplitude, x, y, a, b, angle in phantoms[n]:
            if amplitude == 0:
                continue
            c, s = np.cos(angle), np.sin(angle)
            px, py, qx, qy = pixel * c / a, -pixel * s / b, pixel * s / a, pixel * c / b
            reach = max(np.hypot(px + qx, py + qy), np.hypot(px - qx, py - qy)) / 2  # from its centre to a corner
            whole = pixel * pixel / (a * b)
            first_column, last_column = _covered(x, np.hypot(a * c, b * s), pixel, H)
            first_row, last_row = _covered(y, np.hypot(a * s, b * c), pixel, H)
            for i in range(first_row, last_row):
                for j in range(first_column, last_column):
                    dx, dy = j * pixel - 1 - x, i * pixel - 1 - y
                    u, v = (c * dx + s * dy) / a, (c * dy - s * dx) / b
                    r = np.hypot(u, v)
                    if r + reach <= 1:
                        images[n, i, j] += amplitude
                    elif r - reach < 1:
                        images[n, i, j] += amplitude * _disc_in_parallelogram(u, v, px, py, qx, qy) / whole


@compiled
def _covered(centre, half, pixel, H):
    """The first pixel of a line that reaches into centre ± half, and the first one behind it."""
    first, last = (centre - half + 1) / pixel + 0.5, (centre + half + 1) / pixel + 0.5
    return max(0, int(np.floor(first))), min(H, int(np.floor(last)) + 1)


@compiled
def _disc_in_parallelogram(u, v, px, py, qx, qy):
    """The area that the unit disc shares with the parallelogram around (u, v) whose sides are p and q."""
    x0, y0 = u - (px + qx) / 2, v - (py + qy) / 2
    x1, y1, x2, y2, x3, y3 = x0 + px, y0 + py, x0 + px + qx, y0 + py + qy, x0 + qx, y0 + qy
    area = _disc_in_triangle(x0, y0, x1, y1) + _disc_in_triangle(x1, y1, x2, y2)
    area += _disc_in_triangle(x2, y2, x3, y3) + _disc_in_triangle(x3, y3, x0, y0)
    return max(area, 0.0)  # the sum of nothing is rounded to either side


@compiled
def _disc_in_triangle(x0, y0, x1, y1):
    """The area, with sign, that the unit disc shares with the triangle of its centre and two points.

    Where the side between the points lies in the disc it is that of a triangle, and elsewhere that of a sector.
    """
    dx, dy = x1 - x0, y1 - y0
    square, product = dx * dx + dy * dy, x0 * dx + y0 * dy
    discriminant = product * product - square * (x0 * x0 + y0 * y0 - 1)
    if discriminant <= 0:
        return _sector(x0, y0, x1, y1)
    root = np.sqrt(discriminant)
    enters, leaves = (-product - root) / square, (-product + root) / square  # shares of the side
    if enters >= 1 or leaves <= 0:
        return _sector(x0, y0, x1, y1)
    area = 0.0
    if leaves < 1:
        x, y = x0 + leaves * dx, y0 + leaves * dy
        area += _sector(x, y, x1, y1)
        x1, y1 = x, y
    if enters > 0:
        x, y = x0 + enters * dx, y0 + enters * dy
        area += _sector(x0, y0, x, y)
        x0, y0 = x, y
    return area + (x0 * y1 - y0 * x1) / 2


@compiled
def _sector(x0, y0, x1, y1):
    """The area, with sign, of the sector of the unit disc between the directions of two points."""
    return np.arctan2(x0 * y1 - y0 * x1, x0 * x1 + y0 * y1) / 2
