"""What NumPy lacks; SciPy has it, but importing SciPy takes longer than a small fit."""

import numpy as np


def cholesky_solve(matrix, right, block=64):
    """Solve `matrix` u = `right` for a symmetric positive definite matrix and one right side."""
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
