"""A residual U-Net behind the known reconstruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from koct.contracts import Problem, option
from koct.networks.module import UNetArchitecture

SEEN = {"both": ("reconstruction", "weakest"), "best": ("reconstruction",), "weakest": ("weakest",)}  # of the layers


class ResidualUNet(UNetArchitecture):
    """What a window takes away no network can restore, and what it smooths takes samples to learn: it sees both."""

    label = "U-Net"
    colour = "#7a1fa2"
    marker = "d"
    takes = "reconstruction"

    sees: Literal["both", "best", "weakest"] = option(
        "known reconstructions that it sees: `best`: that with the least error on the first training pairs; `weakest`: "
        "that with the least smoothing, such as FBP without a window; `both`: it corrects the best",
        default="both",
    )

    def reconstructions(self, layers: Any) -> Sequence[Any]:
        return [getattr(layers, name) for name in SEEN[self.sees]]

    @property
    def inside(self) -> int:
        return len(SEEN[self.sees])

    def module(self, problem: Problem, layers: Any) -> Any:
        return self.unet()
