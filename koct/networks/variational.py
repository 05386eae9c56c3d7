"""Least squares and total variation, for batches of images: FISTA, and the primal–dual method of Chambolle and Pock.

NumPy arrays are computed in float64, so that thousands of iterations give the same numbers on all processors, and torch
tensors in float32, for speed. Measurements and images are flat where they come in and go out, (n, size).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from koct.base.arrays import blocks, double, index, is_torch, library, like, single, zeros_like
from koct.contracts import Array
from koct.operators.algebra import Matrix, Operator

SMALL = 2**21  # entries: up to here the dense matrix is faster
CHECKED = 25  # iterations between two looks at whether images still change
BALANCE = 5.0  # of primal and dual steps; this and what follows was found by trying: it changes the time alone
THRESHOLD = 0.015  # smallest difference of pixels that one step leaves, as a share of the values of images
LEAST_PENALTY, LARGEST_PENALTY = 1e-3, 1e-2  # of negative pixels, as a share of ‖A‖²
RELAXED = 1.7  # over-relaxation

State = tuple[Array, ...]
Method = tuple[Callable[..., State], State]  # a step from one state to the next, and the first state


def working(array: Array) -> Array:
    """`array` in the precision of the computation."""
    return single(array) if is_torch(array) else double(array)


def in_blocks(solve: Callable[[Array], Array], x: Array, size: int) -> Array:
    """Return flat images (n, size) of flat measurements, as many at a time as fit into memory."""
    images = zeros_like(working(x), (len(x), size))
    for rows in blocks(len(x), max(x.shape[1], size)):
        images[rows] = solve(working(x[rows]))
    return images


def largest_eigenvalue(normal: Callable[[Array], Array], start: Array) -> float:
    """Return that of a positive operator by power iteration, to a percent or so; never less than half of it."""
    v, value = start / norm(start), 0.0
    for _ in range(200):
        v = normal(v)
        value, before = norm(v), value
        if value == 0 or value - before <= 1e-4 * value:
            break
        v = v / value
    return 1.01 * value


def norm(array: Array) -> float:
    return float((array * array).sum()) ** 0.5


class LeastSquares:
    """½‖A y − x‖², divided by ‖A‖², for an operator A; on the device of the measurements that it is first given."""

    def __init__(self, A: Operator) -> None:
        self.A, self.L = A, 0.0

    def prepare(self, x: Array) -> float:
        """Multiply A out if it is small, and return L = ‖A‖², to a percent or so, both computed once."""
        if self.L:
            return self.L
        self.dense = math.prod(self.A.shape) <= SMALL
        if self.dense:
            matrix = like(self.A.matrix(), working(x))
            self.A = Matrix(matrix, self.A.domain, self.A.range)
        self.L = largest_eigenvalue(lambda v: self.A.T.flat(self.A.flat(v)), self.random(x)) or 1.0
        if self.dense:
            self.product = matrix.T @ matrix / self.L
        return self.L

    def random(self, x: Array) -> Array:
        """A flat random image (1, size), always the same."""
        return like(np.random.default_rng(0).standard_normal((1, self.A.shape[1])), working(x))

    def normal(self, y: Array) -> Array:
        """AᵀA y / ‖A‖² of flat images, flat."""
        return y @ self.product if self.dense else self.A.T.flat(self.A.flat(y)) / self.L


def fista(term: LeastSquares, x: Array, nonnegative: bool) -> Iterator[Array]:
    """Yield the iterates (n, size) of FISTA for min ‖A y − x‖², y ≥ 0 if asked for, from y = 0.

    Beck and Teboulle, A fast iterative shrinkage-thresholding algorithm, 2009.
    """
    right = term.A.T.flat(x) / term.L
    y = z = zeros_like(right)
    t = 1.0
    while True:
        new = z - term.normal(z) + right
        new = new.clip(min=0) if nonnegative else new
        t, before = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
        z = new + (before - 1) / t * (new - y)
        y = new
        yield y


class EarlyStopping:
    """Least squares, y ≥ 0 if asked for, by so many iterations of FISTA.

    For the same measurements, more iterations go on from where the last ones ended.
    """

    def __init__(self, A: Operator, nonnegative: bool) -> None:
        self.term, self.nonnegative = LeastSquares(A), nonnegative
        self.x: Array = None
        self.path: Iterator[Array] = iter(())
        self.done, self.images = 0, None

    def __call__(self, x: Array, iterations: int) -> Array:
        return in_blocks(lambda part: self._solve(part, iterations), x, self.term.A.shape[1])

    def _solve(self, x: Array, iterations: int) -> Array:
        self.term.prepare(x)
        known = self.x is not None and self.x.shape == x.shape and bool((self.x == x).all())
        if not known or iterations < self.done:
            self.x, self.path, self.done = x, fista(self.term, x, self.nonnegative), 0
        while self.done < iterations:
            self.images, self.done = next(self.path), self.done + 1
        return self.images


def gradient(images: Array) -> Array:
    """Return differences to the next pixel below and to the right, (n, 2, height, width, channels); zero at the end."""
    out = zeros_like(images, (len(images), 2, *images.shape[1:]))
    out[:, 0, :-1] = images[:, 1:] - images[:, :-1]
    out[:, 1, :, :-1] = images[:, :, 1:] - images[:, :, :-1]
    return out


def divergence(field: Array) -> Array:
    """Return −∇ᵀ of a field (n, 2, height, width, channels) that is zero where `gradient` always is."""
    down, right = field[:, 0], field[:, 1]
    out = down + right
    out[:, 1:] -= down[:, :-1]
    out[:, :, 1:] -= right[:, :, :-1]
    return out


def lengths(field: Array) -> Array:
    """Return the length of the gradient in every pixel, (n, 1, height, width, 1)."""
    return (field * field).sum(axis=(1, 4), keepdims=True) ** 0.5


class TotalVariation:
    """min ½‖A y − x‖² + λ TV(y), y ≥ 0 if asked for, for signals, images, or images (height, width, channels).

    TV is isotropic: the sum over pixels of the length of the gradient, of all channels together. `scale` is the size of
    the values of images, by which steps are chosen. An image is finished when it changes by less than `tolerance` of
    itself in 25 iterations, and after so many `iterations` in any case; it does not depend on the others of its batch.
    """

    def __init__(self, A: Operator, nonnegative: bool, scale: float, iterations: int, tolerance: float) -> None:
        self.term, self.nonnegative, self.scale = LeastSquares(A), nonnegative, scale
        self.iterations, self.tolerance = iterations, tolerance
        rows = (1, *A.domain) if len(A.domain) == 1 else A.domain
        self.shape = rows if len(rows) == 3 else (*rows, 1)
        self.norm, self.inverses = 0.0, dict[float, Array]()

    def __call__(self, x: Array, lam: float) -> Array:
        return in_blocks(lambda part: self._solve(part, lam), x, self.term.A.shape[1])

    def _solve(self, x: Array, lam: float) -> Array:
        self.term.prepare(x)
        images = zeros_like(x, (len(x), self.term.A.shape[1]))
        method = self._alternating if self.term.dense else self._primal_dual
        step, state = method(x, lam / self.term.L)
        rows, before = index(np.arange(len(x)), x), state[0]
        for done in range(1, self.iterations + 1):
            state = step(*state)
            if done % CHECKED == 0 or done == self.iterations:
                y = state[0]
                images[rows] = y
                change, size = (((part * part).sum(1)) for part in (y - before, y))
                going = change > self.tolerance**2 * size
                if not going.any():
                    break
                if not going.all():
                    rows, state = rows[going], tuple(part[going] for part in state)
                before = state[0]
        return images

    def _primal_dual(self, x: Array, lam: float) -> Method:
        """Chambolle and Pock, A first-order primal-dual algorithm (2011), for K = (A, ∇), each divided by its norm."""
        term, root, slope = self.term, math.sqrt(self.term.L), math.sqrt(8)  # ‖∇‖² < 8
        lam = lam * slope
        if not self.norm:
            self.norm = math.sqrt(largest_eigenvalue(lambda y: term.normal(y) + self._laplacian(y) / 8, term.random(x)))
        balance = math.sqrt(BALANCE * self.scale / lam)
        tau, sigma = balance / self.norm, 1 / (balance * self.norm)
        right = sigma / root * x

        def step(y: Array, ahead: Array, q: Array, p: Array, right: Array) -> State:
            q = (q + sigma / root * term.A.flat(ahead) - right) / (1 + sigma)
            p = p + sigma / slope * self._gradient(ahead)
            p = p / (lengths(p) / lam).clip(min=1)
            new = y + tau / slope * self._divergence(p) - tau / root * term.A.T.flat(q)
            new = new.clip(min=0) if self.nonnegative else new
            return new, 2 * new - y, q, p, right

        y = zeros_like(x, (len(x), term.A.shape[1]))
        return step, (y, y, zeros_like(x), self._gradient(y), right)

    def _alternating(self, x: Array, lam: float) -> Method:
        """The alternating direction method of multipliers (Boyd et al., 2011) for y = z ≥ 0 and ∇y = p.

        It inverts a matrix, and takes far fewer iterations.
        """
        term, most = self.term, THRESHOLD * self.scale
        rho = lam / most  # the penalty of ∇y ≠ p
        own = min(max(rho, LEAST_PENALTY), LARGEST_PENALTY)  # that of y ≠ z
        if lam not in self.inverses:
            identity = like(np.eye(term.A.shape[1]), term.product)
            matrix = term.product + rho * self._laplacian(identity) + own * identity
            self.inverses[lam] = library(matrix).linalg.inv(matrix)
        inverse, right = self.inverses[lam], term.A.T.flat(x) / term.L

        def step(z: Array, p: Array, dual_z: Array, dual_p: Array, right: Array) -> State:
            y = (right + own * (z - dual_z) - rho * self._divergence(p - dual_p)) @ inverse
            dual_z = dual_z + RELAXED * y + (1 - RELAXED) * z
            dual_p = dual_p + RELAXED * self._gradient(y) + (1 - RELAXED) * p
            z = dual_z.clip(min=0) if self.nonnegative else dual_z
            p = dual_p * (1 - most / lengths(dual_p).clip(min=most))
            return z, p, dual_z - z, dual_p - p, right

        z = zeros_like(right)
        p = self._gradient(z)
        return step, (z, p, z, p, right)

    def _gradient(self, y: Array) -> Array:
        """Return ∇ of flat images."""
        return gradient(y.reshape(-1, *self.shape))

    def _divergence(self, p: Array) -> Array:
        """Return −∇ᵀ of a field, as flat images."""
        return divergence(p).reshape(len(p), -1)

    def _laplacian(self, y: Array) -> Array:
        """Return ∇ᵀ∇ of flat images."""
        return -self._divergence(self._gradient(y))
