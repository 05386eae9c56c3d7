"""What fan-beam operators of koct are timed against: SciPy's and cuSPARSE's sparse products, ASTRA, torchtomo.

A peer of a geometry is a dictionary from the names of operators in `fanbeam.py` to functions of batches, (n, V, B) or
(n, H, H), in float32; it leaves out what the peer does not have. ASTRA and torchtomo are not dependencies of koct
(torchtomo's licence, CC BY-NC 4.0, rules out commercial use): where they are not installed, they are left out.
"""

import importlib.util
import math
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse

from koct.operators.fanbeam import analytic_weights
from koct.operators.filters import RampFilter

RAYS_AT_ONCE = 2**22  # samples of rays that are turned into entries of a matrix at a time


def installed(name):
    return importlib.util.find_spec(name) is not None


def backprojection_matrix(g):
    """(H², V·B): the matrix of `Backprojector(g)` in compressed rows, view by view from its taps."""
    views = []
    for angle in g.angles:
        left, weight, share = (part.ravel() for part in g.taps(angle))
        rows, columns = np.tile(np.arange(g.H**2), 2), np.concatenate([left - 1, left])
        entries = np.concatenate([weight - share, share])
        stay = (columns >= 0) & (columns < g.B) & (entries != 0)
        entries = entries[stay].astype(np.float32)
        views.append(sparse.csr_array((entries, (rows[stay], columns[stay])), (g.H**2, g.B)))
    return compressed(sparse.hstack(views, format="csr"))


def projection_matrix(g, rays):
    """(V·B, H²): the matrix of `Projector(g, rays)` in compressed rows; entries at the same pixel are added."""
    table, count = g.samples(rays)
    parts = []
    for some in np.array_split(table, math.ceil(len(table) * count / RAYS_AT_ONCE)):
        y0, x0, dy, dx, weight = (column[:, None] for column in some.T)
        y, x = y0 + np.arange(count) * dy, x0 + np.arange(count) * dx
        ray, k = np.nonzero((y > -1) & (y < g.H) & (x > -1) & (x < g.H))
        y, x, weight = y[ray, k], x[ray, k], weight[ray, 0]
        i, j = np.floor(y).astype(np.int32), np.floor(x).astype(np.int32)
        v, u = y - i, x - j
        part = 0
        for row, column, entries in (
            (i, j, (1 - v) * (1 - u)),
            (i, j + 1, (1 - v) * u),
            (i + 1, j, v * (1 - u)),
            (i + 1, j + 1, v * u),
        ):
            stay = (row >= 0) & (row < g.H) & (column >= 0) & (column < g.H) & (entries != 0)
            places = ray[stay].astype(np.int32), row[stay] * g.H + column[stay]
            part = part + sparse.csr_array(((entries * weight)[stay], places), (len(some), g.H**2))
        parts.append(part.astype(np.float32))
    return compressed(sparse.vstack(parts, format="csr"))


def compressed(matrix):
    """With sorted columns, and indices in 32 bits where that is enough."""
    matrix.sort_indices()
    if matrix.nnz < 2**31:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def stored_products(g, product, kind):
    """A peer that multiplies by stored matrices; `product` takes a matrix to a function of batches of vectors."""
    peer = {}
    for name, matrix in (
        ("backprojection", lambda: backprojection_matrix(g)),
        ("forward, exact rays", lambda: projection_matrix(g, "exact")),
        ("forward, printed rays", lambda: projection_matrix(g, "printed")),
    ):
        forward = matrix()
        forth, back = product(forward), product(forward.T.tocsr())
        images, sinograms = (g.H, g.H), (g.V, g.B)
        to, fro = (images, sinograms) if name == "backprojection" else (sinograms, images)
        peer[name] = reshaped(forth, to)
        peer[ADJOINT[name]] = reshaped(back, fro)
    weights, ramp = kind(analytic_weights(g)), kind(RampFilter(g.V, g.B, width=g.width).view_matrix)
    peer["FBP"] = lambda x: peer["backprojection"]((weights * x) @ ramp)
    return peer


ADJOINT = {
    "backprojection": "its adjoint",
    "forward, exact rays": "adjoint, exact rays",
    "forward, printed rays": "adjoint, printed rays",
}


def reshaped(product, shape):
    return lambda x: product(x.reshape(len(x), -1)).reshape(-1, *shape)


def scipy_peer(g):
    """Every operator has a matrix of its own in compressed rows, the adjoints too."""
    return stored_products(g, lambda matrix: lambda x: (matrix @ x.T).T, lambda array: array.astype(np.float32))


def cusparse_peer(g):
    """As `scipy_peer`, on the GPU by torch's compressed rows, which are cuSPARSE's."""

    def product(matrix):
        parts = (torch.as_tensor(part, device="cuda") for part in (matrix.indptr, matrix.indices, matrix.data))
        with warnings.catch_warnings(action="ignore"):  # torch calls compressed rows a beta
            stored = torch.sparse_csr_tensor(*parts, matrix.shape)
        return lambda x: (stored @ x.T).T

    return stored_products(g, product, lambda array: torch.as_tensor(array, dtype=torch.float32, device="cuda"))


