"""The Gram matrix RᵀR of filtered backprojection R = Aᵀ K, dense: what the closed-form fit of its weights needs."""

import numpy as np
from numba import njit

from koct.operators.kernels_cpu import COMPILE


def backprojection_gram(back, ramp):
    """K (Aᵀ)ᵀ Aᵀ K in float64, pair of views by pair of views.

    A pixel touches two bins of each view, so a block of B² entries comes from one walk over the pixels.
    """
    (V, B), g = back.domain, back.geometry
    K = ramp._matrix(np.zeros(0))
    taps = [tuple(part.ravel() for part in g.taps(angle)) for angle in g.angles]
    gram = np.empty((V, B, V, B))
    block = np.empty((B + 3, B + 3))
    for v in range(V):
        for u in range(v + 1):
            _pair(block, *taps[v], *taps[u])
            gram[v, :, u] = K @ block[1 : B + 1, 1 : B + 1] @ K
            gram[u, :, v] = gram[v, :, u].T
        if v % 10 == 9 or v == V - 1:
            print(f"Gram matrix: {v + 1} of {V} views", flush=True)
    return gram.reshape(V * B, V * B)


@njit(**COMPILE)
def _pair(block, left, weight, share, left2, weight2, share2):
    block[:] = 0
    for p in range(len(left)):
        i, j = left[p], left2[p]
        s, t = share[p], share2[p]
        w, v = weight[p] - s, weight2[p] - t
        block[i, j] += w * v
        block[i, j + 1] += w * t
        block[i + 1, j] += s * v
        block[i + 1, j + 1] += s * t
