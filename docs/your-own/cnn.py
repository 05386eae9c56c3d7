"""A small convolutional network behind the known layers: it learns what they leave to correct."""

from koct.contracts import Architecture, Cost, Network, option


class CNN(Architecture):
    label = "CNN"

    channels: int = option("channels of the hidden layers", default=8, minimum=1)
    iterations: int = option("steps of Adam", default=200, minimum=1)
    batch: int = option("samples per step, at most N", default=8, minimum=1)
    lr: float = option("learning rate", default=0.003, above=0)

    def needs(self):
        return frozenset({"layers"})

    def check(self, problem):
        if not problem.has_layers or len(problem.y_shape) != 2:
            yield f"the problem {problem.name} needs known layers and two-dimensional images; take another architecture"

    def fit(self, data):
        """One network for each λ, the weight decay."""
        import torch

        for lam in data.lambdas:
            generator = torch.Generator().manual_seed(1000 * data.seed + 7)
            network = CNNNetwork(self.module(data), data)
            start, y = network.start(data.x), torch.as_tensor(data.y).float().reshape(-1, 1, *data.y_shape)
            optimiser = torch.optim.AdamW(network.module.parameters(), lr=self.lr, weight_decay=lam)
            for _ in range(self.iterations):
                rows = torch.randint(0, data.N, (min(self.batch, data.N),), generator=generator).to(start.device)
                optimiser.zero_grad()
                torch.nn.functional.mse_loss(start[rows] + network.module(start[rows]), y[rows]).backward()
                optimiser.step()
            yield lam, network

    def module(self, data):
        """Three convolutions, the last one zero at first: training starts at the known reconstruction."""
        import torch

        torch.manual_seed(data.seed)
        layers = [
            torch.nn.Conv2d(1, self.channels, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(self.channels, self.channels, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(self.channels, 1, 3, padding=1),
        ]
        torch.nn.init.zeros_(layers[-1].weight)
        torch.nn.init.zeros_(layers[-1].bias)
        return torch.nn.Sequential(*layers).to(data.device.name)

    def restore(self, state, data):
        import numpy as np
        import torch

        network = CNNNetwork(self.module(data), data)
        network.module.load_state_dict({name: torch.as_tensor(np.array(value)) for name, value in state.items()})
        return network

    def cost(self, work):
        weights = 9 * (2 * self.channels + self.channels**2)
        steps = work.lambdas * self.iterations * self.batch
        memory = 4 * work.N * (work.x_size + 2 * work.y_size) + 100 * self.batch * self.channels * work.y_size
        return Cost(operations=2e10 + 6 * steps * weights * work.y_size, host_bytes=memory, gpu_bytes=memory)


class CNNNetwork(Network):
    def __init__(self, module, data):
        self.module, self.layers, self.shape = module, data.layers, data.y_shape
        self.nonnegative = data.nonnegative

    def start(self, x):
        """The known reconstruction of flat measurements, (n, 1, height, width) in float32."""
        import torch

        image = x
        for layer in self.layers:
            image = layer.operator(image.reshape(-1, *layer.operator.domain))
        return torch.as_tensor(image).float()[:, None]

    def predict(self, x):
        import torch

        with torch.no_grad():
            image = self.start(x)
            image = (image + self.module(image)).reshape(len(x), -1)
        return image.clip(min=0) if self.nonnegative else image

    def state(self):
        return {name: value.detach() for name, value in self.module.state_dict().items()}
