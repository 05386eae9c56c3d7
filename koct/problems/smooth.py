"""Phantoms of ellipses with soft edges, and random streams that give the same pairs on every machine.

Edges are soft, so that an image has little beyond the highest frequency that its pixels can show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from koct.contracts import Part, Sizes
from koct.problems.phantoms import Ellipse

CHUNK = 64  # pairs made together
NUMBER: dict[Part, int] = {"train": 0, "val": 1, "test": 2}


def grid(H: int) -> np.ndarray:
    """(H,): pixel centres on the field of view [−1, 1); that of pixel H//2 is zero."""
    return 2 * (np.arange(H) - H // 2) / H


def soft(ellipses: Sequence[Ellipse], H: int, edge: float) -> np.ndarray:
    """The sum of ellipses on H×H pixels, clipped to [0, 1.5]; each falls off smoothly over `edge` pixels."""
    axis = grid(H)
    image = np.zeros((H, H))
    for e in ellipses:
        c, s = np.cos(e.angle), np.sin(e.angle)
        x, y = axis[None, :] - e.centre[0], axis[:, None] - e.centre[1]
        radius = np.sqrt(((c * x + s * y) / e.axes[0]) ** 2 + ((c * y - s * x) / e.axes[1]) ** 2)
        inside = np.clip((1 - radius) * min(e.axes) * H / (2 * edge) + 0.5, 0, 1)
        image += e.amplitude * inside**2 * (3 - 2 * inside)
    return np.clip(image, 0, 1.5)


def chunks(seed: int, sizes: Sizes) -> Iterator[tuple[Part, int, np.random.Generator, np.random.Generator]]:
    """(part, how many pairs, generator of phantoms, generator of noise), until all pairs of `sizes` are asked for.

    The validation and test phantoms are the same for every seed. Phantoms do not depend on the noise, and a pair does
    not depend on how many follow.
    """
    for part, number in NUMBER.items():
        own = seed if part == "train" else 0
        phantoms, noise = (np.random.default_rng([number, own, stream]) for stream in (0, 1))
        held = getattr(sizes, part)
        for first in range(0, held, CHUNK):
            yield part, min(CHUNK, held - first), phantoms, noise


def noisy(x: np.ndarray, deviation: float, rng: np.random.Generator) -> np.ndarray:
    """x with Gaussian noise of this standard deviation on every number, in float32 as pools hold it."""
    if deviation:
        x = x + deviation * rng.standard_normal(x.shape)
    return x.astype(np.float32)
