"""A small convolutional network behind the known layers: it learns what they leave to correct."""

from koct.contracts import option
from koct.networks.module import ModuleArchitecture


class CNN(ModuleArchitecture):
    label = "CNN"
    takes = "reconstruction"

    channels: int = option("channels of the hidden layers", default=8, minimum=1)

    def module(self, problem, layers):
        from torch import nn

        class Residual(nn.Sequential):
            def forward(self, image):
                return image + super().forward(image)

        return Residual(
            nn.Conv2d(1, self.channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(self.channels, self.channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(self.channels, 1, 3, padding=1),
        )

    def multiplications(self, work):
        return 9 * (2 * self.channels + self.channels**2) * work.y_size
