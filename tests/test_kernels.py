"""Operators on torch tensors, on every device and in both precisions: adjoints, matrices, gradients, agreement."""

import re

import numpy as np
import pytest
from test_operators import each_class
from test_scans import ARCS, CLOSE, PARALLEL

from koct.operators.algebra import Diagonal, Matrix
from koct.operators.fanbeam import RAYS, Backprojector, FanBeam, ParallelBeam, Projector, fbp
from koct.operators.filters import RampFilter
from koct.operators.testing import assert_adjoint

torch = pytest.importorskip("torch", reason="torch is not installed: no tensors, no gradients")

CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: CPU only")
)
DEVICES = ["cpu", CUDA]
GEOMETRIES = [
    FanBeam(32, 20, 32),
    FanBeam(33, 7, 40),
    FanBeam(17, 12, 9),
    FanBeam(16, 1, 5),
    FanBeam(24, 9, 24, **CLOSE),
]


def operators(geometry):
    back, ramp = Backprojector(geometry), RampFilter(geometry.V, geometry.B)
    rays = {rays: Projector(geometry, rays) for rays in (RAYS if isinstance(geometry, FanBeam) else ("exact",))}
    return {"back": back, "ramp": ramp, "unweighted": back @ ramp, "fbp": fbp(geometry), **rays}


