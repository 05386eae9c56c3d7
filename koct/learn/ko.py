"""KO, the operator-aware network: ŷ = R diag(w) x, with R known and one learned weight per measurement."""

import numpy as np

from koct.errors import KoctError
from koct.learn.linalg import cholesky_solve


class Network:
    """`known` holds R as `operator` (H², V·B) and RᵀR as `gram` (V·B, V·B)."""

    def __init__(self, w, known):
        self.w = w
        self.known = known

    @staticmethod
    def parameters(H, V, B):
        return V * B

    @classmethod
    def untrained(cls, known):
        """The network before any learning, w = 1."""
        return cls(np.ones(known["operator"].shape[1]), known)

    @classmethod
    def fit(cls, x, y, lambdas, known):
        """Yield the ridge solution for each λ: argmin_w Σ_n ‖R diag(w) x_n − y_n‖² + λ‖w‖².

        Since R diag(w) x = R diag(x) w, the normal matrix is Σ_n diag(x_n) RᵀR diag(x_n) = RᵀR ∘ XᵀX.
        A measurement that is zero in every sample has a zero row there and keeps w = 0: it is left out.
        One Cholesky factor per λ is cheaper than one eigendecomposition up to about a dozen λ.
        """
        live = np.flatnonzero(x.any(axis=0))
        seen = x[:, live]
        normal = known["gram"][np.ix_(live, live)] * (seen.T @ seen)
        right = np.einsum("nk,nk->k", seen, (y @ known["operator"])[:, live])
        diagonal = normal.diagonal().copy()
        for lam in lambdas:
            normal[np.diag_indices_from(normal)] = diagonal + lam
            w = np.zeros(x.shape[1])
            try:
                w[live] = cholesky_solve(normal, right)
            except np.linalg.LinAlgError:
                raise KoctError(
                    f"the ridge with lambda = {lam:g} is singular to working precision: take it out of lambdas"
                ) from None
            yield cls(w, known)

    def predict(self, x):
        return (x * self.w) @ self.known["operator"].T

    def state(self):
        """What a file needs to hold for `restore`."""
        return {"w": self.w}

    @classmethod
    def restore(cls, state, x, y, known):
        return cls(state["w"], known)
