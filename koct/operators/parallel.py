"""Parallel-beam projection as one sparse matrix: rotate the image and add up its rows."""

from __future__ import annotations

import numpy as np

from koct.operators.algebra import Matrix, Operator


def view_angles(V: int) -> np.ndarray:
    """Return V equally spaced angles over the half circle without its end, in degrees: shape (V,)."""
    return np.linspace(0, 180, V, endpoint=False)


def cosine_and_sine(degrees: float) -> tuple[float, float]:
    """Return cosine and sine, exact at multiples of 90°."""
    quarters, remainder = divmod(degrees, 90)
    c, s = np.cos(np.deg2rad(remainder)), np.sin(np.deg2rad(remainder))
    return [(c, s), (-s, c), (-c, -s), (s, -c)][int(quarters) % 4]


def projector(H: int, V: int) -> Matrix:
    """Return the operator A from images to parallel-beam sinograms; lengths are in pixels.

    A view is the image, rotated about its centre with bilinear interpolation and summed along its first axis; samples
    outside the centres of the border pixels are zero. Sine and cosine are exact at multiples of 90°, where a rounding
    error would push whole border rows out of the image.

    Parameters
    ----------
    H : height and width of the image, in pixels
    V : number of views, equally spaced over the half circle without its end

    Returns
    -------
    A : from (H, H) to (V, H)

    Examples
    --------
    >>> from koct.operators.parallel import projector
    >>> projector(3, 2)(np.eye(3))
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """
    i, j = np.divmod(np.arange(H * H), H)  # the pixels of the rotated image
    centre = np.full(2, (H - 1) / 2)
    rows, columns, weights = [], [], []
    for view, angle in enumerate(view_angles(V)):
        c, s = cosine_and_sine(angle)
        rotation = np.array([[c, s], [-s, c]])
        offset = centre - rotation @ centre
        at = [offset[k] + i * rotation[k, 0] + j * rotation[k, 1] for k in (0, 1)]
        inside = (at[0] >= 0) & (at[0] <= H - 1) & (at[1] >= 0) & (at[1] <= H - 1)
        at = [a[inside] for a in at]
        low = [np.floor(a).astype(int) for a in at]
        fraction = [a - f for a, f in zip(at, low, strict=True)]
        row = view * H + j[inside]
        for di, dj in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = (fraction[0] if di else 1 - fraction[0]) * (fraction[1] if dj else 1 - fraction[1])
            keep = weight > 0
            rows.append(row[keep])
            columns.append(((low[0] + di) * H + low[1] + dj)[keep])
            weights.append(weight[keep])
    entries = np.concatenate(rows), np.concatenate(columns), np.concatenate(weights)
    return Matrix.from_entries(*entries, domain=(H, H), range=(V, H))


def tikhonov_inverse(A: Operator, strength: float) -> Matrix:
    """Return the regularised inverse (AᵀA + strength·I)⁻¹ Aᵀ of A.

    Parameters
    ----------
    A : operator
    strength : of the regularisation, above 0

    Returns
    -------
    inverse : dense matrix from the range of A to its domain

    Examples
    --------
    >>> from koct.operators.algebra import Matrix
    >>> from koct.operators.parallel import tikhonov_inverse
    >>> tikhonov_inverse(Matrix(np.eye(2)), 1.0).values
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    matrix = A.values if isinstance(A, Matrix) and A.dense else A.matrix()
    normal = matrix.T @ matrix
    normal[np.diag_indices_from(normal)] += strength
    return Matrix(np.linalg.solve(normal, matrix.T), domain=A.range, range=A.domain)
