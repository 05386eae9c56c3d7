"""The loops of fan and parallel beam for the CPU, compiled by Numba for one thread.

Two things make the backprojection faster than a sparse product. Fan-beam views at angles β and π − β are mirror images
of each other, so one entry of the table of taps serves both; their data lie side by side in memory. And the helpers
below read all their values before they write any, so that LLVM can use vector instructions for values that lie side by
side ("lanes").
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

import numpy as np

from koct.operators.machine_code import compiled

ONE, TWO, THREE, FOUR, EIGHT = map(np.uint64, (1, 2, 3, 4, 8))  # unsigned: signed ones are first checked for their sign


@compiled
def _add2(to, m, w, s, view, left, right):
    t0 = to[m] + w * view[left] + s * view[right]
    t1 = to[m + ONE] + w * view[left + ONE] + s * view[right + ONE]
    to[m] = t0
    to[m + ONE] = t1


@compiled
def _add4(to, m, w, s, view, left, right):
    t0 = to[m] + w * view[left] + s * view[right]
    t1 = to[m + ONE] + w * view[left + ONE] + s * view[right + ONE]
    t2 = to[m + TWO] + w * view[left + TWO] + s * view[right + TWO]
    t3 = to[m + THREE] + w * view[left + THREE] + s * view[right + THREE]
    to[m] = t0
    to[m + ONE] = t1
    to[m + TWO] = t2
    to[m + THREE] = t3


@compiled
def _add8(to, m, w, s, view, left, right):
    _add4(to, m, w, s, view, left, right)
    _add4(to, m + FOUR, w, s, view, left + FOUR, right + FOUR)


@compiled
def _put2(to, left, right, w, s, image, m):
    i0, i1 = image[m], image[m + ONE]
    t0, t1 = to[left] + w * i0, to[left + ONE] + w * i1
    u0, u1 = to[right] + s * i0, to[right + ONE] + s * i1
    to[left] = t0
    to[left + ONE] = t1
    to[right] = u0
    to[right + ONE] = u1


@compiled
def _put4(to, left, right, w, s, image, m):
    i0, i1, i2, i3 = image[m], image[m + ONE], image[m + TWO], image[m + THREE]
    t0, t1, t2, t3 = to[left] + w * i0, to[left + ONE] + w * i1, to[left + TWO] + w * i2, to[left + THREE] + w * i3
    u0, u1, u2, u3 = to[right] + s * i0, to[right + ONE] + s * i1, to[right + TWO] + s * i2, to[right + THREE] + s * i3
    to[left] = t0
    to[left + ONE] = t1
    to[left + TWO] = t2
    to[left + THREE] = t3
    to[right] = u0
    to[right + ONE] = u1
    to[right + TWO] = u2
    to[right + THREE] = u3


@compiled
def _put8(to, left, right, w, s, image, m):
    _put4(to, left, right, w, s, image, m)
    _put4(to, left + FOUR, right + FOUR, w, s, image, m + FOUR)


@compiled
def _put(to, place, w, s, image, m, lanes):
    if lanes == 2:
        _put2(to, place, place + TWO, w, s, image, m)
    elif lanes == 4:
        _put4(to, place, place + FOUR, w, s, image, m)
    else:
        _put8(to, place, place + EIGHT, w, s, image, m)


@compiled
def gather(views, image, left, weight, share, lanes):
    """image[i, j] = Σ over views of weight · view[left] + share · difference[left], for 2, 4 or 8 lanes.

    views (V, B + 3, 2, lanes) holds each bin and the difference from it to the next one; image is (H, H, lanes); both
    are given with the trailing axes flattened. left, weight and share are (V, H, H).
    """
    V, H, _ = left.shape
    step = np.uint64(lanes)
    image[:] = 0
    for v in range(V):
        view = views[v]
        for i in range(H):
            to, at, w, s = image[i], left[v, i], weight[v, i], share[v, i]
            for j in range(H):
                m, place = np.uint64(j) * step, np.uint64(at[j]) * (step + step)
                if lanes == 2:
                    _add2(to, m, w[j], s[j], view, place, place + TWO)
                elif lanes == 4:
                    _add4(to, m, w[j], s[j], view, place, place + FOUR)
                else:
                    _add8(to, m, w[j], s[j], view, place, place + EIGHT)


@compiled
def scatter(image, views, left, weight, share, lanes):
    """The transpose of `gather`; views are (V, 2, B + 3, 2, lanes).

    The two halves of a row are added to separate copies of a view, so that one sum need not wait for the other.
    """
    V, H, _ = left.shape
    half, step = H // 2, np.uint64(lanes)
    views[:] = 0
    for v in range(V):
        one, other = views[v, 0], views[v, 1]
        for i in range(H):
            row, at, w, s = image[i], left[v, i], weight[v, i], share[v, i]
            for j in range(half):
                k = j + half
                _put(one, np.uint64(at[j]) * (step + step), w[j], s[j], row, np.uint64(j) * step, lanes)
                _put(other, np.uint64(at[k]) * (step + step), w[k], s[k], row, np.uint64(k) * step, lanes)
            for j in range(2 * half, H):
                _put(one, np.uint64(at[j]) * (step + step), w[j], s[j], row, np.uint64(j) * step, lanes)


@compiled
def _inside(start, step, H, samples):
    """The range of k for which start + k·step lies between -1 and H."""
    if step == 0:
        return (0, samples) if -1 < start < H else (0, 0)
    a, b = (-1 - start) / step, (H - start) / step
    # cut off before they become integers: a step of 3e-17, the cosine of 90°, leads beyond the largest one
    return int(min(max(np.floor(min(a, b)), 0), samples)), int(min(max(np.ceil(max(a, b)) + 1, 0), samples))


@compiled
def project(images, sinograms, rays, samples, H):
    """Sum bilinear samples along every ray; images (H + 2, H + 2, batch) have a border of zeros.

    rays (V·B, 5) holds the row and column of a ray's first sample and the steps to the next one, in pixels, and the
    weight of a sample; sinograms are (V·B, batch).
    """
    batch = sinograms.shape[1]
    T = images.dtype.type
    total = np.empty(batch, images.dtype)
    for ray in range(len(rays)):
        y0, x0, dy, dx, weight = rays[ray]
        first, last = _inside(y0, dy, H, samples)
        a, b = _inside(x0, dx, H, samples)
        total[:] = 0
        for k in range(max(first, a), min(last, b)):
            y, x = y0 + T(k) * dy + T(1), x0 + T(k) * dx + T(1)
            if not (0 < y < H + 1 and 0 < x < H + 1):
                continue
            i, j = int(y), int(x)
            v, u = y - T(i), x - T(j)
            above, below = images[i], images[i + 1]
            for n in range(batch):
                top = above[j, n] + u * (above[j + 1, n] - above[j, n])
                bottom = below[j, n] + u * (below[j + 1, n] - below[j, n])
                total[n] += top + v * (bottom - top)
        for n in range(batch):
            sinograms[ray, n] = weight * total[n]


@compiled
def project_transposed(sinograms, images, rays, samples, H):
    """The transpose of `project`; the caller discards the border of the images."""
    batch = sinograms.shape[1]
    T = images.dtype.type
    images[:] = 0
    for ray in range(len(rays)):
        y0, x0, dy, dx, weight = rays[ray]
        first, last = _inside(y0, dy, H, samples)
        a, b = _inside(x0, dx, H, samples)
        for k in range(max(first, a), min(last, b)):
            y, x = y0 + T(k) * dy + T(1), x0 + T(k) * dx + T(1)
            if not (0 < y < H + 1 and 0 < x < H + 1):
                continue
            i, j = int(y), int(x)
            v, u = y - T(i), x - T(j)
            for n in range(batch):
                value = weight * sinograms[ray, n]
                images[i, j, n] += (T(1) - v) * (T(1) - u) * value
                images[i, j + 1, n] += (T(1) - v) * u * value
                images[i + 1, j, n] += v * (T(1) - u) * value
                images[i + 1, j + 1, n] += v * u * value


@compiled
def add_pair(block, left, weight, share, left2, weight2, share2):
    """block[i, j] = Σ over pixels of how much bin i of one view and bin j of another each add to the pixel."""
    block[:] = 0
    for p in range(len(left)):
        i, j = left[p], left2[p]
        s, t = share[p], share2[p]
        w, v = weight[p] - s, weight2[p] - t
        block[i, j] += w * v
        block[i, j + 1] += w * t
        block[i + 1, j] += s * v
        block[i + 1, j + 1] += s * t
