"""The test that every operator has to pass: ⟨Ax, y⟩ = ⟨x, Aᵀy⟩ for random x and y.

from koct.operators.testing import assert_adjoint
assert_adjoint(A)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koct.base.arrays import to_numpy
from koct.operators.algebra import Operator

BATCH = 2  # so that an operator that mixes the members of a batch is found out


def adjoint_error(A: Operator, seed: int = 0, dtype: Any = np.float64, device: Any = None) -> float:
    """|⟨Ax, y⟩ − ⟨x, Aᵀy⟩| for random x and y, relative to the larger of ‖Ax‖ ‖y‖ and ‖x‖ ‖Aᵀy‖.

    An exact adjoint has an error of a few roundings: below 1e-12 in float64, below 1e-5 in float32. `dtype` is one of
    NumPy's or of torch's, and says which kind of arrays `A` is applied to; `device` is where tensors are put.
    """
    rng = np.random.default_rng(seed)
    x, y = (_like(rng.standard_normal((BATCH, *shape)), dtype, device) for shape in (A.domain, A.range))
    x, Ax, y, Aty = (to_numpy(array).astype(np.float64).reshape(BATCH, -1) for array in (x, A(x), y, A.T(y)))
    scale = np.max(abs(np.concatenate([Ax, Aty], axis=1)), initial=0)
    if scale == 0:
        return 0.0
    Ax, Aty = Ax / scale, Aty / scale  # so that no square is too small or too large for a float
    sizes = np.maximum(_norms(Ax) * _norms(y), _norms(x) * _norms(Aty))
    return float(np.max(abs((Ax * y).sum(1) - (x * Aty).sum(1)) / np.where(sizes == 0, 1, sizes)))


def assert_adjoint(
    A: Operator, tol: float | None = None, seed: int = 0, dtype: Any = np.float64, device: Any = None
) -> None:
    """Raise an AssertionError unless `adjoint_error` is at most `tol`: 1e-12, or 1e-5 in float32."""
    if tol is None:
        tol = 1e-5 if "float32" in str(np.dtype(dtype) if _is_numpy(dtype) else dtype) else 1e-12
    error = adjoint_error(A, seed, dtype, device)
    if not error <= tol:
        raise AssertionError(
            f"the adjoint of {A} is not its transpose: ⟨Ax, y⟩ and ⟨x, Aᵀy⟩ differ by {error:.3g} (relative), "
            f"more than {tol:g}; check `_adjoint` against `_apply`, for instance A.T.matrix() against A.matrix().T"
        )


def _is_numpy(dtype: Any) -> bool:
    return not type(dtype).__module__.startswith("torch")


def _like(array: np.ndarray, dtype: Any, device: Any) -> Any:
    if _is_numpy(dtype):
        return array.astype(dtype)
    import torch

    return torch.as_tensor(array, dtype=dtype, device=device)


def _norms(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows, axis=1)