def astra_peer(g):
    """ASTRA's lines through pixels, on one CPU thread and one image at a time: other numbers than bilinear samples.

    The API of astra-toolbox 2. Its angles run the other way round, because its rows run from the bottom to the top. On
    the CPU it has neither a fan-beam FBP nor a weighted backprojection.
    """
    if not installed("astra"):
        return None
    import astra

    side = g.radius + g.pixel / 2
    volume = astra.create_vol_geom(g.H, g.H, -side, side, -side, side)
    distances = g.source_isocentre, g.source_detector - g.source_isocentre
    scan = astra.create_proj_geom("fanflat", g.bin, g.B, -g.angles, *distances)
    W = astra.OpTomo(astra.create_projector("line_fanflat", scan, volume))
    return {
        "forward, exact rays": lambda x: np.stack([W.FP(image) for image in x]),
        "adjoint, exact rays": lambda y: np.stack([W.BP(sinogram) for sinogram in y]),
    }


def torchtomo_projector(g):
    """torchtomo's fan beam on its exact CUDA kernels, for the geometry of koct; None if it is not installed.

    The API of torchtomo 0.4. It measures lengths in pixels of 2/H, where the centres of the first and the last
    pixel are at ±1, and its detector from the first to the last bin. It clips rays to the circle in the image, outside
    which its adjoint is zero; samples of the longest ray are half a pixel apart.
    """
    if not installed("torchtomo"):
        return None
    from torchtomo import FanBeam

    pixels = g.H / 2 / g.radius  # of torchtomo in a mm
    projector = FanBeam(
        img_size=g.H,
        n_angles=g.V,
        n_det=g.B,
        src_dist=g.source_isocentre * pixels,
        det_dist=(g.source_detector - g.source_isocentre) * pixels,
        det_width=(g.B - 1) * g.bin * pixels,
        angles=torch.as_tensor(g.angles),
        n_samples=2 * g.H - 1,
        circle=False,
        backend="cuda",
    ).cuda()
    if projector.backend != "cuda":
        raise RuntimeError(f"torchtomo runs on its backend {projector.backend!r}, not on its CUDA kernels")
    return projector


def torchtomo_peer(g):
    projector = torchtomo_projector(g)
    if projector is None:
        return None
    parker = torch.as_tensor(analytic_weights(g) / g.cosines, dtype=torch.float32, device="cuda")
    graphs = {}

    def transposed_backprojection(y):
        """By automatic differentiation, the only way to it; the backprojection itself runs once for a batch size."""
        if len(y) not in graphs:
            sinograms = torch.zeros(len(y), 1, g.V, g.B, device="cuda", requires_grad=True)
            with torch.enable_grad():
                graphs[len(y)] = projector.backproject(sinograms), sinograms
        image, sinograms = graphs[len(y)]
        return torch.autograd.grad(image, sinograms, y[:, None], retain_graph=True)[0][:, 0]

    return {
        "FBP": lambda x: projector.fbp((parker * x)[:, None])[:, 0],  # it knows cosines, but not Parker's weights
        "backprojection": lambda x: projector.backproject(x[:, None])[:, 0],
        "its adjoint": transposed_backprojection,
        "forward, exact rays": lambda x: projector.forward(x[:, None])[:, 0],
        "adjoint, exact rays": lambda y: projector.adjoint(y[:, None])[:, 0],
    }


def plain_network(g, device):
    """The network as one would write it in torch: from weights and sinograms to images, view by view."""
    H, V, B, SI, SD = g.H, g.V, g.B, g.source_isocentre, g.source_detector
    y, x = torch.meshgrid(*[torch.linspace(-g.radius, g.radius, H, device=device)] * 2, indexing="ij")

    def backproject(filtered):
        image = 0
        for v, beta in enumerate(torch.linspace(0, math.pi, V).tolist()):
            c, s = math.cos(beta), math.sin(beta)
            U = SI + x * s - y * c
            place = SD * (x * c + y * s) / U / ((B - 1) / 2)
            grid = torch.stack([place, torch.zeros_like(place)], -1).expand(len(filtered), -1, -1, -1)
            view = F.grid_sample(filtered[:, None, v : v + 1], grid, align_corners=True)[:, 0]
            image = image + view * (SI / U) ** 2 * (math.pi / V)
        return image

    return network(backproject, B, device)


def torchtomo_network(g, device):
    """The same with torchtomo's backprojection; None where its kernels cannot run."""
    projector = torchtomo_projector(g) if device.type == "cuda" else None
    if projector is None:
        return None
    factor = 2 * (g.V - 1) / g.V  # it halves weights, for the full circle, and its views stand for π/(V − 1)
    return network(lambda filtered: factor * projector.backproject(filtered[:, None])[:, 0], g.B, device)


def network(backproject, B, device):
    ramp = torch.fft.fftfreq(B, device=device).abs()
    return lambda w, x: F.relu(backproject(torch.fft.ifft(torch.fft.fft(w * x) * ramp).real))


CPU = {"SciPy": scipy_peer, "ASTRA": astra_peer}
CUDA = {"torchtomo": torchtomo_peer, "cuSPARSE": cusparse_peer}
NETWORKS = {"plain torch": plain_network, "torchtomo": torchtomo_network}
