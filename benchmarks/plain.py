"""The surrogate study as one plain script: dense matrices, nothing shared between cells, nothing cached.

What most people would write first. It shares no code with koct, so the tests also use it as an independent answer.
"""

import argparse
import sys
import time

import numpy as np
from scipy.ndimage import rotate

LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)


def forward_matrix(H, V):
    """Column k is the sinogram of the k-th unit image."""
    A = np.zeros((V * H, H * H))
    for k in range(H * H):
        image = np.zeros(H * H)
        image[k] = 1
        image = image.reshape(H, H)
        for v, angle in enumerate(np.linspace(0, 180, V, endpoint=False)):
            turned = rotate(image, angle, order=1, reshape=False, mode="constant", prefilter=False)
            A[v * H : (v + 1) * H, k] = turned.sum(axis=0)
    return A


def phantom(rng, H):
    x, y = np.meshgrid(np.linspace(-1, 1, H), np.linspace(-1, 1, H))
    image = np.zeros((H, H))
    for _ in range(rng.integers(1, 5)):
        amplitude = rng.uniform(0.2, 1)
        cx, cy = rng.uniform(-0.5, 0.5, 2)
        a, b = rng.uniform(0.08, 0.4, 2)
        t = rng.uniform(0, np.pi)
        u = (x - cx) * np.cos(t) + (y - cy) * np.sin(t)
        v = -(x - cx) * np.sin(t) + (y - cy) * np.cos(t)
        image += amplitude * ((u / a) ** 2 + (v / b) ** 2 <= 1)
    return np.clip(image, 0, 1.5)


def cell(A, H, arch, N, seed, train=256, val=32, test=128):
    """Test MSE of one cell, everything made anew."""
    rng = np.random.default_rng(seed)
    images = np.stack([phantom(rng, H).ravel() for _ in range(train + val + test)])
    sinograms = images @ A.T
    x, y = sinograms[:N], images[:N]
    x_val, y_val = sinograms[train : train + val], images[train : train + val]
    x_test, y_test = sinograms[train + val :], images[train + val :]
    best = np.inf
    if arch == "ko":
        inverse = np.linalg.solve(A.T @ A + 0.1 * np.eye(H * H), A.T)
        normal, right = 0, 0
        for sinogram, image in zip(x, y, strict=True):
            design = inverse * sinogram
            normal, right = normal + design.T @ design, right + design.T @ image
        for lam in LAMBDAS:
            w = np.linalg.solve(normal + lam * np.eye(len(normal)), right)
            error = np.mean((x_val * w @ inverse.T - y_val) ** 2)
            if error < best:
                best, result = error, np.mean((x_test * w @ inverse.T - y_test) ** 2)
    else:
        for lam in LAMBDAS:
            M = np.linalg.solve(x.T @ x + lam * np.eye(x.shape[1]), x.T @ y).T
            error = np.mean((x_val @ M.T - y_val) ** 2)
            if error < best:
                best, result = error, np.mean((x_test @ M.T - y_test) ** 2)
    return result


def curve(A, H, arch, Ns=(4, 8, 16, 32, 64), seeds=(1, 2, 3, 4, 5), **pool):
    """(floor, sigma) of one curve."""
    mean = np.array([np.mean([cell(A, H, arch, N, seed, **pool) for seed in seeds]) for N in Ns])
    t = np.log(Ns) / np.array(Ns)
    floor = mean.min()
    return floor, t @ (mean - floor) / (t @ t)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    started = time.perf_counter()
    for H in (8, 16, 32):
        A = forward_matrix(H, H * 5 // 4)
        for arch in ("ko", "fc"):
            floor, sigma = curve(A, H, arch)
            print(f"H = {H:2} {arch}: floor {floor:.2e}  sigma {sigma:.2e}")
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
