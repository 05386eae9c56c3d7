"""A network of two layers: random features, which stay as they are, and a readout that ridge regression learns.

Replace `fit` by your own: it sees the first N training pairs and yields a network for each λ, or one (None, network).
A torch module takes less: subclass koct.networks.module.ModuleArchitecture, as docs/your-own.md shows.
"""

from koct.contracts import Architecture, Cost, Network, option


class RandomFeatures(Architecture):
    label, colour, marker = "random features", "#5b4b8a", "^"
    hidden: int = option("hidden units", default=128, minimum=1)

    def fit(self, data):
        import numpy as np

        hidden = np.random.default_rng(0).standard_normal((data.x.shape[1], self.hidden)) / data.x.shape[1] ** 0.5
        features = Readout(hidden, np.eye(self.hidden)).predict(data.x)
        for lam in data.lambdas:
            gram = features.T @ features + lam * np.eye(self.hidden)
            yield lam, Readout(hidden, np.linalg.solve(gram, features.T @ data.y))

    def restore(self, state, data):
        return Readout(state["hidden"], state["readout"])

    def cost(self, work):
        return Cost()


class Readout(Network):
    def __init__(self, hidden, readout):
        self.hidden, self.readout = hidden, readout

    def predict(self, x):
        import numpy as np

        return np.maximum(x @ self.hidden, 0) @ self.readout

    def state(self):
        return {"hidden": self.hidden, "readout": self.readout}
