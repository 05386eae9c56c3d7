"""Networks that are torch modules: what koct trains, how it goes on after a kill, and operators as layers."""

import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: modules need it")

from koct.contracts import Sizes  # noqa: E402
from koct.contracts.registry import architecture, problem  # noqa: E402
from koct.contracts.spec import Cell  # noqa: E402
from koct.errors import KoctError  # noqa: E402
from koct.networks import torch_layers, training  # noqa: E402
from koct.operators.fanbeam import FanBeam, Projector, fbp  # noqa: E402
from koct.problems import pools  # noqa: E402
from koct.study import cells  # noqa: E402

N = 12
GPU = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: CPU only")
)
SMALL = {"unet": {"levels": 2}, "ko-unet": {"levels": 2}, "lpd": {"iterations": 2}, "unrolled": {"iterations": 2}}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("pool") / "seed1.npy")
    scan = problem("fanbeam")(H=14, V=9, B=16, rays="exact", arc=200.0, photons=1e4)
    pools.make(scan, 1, Sizes(train=N, val=4, test=4), path)
    return scan, path


@pytest.fixture(params=["cpu", GPU])
def data(request, pool, tmp_path, monkeypatch):
    """Make the data of a fit of an architecture."""
    monkeypatch.setenv("KOCT_DEVICE", request.param)

    def make(source, **options):
        scan, path = pool
        made = cells.Data(Cell("F14", scan, architecture(source)(**options), N, 1, ()), {"pool": path})
        made.checkpoints = str(tmp_path / "fit.checkpoint")
        return made

    return make


def error(data, network):
    return float(((data.predict(network, "test") - data.read("y", "test")) ** 2).mean())


@pytest.mark.parametrize("source", SMALL)
def test_a_network_beats_the_known_reconstruction_with_the_same_bits_twice_and_is_restored_from_its_state(data, source):
    made = data(source, steps=100, channels=8, **SMALL[source])
    about, network = cells.fit(made)
    inverses = cells.Data(made.cell, made.inputs).inverses.values()
    x, y = made.read("x", "test").reshape(-1, 9, 16), made.read("y", "test")
    known = min(((inverse(x).clip(0).reshape(4, -1) - y) ** 2).mean() for inverse in inverses)
    assert error(made, network) < 0.95 * known
    weights = [value.numel() for value in network.module.parameters()]
    assert about["p"] == sum(weights) > 1000
    state = {name: value.cpu().numpy() for name, value in network.state().items()}
    if source == "unet" or made.device.name == "cuda":
        again = cells.fit(data(source, steps=100, channels=8, **SMALL[source]))[1]
        np.testing.assert_array_equal(made.predict(again, "test"), made.predict(network, "test"))
    restored = made.cell.arch.restore(state, data(source, steps=100, channels=8, **SMALL[source]))
    np.testing.assert_array_equal(made.predict(restored, "test"), made.predict(network, "test"))
    assert made.cell.arch.cost(workload(made)).operations > 2e10


def workload(made):
    from koct.contracts import Cost, Workload

    return Workload(9 * 16, 14 * 14, N, Sizes(train=N, val=4, test=4), 0, Cost(1e5))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("averaging", [0.9, 0.0])
def test_a_training_that_was_killed_goes_on_and_ends_with_the_same_bits(data, monkeypatch, capsys, averaging):
    """Dropout and batch norm: random numbers and buffers go on as well."""
    options = {"steps": 30, "channels": 4, "levels": 2, "evaluations": 10, "averaging": averaging}

    def fit():
        with_dropout(monkeypatch)
        return cells.fit(data("unet", **options))[1].state()

    whole = fit()
    monkeypatch.setattr(training, "SAVED", 0.0)
    say = training.Trainer._say

    def killed(self, done):
        say(self, done)
        if done == 17:
            raise Killed

    monkeypatch.setattr(training.Trainer, "_say", killed)
    with pytest.raises(Killed):
        fit()
    monkeypatch.setattr(training.Trainer, "_say", say)
    resumed = fit()
    assert "resumed after step 16" in capsys.readouterr().out
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name


