"""Ridge regression of the weights in front of a known operator, in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from koct.base.arrays import copy, double, like, zeros_like
from koct.contracts import Array
from koct.errors import KoctError
from koct.networks.known import Known
from koct.networks.linalg import cholesky_solve


def weights_by_ridge(
    known: Known, x: Array, y: Array, normal_of_R: Array, lambdas: Sequence[float], toward: Any
) -> Iterator[tuple[float, Array]]:
    """Yield (λ, argmin_w Σ_n ‖R diag(w) x_n − y_n‖² + λ‖w − toward‖²); nothing is cut off at zero here.

    Since R diag(w) x = R diag(x) w, the normal matrix is Σ_n diag(x_n) RᵀR diag(x_n) = RᵀR ∘ XᵀX.
    Where measurements share a weight, the rows and columns of each weight are added up.
    A measurement that is zero in every sample has a zero row there and keeps w = toward: it is left out.
    One Cholesky factor per λ is cheaper than one eigendecomposition up to about a dozen λ.
    """
    right = double(known.per_weight(x * known.adjoint(y)).sum(0))
    X = double(x)
    normal = X.T @ X
    normal *= normal_of_R
    normal = known.per_weight(known.per_weight(normal).T).T
    live = known.per_weight(X != 0).sum(0) > 0
    prior = zeros_like(right) if toward is None else double(like(toward, x))  # as the network would hold it
    if not live.all():
        normal, right = normal[live][:, live], right[live]
    places = list(range(len(normal)))
    diagonal = normal[places, places]
    for lam in lambdas:
        normal[places, places] = diagonal + lam
        w = copy(prior)
        try:
            w[live] = cholesky_solve(normal, right + lam * prior[live])
        except np.linalg.LinAlgError:
            raise KoctError(
                f"the ridge with lambda = {lam:g} is singular to working precision: remove it from lambdas"
            ) from None
        yield lam, like(w, x)
