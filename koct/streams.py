"""The random stream of `torch.Generator().manual_seed(seed)` on the CPU, without torch.

The fan-beam study is defined by that stream. Torch's generator is the Mersenne Twister with the classic seeding,
which NumPy has too; a test compares both number by number.
"""

import numpy as np


class TorchStream:
    """Draws what `torch.rand` and `torch.randint` would, call by call."""

    BLOCK = 4096  # raw words are drawn ahead: one call of NumPy for each would take longer than all the rest

    def __init__(self, seed):
        state = np.random.RandomState(seed & 0xFFFFFFFF).get_state()
        self._bits = np.random.MT19937()
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": state[1], "pos": state[2]}}
        self._words = iter(())

    def _word(self):
        """The next 32 random bits."""
        for word in self._words:
            return word
        self._words = iter(self._bits.random_raw(self.BLOCK).tolist())
        return next(self._words)

    def rand(self):
        """The one number of `torch.rand(1)`, a float32."""
        return np.float32((self._word() & 0xFFFFFF) / 2**24)

    def randint(self, low, high):
        """The one number of `torch.randint(low, high, (1,))`."""
        return low + self._word() % (high - low)
