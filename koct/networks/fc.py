"""FC, the fully connected network: ŷ = M x with one dense learned matrix, fitted and applied in dual form."""

from koct.networks.linalg import eigh, gram_matrix, product


class Network:
    """M = Yᵀ D X for the training pairs X (N, V·B), Y (N, H²): the H²×VB matrix is never built.

    D = vectors · diag(scale) · vectorsᵀ; where images cannot be negative, predictions are cut off at zero.
    """

    def __init__(self, vectors, scale, x, y, nonnegative):
        self.vectors, self.scale = vectors, scale
        self.x, self.y = x, y
        self.nonnegative = nonnegative

    @staticmethod
    def parameters(H, V, B):
        return H * H * V * B

    @classmethod
    def fit(cls, x, y, spec, known=None, gram=None):
        """Yield (λ, the ridge solution) for each λ: argmin_M Σ_n ‖M x_n − y_n‖² + λ‖M‖².

        Its dual is D = (XXᵀ + λI)⁻¹; one eigendecomposition of the N×N Gram matrix, all in float64, serves every λ.
        `gram` is that matrix if it is known already.
        """
        values, vectors = eigh(gram_matrix(x) if gram is None else gram)
        values = values.clip(min=0)  # rounding leaves tiny negative ones
        for lam in spec["lambdas"]:
            yield lam, cls(vectors, 1 / (values + lam), x, y, spec["nonnegative"])

    def predict(self, x):
        dual = ((product(x, self.x.T) @ self.vectors) * self.scale) @ self.vectors.T
        image = product(dual, self.y)
        return image.clip(min=0) if self.nonnegative else image

    def state(self):
        """What a file needs to hold for `restore`; the training pairs stay in the pool."""
        return {"vectors": self.vectors, "scale": self.scale}

    @classmethod
    def restore(cls, state, x, y, spec, known=None):
        return cls(state["vectors"], state["scale"], x, y, spec["nonnegative"])
