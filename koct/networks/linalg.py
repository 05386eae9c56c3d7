"""Linear algebra in float64 on NumPy arrays and torch tensors alike.

SciPy has more of it, but importing SciPy takes longer than a small fit.
"""

import numpy as np

from koct.arrays import double, is_torch

BLOCK = 2**24  # entries of a float32 array that are turned into float64 at a time


def _blocks(length, width):
    step = max(1, BLOCK // max(width, 1))
    return [slice(first, first + step) for first in range(0, length, step)]


def product(a, b):
    """a @ b in float64, without a copy of all of b."""
    return sum(double(a[:, rows]) @ double(b[rows]) for rows in _blocks(b.shape[0], b.shape[1]))


def gram_matrix(x):
    """x xᵀ in float64, without a copy of all of x."""
    total = 0
    for columns in _blocks(x.shape[1], x.shape[0]):
        part = double(x[:, columns])
        total = total + part @ part.T
    return total


def eigh(matrix):
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    if is_torch(matrix):
        import torch

        return torch.linalg.eigh(matrix)
    return np.linalg.eigh(matrix)


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
