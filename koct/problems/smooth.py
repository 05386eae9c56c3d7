"""Phantoms of ellipses with soft edges, and random streams that give the same pairs on every machine.

Edges are soft, so that an image has little beyond the highest frequency that its pixels can show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from koct.contracts import PARTS, Chunk, Sizes
from koct.problems.phantoms import Ellipse

CHUNK = 64  # pairs made together


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


def pairs(
    seed: int,
    sizes: Sizes,
    image: Callable[[np.random.Generator], np.ndarray],
    measure: Callable[[np.ndarray], np.ndarray],
    deviation: float,
) -> Iterator[Chunk]:
    """Yield what `measure` makes of random images, with Gaussian noise of this standard deviation, and the images.

    The validation and test phantoms are the same for every seed. Phantoms do not depend on the noise, and a pair does
    not depend on how many follow.
    """
    for number, part in enumerate(PARTS):
        own = seed if part == "train" else 0
        phantoms, noise = (np.random.default_rng([number, own, stream]) for stream in (0, 1))
        held = getattr(sizes, part)
        for first in range(0, held, CHUNK):
            y = np.stack([image(phantoms) for _ in range(min(CHUNK, held - first))])
            x = measure(y)
            if deviation:
                x = x + deviation * noise.standard_normal(x.shape)
            yield part, x.astype(np.float32), y.astype(np.float32)
