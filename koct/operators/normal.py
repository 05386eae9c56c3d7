"""The normal matrix RᵀR of filtered backprojection R = Aᵀ K, dense, for the closed-form fit of its weights."""

from __future__ import annotations

import numpy as np

from koct.operators.fanbeam import Backprojector
from koct.operators.filters import RampFilter
from koct.operators.machine_code import compiled


def backprojection_normal(back: Backprojector, ramp: RampFilter) -> np.ndarray:
    """RᵀR for R = `back` @ `ramp`: a (V·B, V·B) matrix in float64, computed for one pair of views after the other.

    A pixel touches two bins of each view, so one pass over the pixels gives all B² entries of a pair.
    """
    (V, B), g = back.domain, back.geometry
    K = ramp.view_matrix
    taps = [tuple(part.ravel() for part in g.taps(angle)) for angle in g.angles]
    normal = np.empty((V, B, V, B))
    block = np.empty((B + 3, B + 3))
    for v in range(V):
        for u in range(v + 1):
            _pair(block, *taps[v], *taps[u])
            normal[v, :, u] = K @ block[1 : B + 1, 1 : B + 1] @ K
            normal[u, :, v] = normal[v, :, u].T
        if v % 10 == 9 or v == V - 1:
            print(f"normal matrix: {v + 1} of {V} views", flush=True)
    return normal.reshape(V * B, V * B)


@compiled
def _pair(
    block: np.ndarray,
    left: np.ndarray,
    weight: np.ndarray,
    share: np.ndarray,
    left2: np.ndarray,
    weight2: np.ndarray,
    share2: np.ndarray,
) -> None:
    """block[i, j] = Σ over pixels of how much bin i of one view and bin j of another each add to the pixel."""
    block[:] = 0
    for p in range(len(left)):
        i, j = left[p], left2[p]
        s, t = share[p], share2[p]
        w, v = weight[p] - s, weight2[p] - t
        block[i, j] += w * v
        block[i, j + 1] += w * t
        block[i + 1, j] += s * v
        block[i + 1, j + 1] += s * t
