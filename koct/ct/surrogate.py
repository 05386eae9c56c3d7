"""The parallel-beam surrogate problem: noise-free sinograms of random ellipses, small enough for a laptop.

The known operator of its networks is the Tikhonov inverse A⁺ = (AᵀA + tikhonov·I)⁻¹ Aᵀ of the projector A.
"""

import numpy as np

from koct.ct.parallel import projector, tikhonov_inverse
from koct.ct.phantoms import draw_surrogate, rasterise


def pairs(spec, seed):
    """Yield (part, sinograms, phantoms) for train, val and test, all from one random stream."""
    rng = np.random.default_rng(seed)
    A = projector(spec["H"], spec["V"])
    for part in ("train", "val", "test"):
        phantoms = np.stack([rasterise(draw_surrogate(rng), spec["H"]) for _ in range(spec["pool"][part])])
        yield part, A(phantoms), phantoms


def known_operator(spec):
    """The operator that follows the learned weights, from sinograms to images."""
    return tikhonov_inverse(projector(spec["H"], spec["V"]), spec["tikhonov"])
