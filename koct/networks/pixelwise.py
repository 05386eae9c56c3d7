"""Learned backprojection: every pixel has weights of its own for the two detector bins next to it in each view.

Its value is Σ_v t[v, 0] u[v, left] + t[v, 1] u[v, left + 1] for the known, filtered sinogram u, padded by zeros. So
each pixel is a ridge regression of its own with 2V unknowns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from koct.base.arrays import double, index, is_torch, like, zeros_like
from koct.contracts import Array, Layer
from koct.operators.algebra import product

ENTRIES = 2**20  # features of some pixels that are worked on at a time: 8 MiB stay in the cache of a core,
ENTRIES_ON_GPU = 2**26  # and 512 MiB fill a GPU


class Taps:
    """Where each pixel looks in each view, and the weights that theory gives.

    `left` (V, pixels) counts the bins of a view that is padded by one zero before and two after; `analytic` is
    (pixels, 2V), with the two taps of a view side by side. `seen` says which taps are on the detector, and `parameters`
    how many: the others read zeros, and nothing depends on them.
    """

    def __init__(self, layers: Sequence[Layer], nonnegative: bool):
        self.nonnegative = nonnegative
        *before, last = (layer.operator for layer in layers)
        self.before = product(before) if before else None
        self.views, self.bins = last.domain
        views = [last.geometry.taps(angle) for angle in last.geometry.angles]
        self.left = np.stack([left.ravel() for left, _, _ in views]).astype(np.int64)
        taps = [np.stack([weight - share, share], axis=-1).reshape(-1, 2) for _, weight, share in views]
        self.analytic = np.concatenate(taps, axis=1)
        self.pixels = len(self.analytic)
        place = np.stack([self.left, self.left + 1], axis=-1)
        self.seen = ((place >= 1) & (place <= self.bins)).transpose(1, 0, 2).reshape(self.pixels, -1)
        self.parameters = int(self.seen.sum())

    def sinograms(self, x: Array) -> Array:
        """What is backprojected: filtered views (V, B + 3, n) with their zeros, from flat measurements."""
        views = x if self.before is None else self.before(x.reshape(-1, *self.before.domain))
        views = views.reshape(-1, self.views, self.bins)
        if is_torch(views):
            import torch

            return torch.nn.functional.pad(views, (1, 2)).permute(1, 2, 0).contiguous()
        return np.ascontiguousarray(np.pad(views, ((0, 0), (0, 0), (1, 2))).transpose(1, 2, 0))

    def features(self, sinograms: Array, pixels: slice) -> Array:
        """(pixels, 2V, n): what the taps of some pixels read in every sample."""
        first = self.left[:, pixels].T + np.arange(self.views) * (self.bins + 3)
        places = index(np.stack([first, first + 1], axis=-1).reshape(len(first), -1), sinograms)
        return sinograms.reshape(-1, sinograms.shape[-1])[places]

    def images(self, x: Array, taps: Array) -> Array:
        """The network: flat images (n, pixels) by taps (pixels, 2V), view by view."""
        sinograms, image = self.sinograms(x), zeros_like(taps, (self.pixels, len(x)))
        for view in range(self.views):
            left = index(self.left[view], sinograms)
            for side in (0, 1):
                image = image + sinograms[view, left + side] * taps[:, 2 * view + side, None]
        return image.T.clip(min=0) if self.nonnegative else image.T


def fit(taps: Taps, x: Array, y: Array, prior: Array, lambdas: Sequence[float]) -> Iterator[tuple[float, Array]]:
    """Yield (λ, taps (pixels, 2V)): each pixel's argmin_t Σ_n (φ_nᵀt − y_n)² + λ‖t − prior‖², in float64.

    The primal form solves for 2V unknowns, the dual form for N: the smaller one is taken.
    """
    primal = 2 * taps.views <= len(x)
    sinograms, target = taps.sinograms(double(x)), double(y)
    learned = [like(np.zeros(taps.analytic.shape, np.float32), x) for _ in lambdas]
    step = max(1, (ENTRIES_ON_GPU if is_torch(x) else ENTRIES) // (len(x) * 2 * taps.views))
    for first in range(0, taps.pixels, step):
        pixels = slice(first, first + step)
        across, start = taps.features(sinograms, pixels), double(like(prior[pixels], target))
        features = across.swapaxes(1, 2)
        missing = target[:, pixels].T[:, :, None] - features @ start[:, :, None]
        matrix, right = (across @ features, across @ missing) if primal else (features @ across, missing)
        for lam, result in zip(lambdas, learned, strict=True):
            solved = _solve(matrix, right, lam)
            change = solved if primal else across @ solved
            result[pixels] = start + change[:, :, 0]
    yield from zip(lambdas, learned, strict=True)


def _solve(matrices: Array, right: Array, lam: float) -> Array:
    """u of (M + λI) u = right for a stack of positive semidefinite matrices M; no numbers where λ is too small."""
    size = matrices.shape[-1]
    largest = float(matrices.reshape(len(matrices), -1)[:, :: size + 1].sum(1).max())  # no eigenvalue is larger
    if lam <= np.finfo(float).eps * largest:
        return right * np.nan
    shifted = matrices + lam * like(np.eye(size), matrices)
    if is_torch(shifted):
        import torch

        return torch.cholesky_solve(right, torch.linalg.cholesky(shifted))
    return np.linalg.solve(shifted, right)