def random(shape, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


@pytest.fixture(params=each_class())
def A(request):
    return each_class()[request.param]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_adjoints_at_any_size(geometry, device):
    for operator in operators(geometry).values():
        assert_adjoint(operator, dtype=torch.float64, device=device)
        assert_adjoint(operator, 1e-6, dtype=torch.float32, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_in_tensors_out(A, device):
    for operator in (A, A.T):
        x = random((3, *operator.domain), torch.float64, device)
        assert operator(x).device == x.device
        close = {"rtol": 1e-12, "atol": 1e-12 * float(operator(x).abs().max())}
        np.testing.assert_allclose(operator(x).cpu().numpy(), operator(x.cpu().numpy()), **close)
        np.testing.assert_allclose(operator.matrix(x).cpu().numpy(), operator.matrix(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(operator(x), torch.stack([operator(one) for one in x]), **close)
        single = operator(x.float())
        assert single.dtype == torch.float32
        assert float((single.double() - operator(x)).norm()) <= 1e-5 * float(operator(x).norm())
        assert operator(x[:0]).shape == (0, *operator.range)
        for dtype in (torch.int32, torch.bool):
            torch.testing.assert_close(operator((x > 0).to(dtype)), operator((x > 0).double()), rtol=0, atol=0)
    assert_adjoint(A, dtype=torch.float64, device=device)
    assert_adjoint(A, dtype=torch.float32, device=device)
    for dtype, fix in ((torch.float16, "x.float()"), (torch.bfloat16, "x.float()"), (torch.complex64, "x.real")):
        with pytest.raises(TypeError, match=rf"got {dtype}; .*{re.escape(fix)}"):
            A(torch.ones(A.domain, dtype=dtype, device=device))
    with pytest.raises(TypeError, match=r"takes dense tensors, got torch\.sparse_coo; use x\.to_dense\(\)"):
        A(torch.ones(A.domain, device=device).to_sparse())


@pytest.mark.parametrize("device", DEVICES)
def test_derivatives(A, device):
    """Every derivative of x ↦ A x is A, whichever way torch takes it; also where A is first used inside a transform."""
    x = random((3, *A.domain), torch.float64, device)
    forward = torch.func.jacfwd(A)(x[0])
    M = A.matrix(x)
    close = {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(forward.reshape(A.shape), M, **close)
    torch.testing.assert_close(torch.func.jacrev(A)(x[0]), forward, **close)
    torch.testing.assert_close(torch.func.vmap(A)(x), A(x), **close)
    torch.testing.assert_close(torch.func.vmap(A, in_dims=1, out_dims=1)(x.movedim(0, 1)), A(x).movedim(0, 1), **close)
    torch.testing.assert_close(torch.func.vmap(torch.func.vmap(A))(x[None]), A(x)[None], **close)
    torch.testing.assert_close(torch.func.jvp(A, (x,), (2 * x,))[1], 2 * A(x), **close)

    def energy(x):
        return (A(x) ** 2).sum()

    torch.testing.assert_close(torch.func.vmap(torch.func.grad(energy))(x), 2 * A.T(A(x)), **close)
    if A.shape[1] < 100:
        hessian = torch.func.hessian(energy)(x[0])
        torch.testing.assert_close(hessian.reshape(A.shape[1], -1), 2 * M.T @ M, **close)
    with torch.autograd.forward_ad.dual_level():
        out = A(torch.autograd.forward_ad.make_dual(x, 3 * x))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(out).tangent, 3 * A(x), **close)
    fast = {"nondet_tol": 1e-12, "fast_mode": True}
    for operator in (A, A.T):
        x = random((2, *operator.domain), torch.float64, device).requires_grad_()
        assert torch.autograd.gradcheck(operator, x, check_forward_ad=True, **fast)
        assert torch.autograd.gradgradcheck(lambda x, A=operator: (A(x) ** 2).sum(), x, **fast)


@pytest.mark.parametrize("device", DEVICES)
def test_modes_of_torch(A, device):
    """Autocast does not lower the precision, and what was first used in inference mode can be trained through later."""
    x = random((2, *A.domain), torch.float32, device)
    with torch.inference_mode():
        expected = A(x)
        A.T(expected)
    with torch.autocast(device, torch.bfloat16):
        torch.testing.assert_close(A(x), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))
    x.requires_grad_()
    (gradient,) = torch.autograd.grad((A(x) ** 2).sum(), x)
    torch.testing.assert_close(gradient, 2 * A.T(A(x)), rtol=1e-5, atol=1e-5 * float(gradient.abs().max()))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("place", [Diagonal, Matrix], ids=["diagonal", "matrix"])
def test_gradients_flow_to_values_that_are_tensors(place, device):
    values, x = random((3, 4), torch.float64, device), random((2, 3, 4), torch.float64, device, 1)
    if place is Matrix:
        x = x[:, 0]

    arguments = values.requires_grad_(), x.requires_grad_()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda values, x: place(values)(x), arguments)


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: nothing to compare with")
BEAMS = [*ARCS, FanBeam(128, 60, 128, arc=200), *PARALLEL, ParallelBeam(128, 60, 128, bin=2 / 3)]


@GPU
@pytest.mark.parametrize("geometry", [*GEOMETRIES, *BEAMS, FanBeam(128, 60, 128), FanBeam(512, 180, 512)], ids=str)
def test_cpu_and_gpu_agree(geometry):
    for name, A in operators(geometry).items():
        for operator in (A, A.T):
            x = random((2, *operator.domain), torch.float32, "cpu")
            here, there = operator(x), operator(x.cuda()).cpu()
            assert float((here - there).norm()) <= 1e-5 * float(here.norm()), name
            assert float((here - there).abs().max()) <= 1e-4 * float(here.abs().max()), name
            if geometry in BEAMS:
                here, there = operator(x.double()), operator(x.double().cuda()).cpu()
                assert float((here - there).norm()) <= 1e-12 * float(here.norm()), name


@GPU
@pytest.mark.parametrize(
    "geometry",
    [*GEOMETRIES, FanBeam(128, 60, 128), FanBeam(256, 90, 256), ParallelBeam(128, 60, 128), ParallelBeam(65, 31, 70)],
    ids=str,
)
def test_no_pixel_of_any_batch_is_off(geometry):
    """A norm hides a pixel, and how a kernel is compiled depends on the size of the batch.

    In float32 places are known to 1e-5 pixels; a ray that meets the measurement of its neighbour is off by 4e-3.
    """
    for name, A in operators(geometry).items():
        for operator in (A, A.T) if name in ("back", *RAYS) else ():
            x = random((33, *operator.domain), torch.float64, "cuda")
            expected = operator(x)
            for batch in range(1, 34):
                off = (operator(x[:batch].float()).double() - expected[:batch]).abs().max()
                assert float(off) <= 1e-4 * float(expected[:batch].abs().max()), (name, operator, batch)


@GPU
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 8, 11, 17, 32, 33])
def test_the_gpu_repeats_itself_bit_by_bit_and_a_batch_is_its_images(batch):
    for A in operators(FanBeam(128, 60, 128)).values():
        for operator in (A, A.T):
            x = random((batch, *operator.domain), torch.float32, "cuda")
            assert torch.equal(operator(x), operator(x))
    for A in operators(FanBeam(40, 13, 44)).values():
        for operator in (A, A.T):
            x = random((batch, *operator.domain), torch.float64, "cuda")
            one_by_one = torch.cat([operator(image[None]) for image in x])
            assert float((operator(x) - one_by_one).abs().max()) <= 1e-12 * float(one_by_one.abs().max())


@GPU
@pytest.mark.parametrize("degrees", [0.0, 30.0, 45.0, 90.0, 135.0, 225.0, 300.0])
def test_every_pixel_counts_once(degrees):
    """A ray through the centres of pixels, as at 45°, belongs to one side: no pixel is lost, and none counts twice."""
    for geometry in (ParallelBeam(65, 1, 129, degrees=(degrees,)), FanBeam(64, 1, 192, degrees=(degrees,))):
        A = Backprojector(geometry)
        ones = torch.ones(1, *A.range, dtype=torch.float64, device="cuda")
        expected = torch.from_numpy(A.T(ones.cpu().numpy()))
        assert float((A.T(ones).cpu() - expected).abs().max()) <= 1e-12 * float(expected.max())
