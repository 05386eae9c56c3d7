"""The fan-beam operators on every device and in both precisions: adjoints, matrices, gradients, agreement."""

import numpy as np
import pytest

from koct.operators.fanbeam import RAYS, Backprojector, FanBeam, Projector, RampFilter

torch = pytest.importorskip("torch", reason="torch is not installed: no tensors, no gradients")

CUDA = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: CPU only")
)
DEVICES = ["cpu", CUDA]
CLOSE = {"source_isocentre": 60.0, "source_detector": 80.0, "bin": 2.5}
GEOMETRIES = [
    FanBeam(32, 20, 32),
    FanBeam(33, 7, 40),
    FanBeam(17, 12, 9),
    FanBeam(16, 1, 5),
    FanBeam(24, 9, 24, **CLOSE),
]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def operators(geometry):
    back, ramp = Backprojector(geometry), RampFilter(geometry.V, geometry.B)
    return {"back": back, "ramp": ramp, "fbp": back @ ramp, **{rays: Projector(geometry, rays) for rays in RAYS}}


def random(shape, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_dot_test(geometry, dtype, device):
    for A in operators(geometry).values():
        x, y = random((3, *A.domain), dtype, device), random((3, *A.range), dtype, device, 1)
        Ax, Aty = A(x).double(), A.T(y).double()
        assert Ax.dtype == torch.float64
        assert A(x).dtype == dtype
        assert A(x).device == x.device
        one, two = (Ax * y.double()).sum(), (x.double() * Aty).sum()
        assert abs(one - two) <= TOLERANCE[dtype] * Ax.norm() * y.double().norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("geometry", [FanBeam(9, 5, 11), FanBeam(8, 4, 8)], ids=str)
def test_the_matrix_from_basis_images_is_the_operator(geometry, device):
    for A in operators(geometry).values():
        matrix = A(torch.eye(A.shape[1], dtype=torch.float64, device=device).reshape(-1, *A.domain))
        matrix = matrix.reshape(A.shape[1], -1).T
        x, y = random(A.domain, torch.float64, device), random(A.range, torch.float64, device, 1)
        torch.testing.assert_close(A(x).ravel(), matrix @ x.ravel(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(A.T(y).ravel(), matrix.T @ y.ravel(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(matrix.cpu().numpy(), A.matrix(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device):
    for A in operators(FanBeam(6, 5, 7)).values():
        x = random((2, *A.domain), torch.float64, device).requires_grad_()
        # the adjoint of the projector on the GPU adds in no fixed order
        assert torch.autograd.gradcheck(A, x, nondet_tol=1e-12)
        assert torch.autograd.gradgradcheck(lambda x, A=A: (A(x) ** 2).sum(), x, nondet_tol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_equals_its_single_results(device):
    for A in operators(FanBeam(32, 20, 32)).values():
        for count in (1, 2, 5):
            x, y = random((count, *A.domain), torch.float32, device), random((count, *A.range), torch.float32, device)
            for operator, batch in ((A, x), (A.T, y)):
                single = torch.stack([operator(item) for item in batch])
                torch.testing.assert_close(operator(batch), single, rtol=1e-5, atol=1e-5 * float(single.abs().max()))
        assert A(x[:0]).shape == (0, *A.range)


def test_torch_on_the_cpu_is_numpy():
    for A in operators(FanBeam(32, 20, 32)).values():
        x = random((2, *A.domain), torch.float64, "cpu")
        np.testing.assert_allclose(A(x).numpy(), A(x.numpy()), rtol=1e-13, atol=1e-13)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: nothing to compare the CPU with")
@pytest.mark.parametrize("geometry", [*GEOMETRIES, FanBeam(128, 60, 128), FanBeam(512, 180, 512)], ids=str)
def test_cpu_and_gpu_agree(geometry):
    for name, A in operators(geometry).items():
        x, y = random((2, *A.domain), torch.float32, "cpu"), random((2, *A.range), torch.float32, "cpu", 1)
        for operator, batch in ((A, x), (A.T, y)):
            here, there = operator(batch), operator(batch.cuda()).cpu()
            assert float((here - there).norm()) <= 1e-5 * float(here.norm()), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: nothing to repeat")
def test_the_gpu_repeats_itself_bit_by_bit():
    geometry = FanBeam(128, 60, 128)
    A = Backprojector(geometry) @ RampFilter(60, 128)
    x, y = random((4, *A.domain), torch.float32, "cuda"), random((4, *A.range), torch.float32, "cuda")
    assert torch.equal(A(x), A(x))
    assert torch.equal(A.T(y), A.T(y))
