"""FC trained by gradient: ŷ = M x as in `koct.networks.fc`, but with M itself, learned under FSDP."""

import numpy as np

from koct.arrays import is_torch
from koct.errors import KoctError


class Network:
    """M as blocks of rows (blocks, rows, V·B), in memory or mapped; a prediction looks at one after the other."""

    MAPPED = True  # `restore` wants what the file holds as it is: M may be larger than memory

    def __init__(self, M, nonnegative):
        self.M = M
        self.nonnegative = nonnegative

    @staticmethod
    def parameters(H, V, B):
        return H * H * V * B

    @classmethod
    def fit(cls, x, y, spec, known=None, gram=None):
        raise KoctError("fc-fsdp is fitted by several processes: start `koct fit-fsdp` with torchrun")

    def predict(self, x):
        parts = [pixels(block, x, self.nonnegative) for block in self.M]
        if is_torch(x):
            import torch

            return torch.cat(parts, dim=1)
        return np.concatenate(parts, axis=1)

    def state(self):
        return {"M": self.M}

    @classmethod
    def restore(cls, state, x, y, spec, known=None):
        return cls(state["M"], spec["nonnegative"])


def pixels(block, x, nonnegative):
    """The pixels that some rows of M give for the samples x; `block` is an array in memory or mapped."""
    if is_torch(x):
        import torch

        block = torch.as_tensor(np.array(block), device=x.device) if not is_torch(block) else block
        block = block.to(x.dtype)
    image = x @ block.T
    return image.clip(min=0) if nonnegative else image
