"""Linear algebra in float64 on NumPy arrays and torch tensors alike.

SciPy has more of it, but importing SciPy takes longer than a small fit.
"""

import numpy as np

from koct.base.arrays import blocks, double, is_torch


def product(a, b):
    """a @ b in float64, without a copy of all of b."""
    return sum(double(a[:, rows]) @ double(b[rows]) for rows in blocks(b.shape[0], b.shape[1]))


def cholesky_solve(matrix, right, block=64):
    """Solve `matrix` u = `right` for a symmetric positive definite matrix and one right side."""
    if is_torch(matrix):
        import torch

        L, failed = torch.linalg.cholesky_ex(matrix)
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        return torch.cholesky_solve(right[:, None], L)[:, 0]
    L = np.linalg.cholesky(matrix)
    u = right.copy()
    starts = range(0, len(u), block)
    for a in starts:  # L v = right
        b = a + block
        u[a:b] = np.linalg.solve(L[a:b, a:b], u[a:b] - L[a:b, :a] @ u[:a])
    for a in reversed(starts):  # Lᵀ u = v
        b = a + block
        u[a:b] = np.linalg.solve(L[a:b, a:b].T, u[a:b] - L[b:, a:b].T @ u[b:])
    return u
