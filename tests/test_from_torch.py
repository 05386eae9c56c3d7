"""The layers of torch modules: Lipschitz constants against matrices and samples, parameters, paths, and refusals."""

import math

import pytest

from koct.bound import BoundNetwork
from koct.errors import KoctError
from koct.operators.fanbeam import Backprojector, FanBeam
from koct.operators.filters import RampFilter
from koct.report.text.bound_text import format_table

torch = pytest.importorskip("torch", reason="torch is not installed: no modules to read")
from torch import nn  # noqa: E402

from koct.bound.from_torch import ACTIVATIONS  # noqa: E402

CONSTANTS = {"C": 1.0, "n": 8, "kappa": 1e-3}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def read(module, *shape, **more):
    return BoundNetwork.from_torch(module, shape, **{**CONSTANTS, **more})


def layer(module, *shape, **more):
    (found,) = read(module, *shape, **more).layers
    return found


def dense_norm(module, shape):
    """The largest singular value of the matrix made from basis vectors."""
    module = module.double().eval()
    basis = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, *shape)
    with torch.no_grad():
        matrix = (module(basis) - module(torch.zeros_like(basis))).reshape(len(basis), -1)
    return float(torch.linalg.matrix_norm(matrix, 2))


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Linear(5, 7), (5,)),
        (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1), (2, 7, 8)),
        (lambda: nn.ConvTranspose2d(3, 2, 3, stride=2), (3, 4, 4)),
        (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 4, 4)),
    ],
)
def test_the_constant_of_a_linear_layer_is_its_largest_singular_value(make, shape):
    module = make()
    found = layer(module, *shape)
    assert found.lipschitz == pytest.approx(dense_norm(module, shape), rel=1e-4)
    count = sum(p.numel() for p in module.parameters())
    assert (found.known, found.p) == ((False, count) if count else (True, 1))


@pytest.mark.parametrize("kind", ACTIVATIONS, ids=lambda kind: kind.__name__)
def test_activations_are_as_steep_as_stated(kind):
    module = (kind(dim=-1) if kind is nn.Softmax else kind()).double()
    stated = layer(module, 5).lipschitz
    if kind is nn.Softmax:
        x = torch.randn(300, 5, dtype=torch.float64) * 3
        steepest = max(float(torch.linalg.matrix_norm(torch.func.jacrev(module)(each), 2)) for each in x)
        assert 0.8 * stated < steepest <= stated
        return
    x = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    y = module(x[:, None])[:, 0].detach()
    steepest = float((y.diff() / x.diff()).abs().max())
    assert 0.99 * stated < steepest <= stated * (1 + 1e-6)


class Residual(nn.Module):
    def __init__(self, channels=2):
        super().__init__()
        self.one, self.two = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return torch.relu(x + self.two(torch.relu(self.one(x))))


def test_a_residual_block_keeps_its_layers():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), Residual(), nn.Flatten(), nn.Dropout(), nn.Linear(72, 3))
    found = read(module, 1, 8, 8)
    assert module.training  # a copy is read
    assert module[0].weight.dtype == torch.float32
    assert [each.name for each in found.layers] == ["0", "1.one", "relu", "1.two", "add", "relu_1", "4"]
    assert [each.known for each in found.layers] == [False, False, True, False, True, True, False]
    one, two = (dense_norm(part, (2, 6, 6)) for part in (module[1].one, module[1].two))
    expected = [math.hypot(1, one), 1, max(1, two), math.sqrt(2)]  # x ↦ (x, f(x)), then x beside it, then the sum
    assert [each.lipschitz for each in found.layers[1:5]] == pytest.approx(expected, rel=1e-3)
    assert [each.p for each in found.layers if not each.known] == [20, 38, 38, 219]


def test_a_frozen_layer_is_known_if_one_says_so():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    module[2].bias.requires_grad_(False)
    found = BoundNetwork.from_torch(module, (3,), C={"2": 0.5}, n={"2": 4}, kappa=2.0, known=["0"])
    assert [(each.name, each.known) for each in found.layers] == [("0", True), ("1", True), ("2", False)]
    assert (found.layers[2].p, found.layers[2].C, found.layers[2].n) == (8, 0.5, 4)
    all_known = BoundNetwork.from_torch(module, (3,), trivial=1.0, known=["0", "2"])  # no constant is needed
    assert all_known.bound(100) == 0
    assert all_known.is_vacuous(100) is False


