"""The parallel-beam surrogate problem: noise-free sinograms of random ellipses, small enough for a laptop.

The known operator of its networks is the Tikhonov inverse A⁺ = (AᵀA + tikhonov·I)⁻¹ Aᵀ of the projector A.
"""

import numpy as np

from koct.operators.algebra import Matrix
from koct.operators.parallel import projector, tikhonov_inverse
from koct.problems.known import Known
from koct.problems.phantoms import draw_surrogate, rasterise

SELECT = "mse"  # the validation error that chooses λ
NONNEGATIVE = False  # the networks of this study have no ReLU


def records(spec, seed):
    """Yield the records of train, val and test, all from one random stream."""
    rng = np.random.default_rng(seed)
    A = projector(spec["H"], spec["V"])
    for part in ("train", "val", "test"):
        phantoms = np.stack([rasterise(draw_surrogate(rng), spec["H"]) for _ in range(spec["pool"][part])])
        yield {"x": A(phantoms), "y": phantoms}


def known(spec, record, where):
    """The operator that follows the learned weights; in theory they are all one."""
    return Known(Matrix(record["operator"]), np.ones(record["operator"].shape[1]), gram=record["gram"])


def gram(spec):
    """R and RᵀR as dense matrices."""
    R = tikhonov_inverse(projector(spec["H"], spec["V"]), spec["tikhonov"]).values
    return {"operator": R, "gram": R.T @ R}


def choose_device():
    """A laptop's CPU is all that these sizes need."""
    from koct.device import CPU

    return CPU