def test_what_is_mirrored_is_mirrored_back_and_only_in_training():
    torch.manual_seed(0)
    inner = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False)
    images = torch.rand(64, 1, 6, 6)
    mirrored = torch_layers.Mirrored(inner)
    assert torch.equal(mirrored.eval()(images), inner(images))
    as_before = (mirrored.train()(images) - inner(images)).abs().amax((1, 2, 3)) < 1e-6
    assert 0 < as_before.sum() < 24  # about an eighth
    inner.weight.data = torch.ones(1, 1, 3, 3)
    assert torch.allclose(mirrored(images), inner(images), atol=1e-5)


def with_dropout(monkeypatch):
    from torch import nn

    def module(self, problem, layers):
        return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout(0.2), nn.Conv2d(4, 1, 1))

    monkeypatch.setattr(architecture("unet"), "module", module)


@pytest.mark.parametrize("content", [b"", b"damaged", "other"])
def test_a_checkpoint_that_is_damaged_or_of_another_fit_is_not_used(data, monkeypatch, capsys, content):
    made = data("unet", steps=4, channels=2, levels=2)
    if content == "other":
        with monkeypatch.context() as patched:
            patched.setattr(training, "SAVED", 0.0)
            patched.setattr(training.os, "remove", lambda path: None)
            cells.fit(data("unet", steps=3, channels=2, levels=2))
    else:
        with open(made.checkpoints, "wb") as file:
            file.write(content)
    capsys.readouterr()
    cells.fit(made)
    said = "is of another fit" if content == "other" else "is damaged"
    assert f"the checkpoint {made.checkpoints} {said} and is not used" in capsys.readouterr().out


OWN = """
from koct.networks.module import ModuleArchitecture


class Mine(ModuleArchitecture):
    def module(self, problem, layers):
        from torch import nn

        return {}
"""


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("3", r"mine.py, line 5: module returned int; return a torch.nn.Module"),
        ("nn.Identity()", r"mine.py, line 5: the module has no parameters to train"),
        (
            "nn.Conv2d(1, 2, 3, padding=1)",
            r"mine.py, line 5: the module gave \(1, 2, 9, 16\) for an input of shape \(1, 1, 9, 16\); "
            r"it must give images \(1, 1, 14, 14\)",
        ),
    ],
)
def test_a_module_that_does_not_fit_is_one_sentence(data, tmp_path, returned, message):
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(OWN.format(returned)).lstrip())
    with pytest.raises(KoctError, match=message):
        cells.fit(data(str(path), steps=2))


def test_a_training_that_diverges_is_one_sentence(data):
    with pytest.raises(KoctError, match="the training of unet gave no finite validation error; lower lr = 1e"):
        cells.fit(data("unet", steps=5, channels=2, levels=2, lr=1e20, clip=None, evaluations=1))


def test_an_operator_is_a_layer_also_under_autocast():
    g = FanBeam(8, 5, 9)
    A = Projector(g)
    layers = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 3, padding=1), A.module(), fbp(g).module())
    assert len(list(layers.parameters())) == 2
    image = torch.rand(3, 1, 8, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = layers(image)
        assert A(image.bfloat16()).dtype == torch.float32
    assert (out.shape, out.dtype) == ((3, 1, 8, 8), torch.float32)
    out.sum().backward()
    assert image.grad.abs().max() > 0
    with pytest.raises(TypeError, match="bfloat16"):
        A(image.bfloat16())


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_operators_are_compiled_around(device):
    g = FanBeam(8, 5, 9)
    A = Projector(g)
    layers = torch.nn.Sequential(A.module(), torch.nn.SiLU(), (2 * A.T).module(), fbp(g).T.module())
    image = torch.rand(3, 1, 8, 8, device=device, requires_grad=True)
    compiled = torch.compile(layers, backend="aot_eager")
    for batch in (image, image[:2]):
        out, expected = compiled(batch), layers(batch)
        assert torch.equal(out, expected)
        for first, second in zip(*(torch.autograd.grad(y.square().sum(), image) for y in (out, expected)), strict=True):
            assert torch.equal(first, second)
