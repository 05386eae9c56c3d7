"""Operators on torch tensors, on every device and in both precisions: adjoints, matrices, gradients, agreement."""

import numpy as np
import pytest

from koct.operators.algebra import Diagonal, Matrix
from koct.operators.fanbeam import RAYS, Backprojector, FanBeam, ParallelBeam, Projector, analytic_weights, fbp
from koct.operators.filters import RampFilter
from koct.operators.parallel import projector, tikhonov_inverse
from koct.operators.testing import assert_adjoint

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
    unweighted, rays = back @ ramp, {rays: Projector(geometry, rays) for rays in RAYS}
    return {"back": back, "ramp": ramp, "unweighted": unweighted, "fbp": fbp(geometry), **rays}


def stored(H, V):
    """Operators that are stored as matrices or vectors."""
    A = projector(H, V)
    return {
        "sparse": A,
        "compressed": A.compressed(),
        "inverse": tikhonov_inverse(A, 0.1),
        "diagonal": Diagonal(np.random.default_rng(2).standard_normal((V, H))),
        "tensor": Matrix(random((V, H), torch.float64, "cpu")),
    }


def random(shape, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_dot_test(geometry, dtype, device):
    for A in [*operators(geometry).values(), *stored(geometry.H, geometry.V).values()]:
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
    for A in [*operators(geometry).values(), *stored(geometry.H, geometry.V).values()]:
        matrix = A(torch.eye(A.shape[1], dtype=torch.float64, device=device).reshape(-1, *A.domain))
        matrix = matrix.reshape(A.shape[1], -1).T
        x, y = random(A.domain, torch.float64, device), random(A.range, torch.float64, device, 1)
        torch.testing.assert_close(A(x).ravel(), matrix @ x.ravel(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(A.T(y).ravel(), matrix.T @ y.ravel(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(matrix.cpu().numpy(), A.matrix(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device):
    for A in [*operators(FanBeam(5, 4, 6)).values(), *stored(5, 4).values()]:
        x = random((2, *A.domain), torch.float64, device).requires_grad_()
        assert torch.autograd.gradcheck(A, x)
        assert torch.autograd.gradgradcheck(lambda x, A=A: (A(x) ** 2).sum(), x)


@pytest.mark.parametrize("device", DEVICES)
def test_vmap_and_forward_gradients(device):
    for A in [*operators(FanBeam(6, 4, 7)).values(), *stored(6, 4).values()]:
        x = random((3, *A.domain), torch.float64, device)
        matrix = A.matrix(x)
        assert matrix.device == x.device
        close = {"rtol": 1e-10, "atol": 1e-10}
        torch.testing.assert_close(torch.func.jacfwd(A)(x[0]).reshape(A.shape), matrix, **close)
        torch.testing.assert_close(torch.func.jacrev(A)(x[0]).reshape(A.shape), matrix, **close)
        torch.testing.assert_close(torch.func.vmap(A)(x), A(x), **close)
        assert_adjoint(A, dtype=torch.float64, device=device)
        assert_adjoint(A, dtype=torch.float32, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_equals_its_single_results(device):
    for A in [*operators(FanBeam(32, 20, 32)).values(), *stored(32, 20).values()]:
        for count in (1, 2, 5):
            x, y = random((count, *A.domain), torch.float32, device), random((count, *A.range), torch.float32, device)
            for operator, batch in ((A, x), (A.T, y)):
                single = torch.stack([operator(item) for item in batch])
                torch.testing.assert_close(operator(batch), single, rtol=1e-5, atol=1e-5 * float(single.abs().max()))
        assert A(x[:0]).shape == (0, *A.range)


def test_torch_on_the_cpu_is_numpy():
    for A in [*operators(FanBeam(32, 20, 32)).values(), *stored(32, 20).values()]:
        x = random((2, *A.domain), torch.float64, "cpu")
        np.testing.assert_allclose(A(x).numpy(), A(x.numpy()), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.float16, torch.bfloat16], ids=str)
def test_complex_numbers_and_half_precision_are_refused(dtype, device):
    for A in [*operators(FanBeam(8, 4, 8)).values(), *stored(8, 4).values()]:
        with pytest.raises(TypeError, match=rf"takes real numbers in float32 or float64, got {dtype}"):
            A(torch.ones(A.domain, dtype=dtype, device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_integers_and_booleans_are_converted_to_float64(device):
    for A in [*operators(FanBeam(8, 4, 8)).values(), *stored(8, 4).values()]:
        for dtype in (torch.int32, torch.bool):
            x = (random(A.domain, torch.float64, device) > 0).to(dtype)
            torch.testing.assert_close(A(x), A(x.double()), rtol=0, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_does_not_lower_the_precision(device):
    for A in [*operators(FanBeam(8, 4, 8)).values(), *stored(8, 4).values()]:
        x = random((2, *A.domain), torch.float32, device)
        expected = A(x)
        with torch.autocast(device, torch.bfloat16):
            torch.testing.assert_close(A(x), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("device", DEVICES)
def test_an_operator_first_used_in_inference_mode_can_be_trained_through_later(device):
    for A in [*operators(FanBeam(8, 4, 8)).values(), *stored(8, 4).values()]:
        x = random((2, *A.domain), torch.float32, device)
        with torch.inference_mode():
            A(x)
            A.T(A(x))
        x.requires_grad_()
        (gradient,) = torch.autograd.grad((A(x) ** 2).sum(), x)
        torch.testing.assert_close(gradient, 2 * A.T(A(x)), rtol=1e-5, atol=1e-5 * float(gradient.abs().max()))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("place", [Diagonal, Matrix], ids=["diagonal", "matrix"])
def test_gradients_flow_to_values_that_are_tensors(place, device):
    values, x = random((3, 4), torch.float64, device), random((2, 3, 4), torch.float64, device, 1)
    if place is Matrix:
        x = x[:, 0]

    def apply(values, x):
        return place(values)(x)

    arguments = values.requires_grad_(), x.requires_grad_()
    assert torch.autograd.gradcheck(apply, arguments)
    assert torch.autograd.gradgradcheck(apply, arguments)


@pytest.mark.parametrize("device", DEVICES)
def test_weights_that_are_trained_are_never_taken_from_a_cache(device):
    g = FanBeam(8, 6, 8)
    weights = torch.tensor(analytic_weights(g), dtype=torch.float32, device=device, requires_grad=True)
    A = Backprojector(g) @ RampFilter(g.V, g.B) @ Diagonal(weights)
    for dtype in (torch.float64, torch.float32):
        x = random((2, g.V, g.B), dtype, device)
        for _ in range(2):
            before = A(x)
            (gradient,) = torch.autograd.grad((before**2).sum(), weights)
            assert gradient.dtype == weights.dtype
            assert gradient.abs().max() > 0
            with torch.no_grad():
                weights *= 2
            assert A(x).dtype == dtype
            torch.testing.assert_close(A(x), 2 * before, rtol=1e-5, atol=1e-5)
            # NumPy has no gradients, but the same weights
            array = A(x.cpu().numpy())
            assert array.dtype == x.cpu().numpy().dtype
            np.testing.assert_allclose(array, A(x).detach().cpu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_one_operator_serves_every_kind_in_turn(device):
    A = fbp(FanBeam(8, 6, 8))
    x = np.random.default_rng(0).standard_normal((2, 6, 8))
    expected = A(x)
    for _ in range(2):
        for dtype in (torch.float32, torch.float64):
            tensor = torch.tensor(x, dtype=dtype, device=device)
            assert A(tensor).dtype == dtype
            assert A(tensor).device == tensor.device
            np.testing.assert_allclose(A(tensor).cpu(), expected, rtol=0, atol=1e-5 * abs(expected).max())
        assert A(x.astype(np.float32)).dtype == np.float32
        np.testing.assert_array_equal(A(x), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: nothing to compare the CPU with")
@pytest.mark.parametrize("geometry", [*GEOMETRIES, FanBeam(128, 60, 128), FanBeam(512, 180, 512)], ids=str)
def test_cpu_and_gpu_agree(geometry):
    small = geometry.H <= 33
    for name, A in {**operators(geometry), **(stored(geometry.H, geometry.V) if small else {})}.items():
        x, y = random((2, *A.domain), torch.float32, "cpu"), random((2, *A.range), torch.float32, "cpu", 1)
        for operator, batch in ((A, x), (A.T, y)):
            here, there = operator(batch), operator(batch.cuda()).cpu()
            assert float((here - there).norm()) <= 1e-5 * float(here.norm()), name
            assert float((here - there).abs().max()) <= 1e-4 * float(here.abs().max()), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: no batches side by side")
@pytest.mark.parametrize(
    "geometry",
    [*GEOMETRIES, FanBeam(128, 60, 128), FanBeam(256, 90, 256), ParallelBeam(128, 60, 128), ParallelBeam(65, 31, 70)],
    ids=str,
)
def test_no_pixel_of_any_batch_is_off(geometry):
    """A norm hides a pixel, and how a kernel is compiled depends on the size of the batch.

    In float32 places are known to 1e-5 pixels; a ray that meets the measurement of its neighbour is off by 4e-3.
    """
    named = {"back": Backprojector(geometry), "exact": Projector(geometry)}
    if isinstance(geometry, FanBeam):
        named["printed"] = Projector(geometry, "printed")
    for name, A in named.items():
        for operator in (A, A.T):
            x = random((33, *operator.domain), torch.float64, "cuda")
            expected = operator(x)
            for batch in range(1, 34):
                off = (operator(x[:batch].float()).double() - expected[:batch]).abs().max()
                assert float(off) <= 1e-4 * float(expected[:batch].abs().max()), (name, operator, batch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: nothing to repeat")
@pytest.mark.parametrize("batch", [1, 4, 33])
def test_the_gpu_repeats_itself_bit_by_bit(batch):
    geometry = FanBeam(128, 60, 128)
    for A in operators(geometry).values():
        x, y = random((batch, *A.domain), torch.float32, "cuda"), random((batch, *A.range), torch.float32, "cuda")
        assert torch.equal(A(x), A(x))
        assert torch.equal(A.T(y), A.T(y))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: no images side by side")
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8, 11, 17, 32])
def test_a_batch_of_any_size_is_its_images(batch):
    geometry = FanBeam(40, 13, 44)
    for A in operators(geometry).values():
        for operator in (A, A.T):
            x = random((batch, *operator.domain), torch.float64, "cuda")
            one_by_one = torch.cat([operator(image[None]) for image in x])
            assert float((operator(x) - one_by_one).abs().max()) <= 1e-12 * float(one_by_one.abs().max())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: nothing is counted there")
@pytest.mark.parametrize("degrees", [0.0, 30.0, 45.0, 90.0, 135.0, 225.0, 300.0])
def test_every_pixel_counts_once(degrees):
    """A ray through the centres of pixels, as at 45°, belongs to one side: no pixel is lost, and none counts twice."""
    for geometry in (ParallelBeam(65, 1, 129, degrees=(degrees,)), FanBeam(64, 1, 192, degrees=(degrees,))):
        A = Backprojector(geometry)
        ones = torch.ones(1, *A.range, dtype=torch.float64, device="cuda")
        expected = torch.from_numpy(A.T(ones.cpu().numpy()))
        assert float((A.T(ones).cpu() - expected).abs().max()) <= 1e-12 * float(expected.max())
