"""Networks that are torch modules: what koct trains, how it goes on after a kill, and operators as layers."""

import copy

import numpy as np
import pytest
from test_kernels import DEVICES, torch

from koct.contracts import Cost, Sizes, Workload
from koct.contracts.registry import architecture, problem
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.networks import torch_layers, training
from koct.networks.torch_layers import LearnedStep
from koct.operators.fanbeam import FanBeam, Projector, fbp
from koct.problems import fresh, pools
from koct.study import cells, fitting

pytestmark = pytest.mark.thorough
SIZES = Sizes(train=12, val=4, test=4)
TRAINED = ["unet", "ko-unet", "lpd", "unrolled"]
SMALL = {source: {"levels": 2} if "unet" in source else {"iterations": 2} for source in [*TRAINED, "semi-supervised"]}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("pool") / "seed1.npy")
    scan = problem("fanbeam")(H=14, V=9, B=16, rays="exact", arc=200.0, photons=1e4)
    pools.make(scan, 1, SIZES, path)
    return scan, path


@pytest.fixture(params=DEVICES)
def data(request, pool, tmp_path, monkeypatch):
    """Make the data of a fit of an architecture."""
    monkeypatch.setenv("KOCT_DEVICE", request.param)

    def make(source, **options):
        scan, path = pool
        N, seed = options.pop("N", 12), options.pop("seed", 1)
        made = cells.Data(Cell("F14", scan, architecture(source)(**options), N, seed, ()), {"pool": path})
        made.checkpoints = str(tmp_path / "fit.checkpoint")
        return made

    return make


@pytest.mark.parametrize("source", TRAINED)
def test_a_network_beats_the_known_reconstruction_with_the_same_bits_twice_and_is_restored_from_its_state(data, source):
    options = {"steps": 100, "channels": 8, "validation": "labels", **SMALL[source]}
    made = data(source, **options)
    about, network = fitting.fit(made)
    inverses = cells.Data(made.cell, made.inputs).inverses.values()
    x, y, found = made.pool.x("test").reshape(-1, 9, 16), made.pool.y("test"), made.predict(network, "test")
    known = min(((inverse(x).clip(0).reshape(4, -1) - y) ** 2).mean() for inverse in inverses)
    assert ((found - y) ** 2).mean() < 0.95 * known
    assert about["p"] == sum(value.numel() for value in network.module.parameters()) > 1000
    if source == "unet" or made.device.name == "cuda":
        np.testing.assert_array_equal(made.predict(fitting.fit(data(source, **options))[1], "test"), found)
    state = {name: value.cpu().numpy() for name, value in network.state().items()}
    restored = made.cell.arch.restore(state, data(source, **options))
    np.testing.assert_array_equal(made.predict(restored, "test"), found)
    assert made.cell.arch.cost(Workload(9 * 16, 14 * 14, 12, SIZES, 0, Cost(1e5))).operations > 2e10


def test_a_unet_sees_the_known_reconstructions_that_it_is_told_and_corrects_the_first_of_them(data):
    seen = {}
    for sees in ("both", "best", "weakest"):
        made = data("unet", sees=sees, **SMALL["unet"])
        network = training.ModuleNetwork(made.cell.arch, made)
        seen[sees] = network.start(made.x)
        torch.testing.assert_close(network.images(seen[sees]), seen[sees][:, 0].flatten(1).clip(min=0))
    best, weakest = (seen[sees][:, 0] for sees in ("best", "weakest"))
    torch.testing.assert_close(seen["both"], torch.stack([best, weakest], 1))
    errors = [float((each - network.tensor(made.y).reshape(each.shape)).square().mean()) for each in (best, weakest)]
    assert errors[0] < errors[1]
    torch.testing.assert_close(weakest.flatten(1), network.tensor(made.inverses[None].flat(made.x)))