class Known(nn.Module):
    """An operator of koct as a module, as docs/operators.md shows it."""

    def __init__(self, A):
        super().__init__()
        self.A = A

    def forward(self, x):
        return self.A(x)

    def lipschitz(self):
        return self.A.norm()


def test_operators_and_constants_of_ones_own():
    back = Backprojector(FanBeam(8, 6, 8))
    known = [Known(RampFilter(6, 8)), Known(back)]
    module = nn.Sequential(nn.Flatten(), nn.Linear(48, 48), nn.Unflatten(1, (6, 8)), *known, nn.ReLU())
    found = read(module, 6, 8).layers
    assert [each.known for each in found] == [False, True, True, True]
    assert [each.lipschitz for each in found[1:3]] == [0.5, pytest.approx(back.norm())]
    normed = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    assert read(normed, 4, lipschitz={"1": 3.0}).layers[1].lipschitz == 3
    assert layer(Residual(), 2, 4, 4, lipschitz={"Residual": 5.0}).p == 76


class UNet(nn.Module):
    """Two levels, with a skip connection at each and one over all."""

    def __init__(self, width=4):
        super().__init__()
        self.down, self.deep = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, padding=1)
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        self.join, self.out = nn.Conv2d(3 * width, width, 3, padding=1), nn.Conv2d(width, 1, 1)

    def forward(self, x):
        fine = torch.relu(self.down(x))
        coarse = self.up(torch.relu(self.deep(self.pool(fine))))
        return x + self.out(torch.relu(self.join(torch.cat([fine, coarse], 1))))


def resnet():
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), Residual(), Residual(), nn.Conv2d(2, 1, 3, padding=1))


@pytest.mark.parametrize(("make", "learned"), [(UNet, 4), pytest.param(resnet, 6, marks=pytest.mark.long)])
def test_networks_that_people_use(make, learned):
    """Every layer has its term, no bound is called sound, and no two outputs are farther apart than it says."""
    module = make()
    network = read(module, 1, 8, 8, C=0, kappa=1e-9, trivial=20.0)
    found = [each.p for each in network.layers if not each.known]
    assert (len(found), sum(found)) == (learned, sum(p.numel() for p in module.parameters()))
    assert network.is_vacuous(1000) is None  # however small: the constants are those of learned layers
    assert read(module, 1, 8, 8, kappa=1e6, trivial=20.0).is_vacuous(1000) is True
    assert "* is the constant of a learned layer" in format_table(network, 1000)
    x, y = torch.rand(2, 200, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        apart = (module.double()(x) - module(y)).flatten(1).norm(dim=1) / (x - y).flatten(1).norm(dim=1)
    assert float(apart.max()) <= network.lipschitz()


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def two(last=None):
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), last or nn.Linear(4, 4))


BAD = [
    (lambda: two(nn.LayerNorm(4)), (4,), {}, r"LayerNorm '2' .*; give lipschitz=\{'2': \.\.\.\}"),
    (lambda: nn.MaxPool1d(2, return_indices=True), (1, 4), {}, "MaxPool1d .* it returns several tensors"),
    (Branching, (4,), {}, r"Branching\.forward cannot be followed \(symbolically traced variables"),
    (nn.Identity, (4,), {}, "changes nothing, so it has no layers"),
    (two, (1, 3), {}, r"does not take an input of shape \(1, 1, 3\): mat1 and mat2 .*; give input_shape"),
    (lambda: nn.Linear(4, 4, device="meta"), (4,), {}, "weight has no finite values; load the weights"),
    (lambda: two().requires_grad_(False), (4,), {}, r"of 0, 2 are frozen, .*; say known=\['0', '2'\] if they are"),
    (two, (4,), {"known": ["net"]}, "known has 'net', which is no layer; these are 0, 1, 2"),
    (two, (4,), {"C": None}, "C is missing, and 0, 2 are learned; give C as a number for all of them, as a mapping"),
    (two, (4,), {"kappa": {"0": 1.0}}, "layer '2': kappa is missing; add it to the mapping kappa"),
    (two, (4,), {"n": {"0": 1, "1": 1}}, "n has an entry '1', which is no learned layer; these are 0, 2"),
    (two, (4,), {"lipschitz": {"net": 1.0}}, "lipschitz has an entry 'net', but the module has no part of that name"),
]


@pytest.mark.parametrize(("make", "shape", "options", "message"), BAD)
def test_what_cannot_be_read_gets_a_sentence_and_constants_are_never_chosen_silently(make, shape, options, message):
    with pytest.raises(KoctError, match=message) as caught:
        read(make(), *shape, **options)
    assert "\n" not in str(caught.value)
