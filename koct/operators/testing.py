"""The tests that every operator has to pass: ⟨Ax, y⟩ = ⟨x, Aᵀy⟩ and A(x + 2z) = Ax + 2Az for random x, y and z.

from koct.operators.testing import assert_adjoint
assert_adjoint(A)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koct.base.arrays import to_numpy
from koct.operators.algebra import Operator

LOOSE = 1e-6  # what koct accepts of an operator that is not its own: inverses by iteration, sums in float32
BATCH = 2  # so that an operator that mixes the members of a batch is found out


def adjoint_error(A: Operator, seed: int = 0, dtype: Any = np.float64, device: Any = None) -> float:
    """|⟨Ax, y⟩ − ⟨x, Aᵀy⟩| for random x and y, relative to the larger of ‖Ax‖ ‖y‖ and ‖x‖ ‖Aᵀy‖.

    An exact adjoint has an error of a few roundings: below 1e-12 in float64, below 1e-5 in float32. `dtype` is one of
    NumPy's or of torch's, and says which kind of arrays `A` is applied to; `device` is where tensors are put.
    """
    rng = np.random.default_rng(seed)
    x, y = (_like(rng.standard_normal((BATCH, *shape)), dtype, device) for shape in (A.domain, A.range))
    return _difference(*(to_numpy(array).astype(np.float64) for array in (x, A(x), y, A.T(y))))


def _difference(*arrays: np.ndarray) -> float:
    """|⟨Ax, y⟩ − ⟨x, Aᵀy⟩| of batches x, Ax, y and Aᵀy, as `adjoint_error` says."""
    x, Ax, y, Aty = (array.reshape(BATCH, -1) for array in arrays)
    scale = np.max(abs(np.concatenate([Ax, Aty], axis=1)), initial=0)
    if scale == 0:
        return 0.0
    Ax, Aty = Ax / scale, Aty / scale  # so that no square is too small or too large for a float
    of_x, of_Ax, of_y, of_Aty = (np.linalg.norm(rows, axis=1) for rows in (x, Ax, y, Aty))
    sizes = np.maximum(of_Ax * of_y, of_x * of_Aty)
    return float(np.max(abs((Ax * y).sum(1) - (x * Aty).sum(1)) / np.where(sizes == 0, 1, sizes)))


def assert_adjoint(
    A: Operator, tol: float | None = None, seed: int = 0, dtype: Any = np.float64, device: Any = None
) -> None:
    """Raise an AssertionError unless `adjoint_error` is at most `tol`: 1e-12, or 1e-5 in float32."""
    if tol is None:
        tol = 1e-5 if "float32" in str(_like(np.zeros(0), dtype, None).dtype) else 1e-12
    error = adjoint_error(A, seed, dtype, device)
    if not error <= tol:
        raise AssertionError(
            f"the adjoint of {A} is not its transpose: ⟨Ax, y⟩ and ⟨x, Aᵀy⟩ differ by {error:.3g} (relative), "
            f"more than {tol:g}; check `_adjoint` against `_apply`, for instance A.T.matrix() against A.matrix().T"
        )


def fault(A: Operator) -> tuple[str, str] | None:
    """Return (method, sentence) for what is wrong with an operator on NumPy arrays in float64; None if nothing is.

    It takes two applications and one of the adjoint.
    """
    x = np.random.default_rng(1).standard_normal((BATCH, *A.domain))
    y = np.random.default_rng(2).standard_normal((BATCH, *A.range))
    Ax, Aty, sum_ = A(x), A.T(y), A(x[0] + 2 * x[1])
    for method, out in (("_apply", Ax), ("_adjoint", Aty)):
        if not isinstance(out, np.ndarray) or out.dtype != np.float64:
            kind = str(out.dtype) if isinstance(out, np.ndarray) else type(out).__name__
            return method, f"{method} gives {kind} for a NumPy array in float64; give the kind that it is given"
        if not np.isfinite(out).all() or not out.any():
            what = "zeros" if np.isfinite(out).all() else "numbers that are not finite"
            return method, f"{method} gives {what} for random numbers"
    if not np.linalg.norm(sum_ - Ax[0] - 2 * Ax[1]) <= LOOSE * np.linalg.norm(Ax):
        return "_apply", "it is not linear, each sample by itself: A(x + 2z) is not Ax + 2Az"
    error = _difference(x, Ax, y, Aty)
    if not error <= LOOSE:
        return "_adjoint", (
            f"its adjoint is not its transpose: ⟨Ax, y⟩ and ⟨x, Aᵀy⟩ differ by {error:.2g} (relative); correct "
            "`_adjoint`, which `koct.operators.testing.assert_adjoint` tests"
        )
    return None


def _like(array: np.ndarray, dtype: Any, device: Any) -> Any:
    if not type(dtype).__module__.startswith("torch"):
        return array.astype(dtype)
    import torch

    return torch.as_tensor(array, dtype=dtype, device=device)
