"""The random stream of `torch.Generator().manual_seed(seed)` on the CPU, without torch.

The fan-beam study is defined by that stream. Torch's generator is the Mersenne Twister with the classic seeding,
which NumPy has too; a test compares both number by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class TorchStream:
    """Draws what `torch.rand` and `torch.randint` would, call by call."""

    BLOCK = 4096  # raw words are drawn ahead: one call of NumPy for each would dominate the time

    def __init__(self, seed: int):
        self._bits = np.random.MT19937()
        state: Any = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False)
        self._bits.state = state
        self._words: Iterator[int] = iter(())

    def _word(self) -> int:
        """The next 32 random bits."""
        for word in self._words:
            return word
        self._words = iter(self._bits.random_raw(self.BLOCK).tolist())
        return next(self._words)

    def rand(self) -> np.float32:
        """The one number of `torch.rand(1)`, a float32."""
        return np.float32((self._word() & 0xFFFFFF) / 2**24)

    def randint(self, low: int, high: int) -> int:
        """The one number of `torch.randint(low, high, (1,))`."""
        return low + self._word() % (high - low)
