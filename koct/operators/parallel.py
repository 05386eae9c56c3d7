"""Parallel-beam projection by rotating the image and summing its rows, as one sparse matrix."""

import numpy as np

from koct.operators.algebra import Matrix, Sparse


def view_angles(V):
    """V equally spaced angles in degrees over the half circle, its end left out."""
    return np.linspace(0, 180, V, endpoint=False)


def cosine_and_sine(degrees):
    """Cosine and sine, exact at multiples of 90°."""
    quarters, rest = divmod(degrees, 90)
    c, s = np.cos(np.deg2rad(rest)), np.sin(np.deg2rad(rest))
    return [(c, s), (-s, c), (-c, -s), (s, -c)][int(quarters) % 4]


def projector(H, V):
    """The operator A from (H, H) images to (V, H) sinograms.

    A view is the image rotated bilinearly about its centre and summed along the first axis; samples beyond
    the pixel centres of the border are zero. Sine and cosine are exact at multiples of 90°, where a
    rounding error would push whole border rows out of the image.
    """
    i, j = np.divmod(np.arange(H * H), H)  # the rotated image's pixels
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
        part = [a - f for a, f in zip(at, low, strict=True)]
        row = view * H + j[inside]
        for di, dj in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = (part[0] if di else 1 - part[0]) * (part[1] if dj else 1 - part[1])
            keep = weight > 0
            rows.append(row[keep])
            columns.append(((low[0] + di) * H + low[1] + dj)[keep])
            weights.append(weight[keep])
    entries = (np.concatenate(part) for part in (rows, columns, weights))
    return Sparse(*entries, domain=(H, H), range=(V, H))


def tikhonov_inverse(A, strength):
    """The regularised inverse (AᵀA + strength·I)⁻¹ Aᵀ of a sparse operator, dense."""
    matrix = A.dense().values
    normal = matrix.T @ matrix
    normal[np.diag_indices_from(normal)] += strength
    return Matrix(np.linalg.solve(normal, matrix.T), domain=A.range, range=A.domain)
