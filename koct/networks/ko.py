"""KO, the operator-aware network: ŷ = R diag(w) x, with R known and one learned weight per measurement."""

import numpy as np

from koct.errors import KoctError
from koct.networks.linalg import cholesky_solve, double, like


class Network:
    """`known` is what `koct.problems.known` says of R; images that cannot be negative are cut off at zero."""

    def __init__(self, w, known):
        self.w = w
        self.known = known

    @staticmethod
    def parameters(H, V, B):
        return V * B

    @classmethod
    def untrained(cls, known):
        """The network before any learning, with the weights that theory gives."""
        return cls(known.weights, known)

    @classmethod
    def fit(cls, x, y, spec, known, gram=None):
        """Yield (λ, network): one for each λ by ridge, one alone (λ is None) by gradient descent."""
        options = spec["ko"]
        if options["solver"] == "ridge":
            toward = known.weights if options["toward"] == "analytic" else None
            yield from cls._ridge(x, y, spec["lambdas"], known, toward)
        else:
            from koct.networks import gradient

            chosen = gradient.batches(spec["seed"], len(x), options["batch"], options["iterations"])
            yield None, cls(gradient.train(known, x, y, chosen, options["solver"], options["lr"]), known)

    @classmethod
    def _ridge(cls, x, y, lambdas, known, toward):
        """argmin_w Σ_n ‖R diag(w) x_n − y_n‖² + λ‖w − toward‖² for each λ; nothing is cut off at zero here.

        Since R diag(w) x = R diag(x) w, the normal matrix is Σ_n diag(x_n) RᵀR diag(x_n) = RᵀR ∘ XᵀX.
        A measurement that is zero in every sample has a zero row there and keeps w = toward: it is left out.
        One Cholesky factor per λ is cheaper than one eigendecomposition up to about a dozen λ.
        """
        right = double((x * known.adjoint(y)).sum(0))
        seen = double(x)
        live = (seen != 0).any(0)
        normal = seen.T @ seen
        normal *= known.gram
        prior = 0 * right if toward is None else double(toward)
        if not live.all():
            normal, right = normal[live][:, live], right[live]
        places = list(range(len(normal)))
        diagonal = normal[places, places]
        for lam in lambdas:
            normal[places, places] = diagonal + lam
            w = prior + 0
            try:
                w[live] = cholesky_solve(normal, right + lam * prior[live])
            except np.linalg.LinAlgError:
                raise KoctError(
                    f"the ridge with lambda = {lam:g} is singular to working precision: take it out of lambdas"
                ) from None
            yield lam, cls(like(w, x), known)

    def predict(self, x):
        return self.known.reconstruct(x * self.w)

    def state(self):
        """What a file needs to hold for `restore`."""
        return {"w": self.w}

    @classmethod
    def restore(cls, state, x, y, spec, known):
        return cls(state["w"], known)
