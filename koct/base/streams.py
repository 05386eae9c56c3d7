"""The random stream of `torch.Generator().manual_seed(seed)` on the CPU, without torch.

The fan-beam study is defined by that stream. Torch's generator is the Mersenne Twister with the classic seeding,
which NumPy has too; a test compares both number by number.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


class TorchStream:
    """Draws what `torch.rand` and `torch.randint` would, call by call."""

    BLOCK = 4096  # raw words are drawn ahead: one call of NumPy for each would dominate the time

    def __init__(self, seed: int):
        bits = np.random.MT19937()
        state: Any = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False)
        bits.state = state
        self._words = (word for _ in itertools.count() for word in bits.random_raw(self.BLOCK).tolist())

    def rand(self) -> np.float32:
        """The one number of `torch.rand(1)`, a float32."""
        return np.float32((next(self._words) & 0xFFFFFF) / 2**24)

    def randint(self, low: int, high: int) -> int:
        """The one number of `torch.randint(low, high, (1,))`."""
        return low + next(self._words) % (high - low)
