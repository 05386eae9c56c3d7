"""Training by gradient: the stated random streams, torch's own optimisers and derivatives, and what goes wrong."""

import numpy as np
import pytest
from test_kernels import DEVICES, torch

from koct.base.arrays import like
from koct.base.device import CPU, Device
from koct.base.streams import TorchStream
from koct.errors import KoctError
from koct.networks import gradient
from koct.networks.solvers import Known
from koct.problems.fanbeam import FanBeamProblem

pytestmark = pytest.mark.thorough
RNG = np.random.default_rng(0)
X, Y = RNG.random((6, 160), dtype=np.float32), RNG.random((6, 256), dtype=np.float32)
OPTIMISERS = {
    "sgd": torch.optim.SGD,
    "adagrad": lambda parameters, lr: torch.optim.Adagrad(parameters, lr=lr, eps=1e-10),
    "adam": torch.optim.Adam,
}


@pytest.fixture(params=DEVICES)
def where(request):
    return CPU if request.param == "cpu" else Device("cuda")


def network():
    return Known(FanBeamProblem(H=16, V=10, B=16, rays="exact").layers({}), True)


def images_and_loss(R, w, rows=slice(None)):
    """What torch makes of them, in the precision of the weights."""
    x, y = (torch.from_numpy(array[rows]).to(w.dtype) for array in (X, Y))
    images = torch.relu(R((w * x).reshape(-1, 10, 16))).reshape(len(x), -1)
    return images, ((images - y) ** 2).mean()


def numpy_of(array):
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


@pytest.mark.parametrize("seed", [0, 10001, 5 * 10**9])
def test_the_stream_is_torchs_and_batches_are_the_stated_ones(seed):
    generator, stream = torch.Generator(), TorchStream(seed)
    generator.manual_seed(seed)
    for _ in range(2000):
        assert int(torch.randint(3, 7, (1,), generator=generator)) == stream.randint(3, 7)
        assert torch.rand(2, generator=generator).tolist() == [stream.rand(), stream.rand()]
        drawn = torch.randint(0, 1000, (4,), generator=generator).tolist()
        assert drawn == [stream.randint(0, 1000) for _ in range(4)]
    generator = torch.Generator().manual_seed(1 + 1000 * 3)
    expected = [torch.randint(0, 64, (4,), generator=generator).tolist() for _ in range(50)]
    assert gradient.batches(3, 64, 4, 50).tolist() == expected
    assert gradient.batches(3, 2, 4, 50).shape == (50, 2)


def test_loss_and_gradient_are_torchs(where):
    known = network()
    x, y = where.put(X), where.put(Y)
    loss, g = known.loss_and_gradient(like(known.analytic, x) + 0.1, x, y)
    leaf = torch.from_numpy(like(known.analytic, X) + np.float32(0.1)).double().requires_grad_()
    images, expected = images_and_loss(known.R, leaf)
    expected.backward()
    assert (images == 0).any()  # the ReLU matters
    assert float(loss) == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(numpy_of(g), leaf.grad, rtol=1e-4, atol=1e-6 * float(leaf.grad.abs().max()))


@pytest.mark.parametrize("solver", gradient.SOLVERS)
def test_training_is_that_of_torch(solver, where):
    known, chosen = network(), gradient.batches(1, len(X), 4, 120)  # more than one recorded graph, and a remainder
    w = gradient.train(known, where.put(X), where.put(Y), chosen, solver, 1e-2)
    start = torch.from_numpy(like(known.analytic, X))
    leaf = start.clone().requires_grad_()
    optimiser = OPTIMISERS[solver]([leaf], lr=1e-2)
    for rows in chosen:
        optimiser.zero_grad()
        images_and_loss(known.R, leaf, rows)[1].backward()
        optimiser.step()
    moved = float((leaf.detach() - start).norm())
    assert moved > 1e-3
    assert np.linalg.norm(numpy_of(w) - leaf.detach().numpy()) < 1e-2 * moved


def test_training_repeats_itself_bit_by_bit_and_prints_its_progress(where, capsys):
    x, y = where.put(X), where.put(Y)
    chosen = gradient.batches(1, len(x), 4, 200)
    first, second = (numpy_of(gradient.train(network(), x, y, chosen, "adagrad", 2e-2)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("iteration 200 of 200: loss ")
    assert len(lines) >= 8
    assert all(line.endswith(" s left") for line in lines)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy says it too
def test_a_diverged_fit_names_the_iteration_and_the_fix(where):
    x, y = where.put(X), where.put(Y)
    with pytest.raises(KoctError, match=r"diverged: the loss of iteration \d+ is not finite; lower lr = 1e\+30"):
        gradient.train(network(), x, y, gradient.batches(1, len(x), 4, 200), "sgd", 1e30)
