"""FC, the fully connected network: ŷ = M x with one dense learned matrix, fitted and applied in dual form."""

import numpy as np


class Network:
    """M = Yᵀ D X for the training pairs X (N, V·B), Y (N, H²): the H²×VB matrix is never built."""

    def __init__(self, dual, x, y):
        self.dual = dual
        self.x, self.y = x, y

    @staticmethod
    def parameters(H, V, B):
        return H * H * V * B

    @classmethod
    def fit(cls, x, y, lambdas, known=None):
        """Yield the ridge solution for each λ: argmin_M Σ_n ‖M x_n − y_n‖² + λ‖M‖².

        Its dual is D = (XXᵀ + λI)⁻¹; one eigendecomposition of the N×N Gram matrix serves every λ.
        """
        values, vectors = np.linalg.eigh(x @ x.T)
        values = np.maximum(values, 0)  # rounding leaves tiny negative ones
        for lam in lambdas:
            yield cls((vectors / (values + lam)) @ vectors.T, x, y)

    def predict(self, x):
        return ((x @ self.x.T) @ self.dual) @ self.y

    def state(self):
        """What a file needs to hold for `restore`; the training pairs stay in the pool."""
        return {"dual": self.dual}

    @classmethod
    def restore(cls, state, x, y, known=None):
        return cls(state["dual"], x, y)
