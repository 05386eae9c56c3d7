"""Weights and one filter learned together: ŷ = B F(s) diag(w) x is linear in each of them, but not in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from koct.base.arrays import is_torch, like
from koct.contracts import Array
from koct.networks.filtering import Filtered, Moments
from koct.networks.linear import by_cholesky


class Parameters(NamedTuple):
    """Weights (V·bins,), the spectrum (P // 2 + 1,) and what both cost: the value of the objective."""

    w: Array
    spectrum: Array
    objective: float


class Alternation:
    """Minimises Σ_n ‖B F(s) diag(w) x_n − y_n‖² + λ(‖w − w₀‖² + ‖s − s₀‖²) by ridge steps in w and s by turns.

    No step raises the objective. The start is the best of: w alone learned, s alone learned, the solution of the last
    λ. So the result is never worse than that of a network that learns one of the two.
    """

    def __init__(self, known: Filtered, x: Array, y: Array, normal_of_R: Array):
        self.moments = Moments(known, x, y, normal_of_R)
        self.w, self.spectrum = (like(part, self.moments.mixed) for part in (known.weights, known.spectrum))

    def fit(self, lambdas: Sequence[float], tolerance: float, rounds: int) -> Iterator[tuple[float, Parameters]]:
        """Yield (λ, parameters), the largest λ first.

        A round is a step in each; the last one lowers the objective by less than `tolerance` of it, or is the last
        of `rounds`.
        """
        last: Parameters | None = None
        for lam in sorted(lambdas, reverse=True):
            starts = [self.w, self._step_in_weights(self.spectrum, lam).w, *([] if last is None else [last.w])]
            here = min((self._step_in_filter(w, lam) for w in starts), key=lambda start: start.objective)
            done, settled = 0, False
            while done < rounds and not settled:
                before = here.objective
                here = self._step_in_filter(self._step_in_weights(here.spectrum, lam).w, lam)
                done, settled = done + 1, before - here.objective <= tolerance * before
            end = "" if settled else ", not yet settled"
            print(f"lambda {lam:g}: {done} rounds, objective {here.objective:.6g}{end}", flush=True)
            yield lam, here
            last = here

    def _step_in_weights(self, spectrum: Array, lam: float) -> Parameters:
        matrix, right = self.moments.of_weights(spectrum)
        w, fit = self._solve(matrix, right, self.w, lam)
        return Parameters(w, spectrum, fit + lam * _squares(spectrum - self.spectrum))

    def _step_in_filter(self, w: Array, lam: float) -> Parameters:
        matrix, right = self.moments.of_filter(w, per_view=False)
        spectrum, fit = self._solve(matrix, right, self.spectrum, lam)
        return Parameters(w, spectrum, fit + lam * _squares(w - self.w))

    def _solve(self, matrix: Array, right: Array, prior: Array, lam: float) -> tuple[Array, float]:
        """(θ, ‖Dθ − y‖² + λ‖θ − θ₀‖²): with g = Dᵀ(y − Dθ₀) the second is ‖y − Dθ₀‖² − gᵀ(θ − θ₀)."""
        product = matrix @ prior
        before = self.moments.energy - 2 * float(right @ prior) + float(prior @ product)
        ((_, theta),) = by_cholesky(matrix, right, prior, [lam])
        return theta, before - float((right - product) @ (theta - prior))


def _squares(values: Array) -> float:
    return float((values * values).sum())


class Joint:
    """The same network for `koct.networks.gradient`: its parameters are one vector, the weights and then the filter."""

    def __init__(self, known: Filtered):
        self.known, self.nonnegative = known, known.nonnegative
        self.analytic = np.concatenate([known.weights, known.spectrum])

    def split(self, parameters: Array) -> tuple[Array, Array]:
        size = len(self.known.weights)
        return parameters[:size], parameters[size:]

    def loss_and_gradient(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """Mean squared error of a batch, and its gradient."""
        known, (w, spectrum) = self.known, self.split(parameters)
        coefficients, factors = known.coefficients(x * w), known.factors(spectrum)
        image = known.behind(coefficients * factors)
        if known.nonnegative:
            image = image.clip(min=0)
        residual = image - y
        loss = (residual * residual).mean()
        if known.nonnegative:
            residual = residual * (image > 0)
        back = known.adjoint(residual)
        of_weights = (x * known.measurements(back * factors)).sum(0)
        of_filter = (back * coefficients).sum((0, 1)) @ known.tied(x).T
        return loss, _concatenated(of_weights, of_filter) * (2 / (y.shape[0] * y.shape[1]))


def _concatenated(first: Array, second: Array) -> Array:
    if is_torch(first):
        import torch

        return torch.cat([first, second])
    return np.concatenate([first, second])