@pytest.fixture
def random_module(monkeypatch):
    """Let a U-Net be a module with dropout and batch norm: random numbers and buffers."""

    def module(self, problem, layers):
        nn = torch.nn
        return nn.Sequential(
            nn.Conv2d(self.inside, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout(0.2), nn.Conv2d(4, 1, 1)
        )

    monkeypatch.setattr(architecture("unet"), "module", module)


# trainings of 10, 20 and 40 steps: branches from 8 to 10, 18 to 22 and 38 to 46
DOUBLING = {"schedule": "warmup-stable-decay", "validation": "split", "first": 10, "steps": 40, "gain": 1e-9}


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ({"steps": 30, "evaluations": 10, "averaging": 0.9}, 17),
        ({"steps": 30, "evaluations": 10, "averaging": 0.0}, 17),
        ({**DOUBLING}, 17),
        ({**DOUBLING, "averaging": 0.0}, 20),
        ({**DOUBLING, "source": "semi-supervised", "N": 6, "more_scans": 6}, 17),
        pytest.param({**DOUBLING, "N": -1, "batch": 2}, 43, marks=pytest.mark.long),
    ],
)
def test_a_training_that_was_killed_goes_on_and_ends_with_the_same_bits(
    data, monkeypatch, capsys, random_module, options, last
):
    """Between branches, and within one."""
    chosen = {"source": "unet", "channels": 4, **options}

    def fit():
        return fitting.fit(data(**SMALL[chosen["source"]], **chosen))[1].state()

    def killed(self, done):
        say(self, done)
        if done == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(training.Trainer, "ended", False)

    whole, say = fit(), training.Trainer._say
    monkeypatch.setattr(training, "SAVED", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(training.Trainer, "_say", killed)
        with pytest.raises(KeyboardInterrupt):
            fit()
    resumed = fit()
    assert f"resumed after step {last - 1}" in capsys.readouterr().out
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name


def test_a_length_of_a_doubling_run_has_the_bits_of_a_run_of_that_length_alone(data, monkeypatch, random_module):
    options = {"channels": 4, "levels": 2, **DOUBLING}
    monkeypatch.setattr(training.Trainer, "ended", False)
    together = training.Trainer((made := data("unet", **options)).cell.arch, made)
    network = together.run()
    monkeypatch.setattr(architecture("unet"), "lengths", lambda self: (40,))
    alone = training.Trainer(made.cell.arch, data("unet", **options))
    alone.run()
    assert (network.steps, len(network.losses), network.losses[-1]) == (40, 3, alone.losses[0])
    for one, other in zip(together._tensors(), alone._tensors(), strict=True):
        assert torch.equal(one, other) or one is together.number


@pytest.mark.parametrize(
    ("losses", "levels", "steps", "gain", "edge"),
    [
        ([1, 0.9, 0.89], [1, 0.9, 0.9], 40, 0.011, False),
        ([1, 1.2], [1, 0.5], 20, -0.2, False),
        ([1, 0.8, 0.6], [1, 0.8, 0.6], 40, 0.25, True),
        ([1, 1.2, 0.8], [1, 2, 0.8], 40, 1 / 3, True),  # the training loss jumped
        ([1, 0.9, 1.2], [1, 0.9, 1.8], 40, -1 / 3, True),
    ],
)
def test_training_ends_where_twice_the_steps_gain_little_and_else_says_so(
    data, monkeypatch, losses, levels, steps, gain, edge
):
    told = zip(losses, levels, strict=True)

    def evaluate(self):
        loss, self.levels[-1] = next(told)
        self.losses.append(loss)
        if self.losses[-1] < self.best:
            self.best, self.best_state = self.losses[-1], self._copy(self.kept)

    monkeypatch.setattr(training.Trainer, "_evaluate", evaluate)
    about, _ = fitting.fit(data("unet", channels=2, levels=2, **{**DOUBLING, "gain": 0.02}))
    assert (about["steps"], about["edge"], about["losses"]) == (steps, edge, losses)
    assert about["gain"] == pytest.approx(gain, abs=1e-3)


@pytest.mark.parametrize("source", ["unet", "lpd"])
def test_a_compiled_training_has_the_same_bits_twice_and_learns_the_same_but_for_rounding(data, source):
    options = {"steps": 60, "channels": 8, "precision": "float32", "averaging": 0.0, **SMALL[source]}
    found = [
        data(source).images(fitting.fit(data(source, compiled=compiled, **options))[1], data(source).x)
        for compiled in (True, True, False)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).mean() < 0.02 * np.abs(found[2]).mean()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use: CPU only")
@pytest.mark.parametrize("half", [False, True], ids=["TF32", "bfloat16"])
@pytest.mark.parametrize(("inside", "channels", "outside", "shape"), [(7, 32, 5, (3, 30, 47)), (2, 24, 1, (1, 16, 32))])
def test_fused_learned_steps_are_exact_up_to_rounding(inside, channels, outside, shape, half):
    torch.manual_seed(0)
    step = LearnedStep(inside, channels, outside).cuda().to(memory_format=torch.channels_last)
    for parameter in step.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    exact = copy.deepcopy(step).double()
    images = torch.randn(shape[0], inside, *shape[1:], device="cuda", requires_grad=True)
    slopes = torch.randn(shape[0], outside, *shape[1:], device="cuda")

    def found(step, images, fused=False):
        step.fused = fused
        with torch.autocast("cuda", torch.bfloat16, enabled=half and images.dtype == torch.float32):
            out = step(images[:, :outside], images[:, outside:])
        return out, *torch.autograd.grad(out, [images, *step.parameters()], slopes.to(out.dtype))

    wanted = found(exact, images.detach().double().requires_grad_())
    fused, again = found(step, images, fused=True), found(step, images, fused=True)
    assert all(map(torch.equal, fused, again))
    errors = [float((one - other).norm() / other.norm()) for one, other in zip(fused, wanted, strict=True)]
    rounding = 2**-9 if half else 2**-12
    assert errors[0] < 4 * rounding
    assert max(errors) < 4 * rounding**0.5  # the slope of PReLU is another where rounding changes a sign


def test_fresh_pairs_never_repeat_and_are_the_same_twice(data):
    made = data("unet", N=-1)
    parts = made.fresh_parts(6)
    x = np.concatenate([made.read("x", "train"), *(parts.part(number)[0] for number in range(4))])
    assert len(np.unique(x, axis=0)) == len(x) == 12 + 4 * 6
    for one, other in zip(parts.part(2), fresh.draw(made.problem, made.seed, 2, 6), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)  # which a GPU may have drawn
    parts.close()
    assert made.N == 12  # what is not trained by steps gets all of the pool


def test_a_training_starts_where_the_fit_that_it_starts_from_ended(data, tmp_path):
    """So small a step changes nothing; a step that makes it worse is not taken; other weights there do not fit."""
    first, start = data("unet", levels=2, channels=4, steps=5), str(tmp_path / "start.npy")
    about, network = fitting.fit(first)
    cells.write_fit(start, first.stamp(first.spec, about), network)
    still = {"levels": 2, "steps": 1, "lr": 1e-12, "averaging": 0.0, "weight_decay": 0.0, "N": 4}

    def begun(**options):
        made = data("unet", **{**still, **options})
        made.inputs["start"] = start
        return fitting.fit(made)[1]

    of_first, x = first.predict(network, "test"), first.pool.x("test")
    np.testing.assert_allclose(first.images(begun(channels=4), first.device.put(x)), of_first, rtol=1e-4, atol=1e-5)
    assert not np.allclose(first.predict(fitting.fit(data("unet", channels=4, **still))[1], "test"), of_first, 1e-2)
    worse = begun(channels=4, lr=10.0, validation="labels", evaluations=1)  # than what it started from, which is kept
    np.testing.assert_allclose(first.images(worse, first.device.put(x)), of_first, rtol=1e-4, atol=1e-5)
    with pytest.raises(KoctError, match="the weights to start from do not fit unet"):
        begun(channels=8)


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


@pytest.mark.parametrize("content", [b"", b"damaged", "other"])
def test_a_checkpoint_that_is_damaged_or_of_another_fit_is_not_used(data, monkeypatch, capsys, content):
    made = data("unet", steps=4, channels=2, levels=2)
    if content == "other":
        with monkeypatch.context() as patched:
            patched.setattr(training, "SAVED", 0.0)
            patched.setattr(training.os, "remove", lambda path: None)
            fitting.fit(data("unet", steps=3, channels=2, levels=2))
    else:
        with open(made.checkpoints, "wb") as file:
            file.write(content)
    capsys.readouterr()
    fitting.fit(made)
    said = "is of another fit" if content == "other" else "is damaged"
    assert f"the checkpoint {made.checkpoints} {said} and is not used" in capsys.readouterr().out


OWN = """from koct.networks.module import ModuleArchitecture


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
        ("nn.Conv2d(1, 2, 3, padding=1)", r"line 5: the module gave \(1, 2, 9, 16\) .* give images \(1, 1, 14, 14\)"),
    ],
)
def test_a_module_that_does_not_fit_is_one_sentence(data, tmp_path, returned, message):
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(returned))
    with pytest.raises(KoctError, match=message):
        fitting.fit(data(str(path), steps=2))


def test_a_training_that_diverges_is_one_sentence(data):
    with pytest.raises(KoctError, match="the training of unet gave no finite error; lower lr = 1e"):
        fitting.fit(data("unet", steps=5, channels=2, levels=2, lr=1e20, clip=None, evaluations=1))


def test_an_operator_is_a_layer_also_under_autocast():
    g = FanBeam(8, 5, 9)
    A = Projector(g)
    with pytest.raises(TypeError, match=r"\.module\(\)"):
        torch.nn.Sequential(A)
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


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
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
