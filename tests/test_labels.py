"""Networks that learn from scans, from images, or from nothing: what they read, and the mathematics behind them."""

from concurrent.futures import Future
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from test_crossings import rows, saved
from test_kernels import torch

from koct.base.arrays import to_numpy
from koct.config import contract_suite, study_file
from koct.contracts import LEARNS_FROM, Architecture, Sizes, registry
from koct.contracts.spec import Cell, encode_problem
from koct.errors import KoctError
from koct.networks import deep_image_prior, unpaired_layers
from koct.networks.torch_layers import UNet
from koct.networks.training import Trainer
from koct.networks.variational import gradient, lengths
from koct.operators.algebra import Matrix
from koct.operators.fanbeam import Projector, fbp
from koct.operators.geometry import ParallelBeam
from koct.problems import fresh, pools
from koct.report.tables import table_worth
from koct.study import cells, evaluation, fitting

torch.set_num_threads(1)
ARCHS = [registry.architecture(name) for name in registry.shipped(Architecture)]
UNPAIRED = [arch.name for arch in ARCHS if arch.learns_from != "pairs"]
TINY = {"steps": 4, "channels": 2}
SMALL = {"noise2inverse": {"levels": 2}, "equivariant": {"iterations": 2}, "plug-and-play": {"levels": 2, "inner": 4}}
SMALL |= {"lpd": {"iterations": 2}, "semi-supervised": {"iterations": 2, "more_scans": 4}}
SPLIT = {"schedule": "warmup-stable-decay", "validation": "split", "first": 2}


def scan(V=8):
    return registry.problem("ellipses50")(H=8, V=V, B=12, images="printed")


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Return the path of a pool with so many views: the images are the same for all of them."""
    folder = tmp_path_factory.mktemp("pools")

    def make(V):
        path = folder / f"{V}.npy"
        if not path.exists():
            pools.make(scan(V), 1, Sizes(train=8, val=2, test=3), str(path))
        return str(path)

    return make


def data_of(pool, source, V=8, N=8, **options):
    options = {**TINY, **SMALL.get(source, {}), **options}
    arch = registry.architecture(source)(**{name: value for name, value in options.items() if value is not None})
    return cells.Data(Cell("E8", scan(V), arch, N, 1, ()), {"pool": pool(V)})


def state_of(data):
    _, network = fitting.fit(data)
    return arrays(network)


def arrays(network):
    """Return the state of a network, which may be on a GPU, as NumPy arrays."""
    return {name: to_numpy(value) for name, value in network.state().items()}


# What they read


@pytest.mark.parametrize("N", [8, -1])
@pytest.mark.parametrize("source", UNPAIRED)
def test_a_network_reads_the_samples_that_it_learns_from_and_nothing_else(pool, monkeypatch, source, N):
    """The other half of every pair may be anything: the bits of the fit are the same, fresh samples included."""

    def submit(self, number):
        drawn = Future()
        drawn.set_result(fresh.draw(scan(), self.seed, number, 4))
        return drawn

    monkeypatch.setattr(fresh.Fresh, "_submit", submit)
    wanted = state_of(data_of(pool, source, N=N, batch=1, **SPLIT))
    (unread,) = {"x", "y"} - set(LEARNS_FROM[registry.architecture(source).learns_from])
    draw = fresh.draw

    def spoilt(*request):
        pair = dict(zip("xy", draw(*request), strict=True))
        pair[unread] = np.full_like(pair[unread], np.nan)
        return pair["x"], pair["y"]

    monkeypatch.setattr(fresh, "draw", spoilt)
    monkeypatch.setattr(pools.Pool, unread, lambda *request: pytest.fail(f"{source} reads {unread}"))
    data = data_of(pool, source, N=N, batch=1, **SPLIT)
    about, network = fitting.fit(data)
    for name, value in arrays(network).items():
        np.testing.assert_array_equal(value, wanted[name])
    assert about["tuned_on"] == f"training {data.cell.arch.learns_from}"


@pytest.mark.parametrize("validation", [{}, SPLIT])
def test_a_mixture_reads_the_pairs_of_N_and_the_scans_behind_them_and_nothing_else(pool, monkeypatch, validation):
    """Whatever the images of its scans and all other samples are, the bits are the same; every scan counts."""
    spoilt, read = set(), {name: getattr(pools.Pool, name) for name in "xy"}

    def reader(name):
        def served(self, part, count=None, first=0):
            found = read[name](self, part, count, first)
            rows = {(name, part, row) for row in range(first, first + len(found))}
            found[sorted(row - first for *_, row in rows & spoilt)] = 1e6
            return found

        return served

    for name in "xy":
        monkeypatch.setattr(pools.Pool, name, reader(name))
    options = {"N": 3, "more_scans": 2, "batch": 2, **validation}
    wanted = state_of(data_of(pool, "semi-supervised", **options))

    def same():
        state = state_of(data_of(pool, "semi-supervised", **options))
        return all(np.array_equal(state[name], value) for name, value in wanted.items())

    everything = {(name, part, row) for name in "xy" for part in ("train", "val", "test") for row in range(8)}
    learned = {("y", "train", row) for row in range(3)} | {("x", "train", row) for row in range(5)}
    spoilt |= everything - learned
    assert same()
    for each in (("y", "train", 2), ("x", "train", 3), ("x", "train", 4)):
        spoilt.clear()
        spoilt.add(each)
        assert not same(), each


@pytest.mark.parametrize(("source", "paired"), [("equivariant", "lpd"), ("noise2inverse", "unet")])
def test_a_network_learns_from_scans_at_the_steps_batch_and_rate_of_its_module(source, paired):
    own, other = (asdict(registry.architecture(name)()) for name in (source, paired))
    changed = {"loss", "gain"} if source == "noise2inverse" else {"loss"}  # its loss has the noise of its targets
    assert {name for name, value in own.items() if value != other.get(name, value)} == changed


@pytest.mark.parametrize("source", UNPAIRED)
def test_what_is_not_learned_from_is_refused_with_a_sentence(pool, source):
    data = data_of(pool, source)
    (unread,) = {"x", "y"} - set(LEARNS_FROM[data.cell.arch.learns_from])
    for read in (lambda: getattr(data, unread), lambda: data.read(unread, "val")):
        with pytest.raises(KoctError, match=f"{source} learns from {data.cell.arch.learns_from} alone"):
            read()


def mixture(**options):
    own = {"archs": ["lpd", "semi-supervised"], "semi-supervised": {"more_scans": 4, **options}}
    sweep = {
        "problem": "ellipses50",
        "H": 8,
        "V": 8,
        "B": 12,
        "N": [2, 4, "fresh"],
        "seeds": [1],
        "metric": "mse",
        **own,
    }
    sweep["pool"] = {"train": 8, "val": 2, "test": 2}
    return study_file.read({"study": "s", "studies": {"s": ["a"]}, "sweeps": {"a": sweep}})


def test_a_curve_of_a_mixture_says_both_numbers():
    (sweep,) = mixture(N=[2, 4])
    style = study_file.style(sweep.arch("semi-supervised"))
    assert style["label"] == "pairs + 4 scans"
    assert [sweep.sizes_of(arch) for arch in sweep.networks] == [(2, 4, -1), (2, 4)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "fresh pairs have no end; let semi-supervised.N leave out fresh"),
        ({"N": [2, 4], "more_scans": 5}, "= 5 and N = 4 together are above pool.train = 8; make the pool larger"),
        ({"more_scans": 7}, "let semi-supervised.N leave out 2, 4$"),
        ({"more_scans": 0}, "= 0 must be at least 1"),
    ],
)
def test_scans_that_are_not_there_are_refused_with_a_sentence(options, sentence):
    with pytest.raises(KoctError, match=f"sweeps.a.semi-supervised.more_scans.*{sentence}"):
        mixture(**options)


# The mathematics


def test_a_mixture_whose_scans_weigh_nothing_is_the_network_of_its_pairs(pool):
    pairs, mixed = (
        state_of(data_of(pool, source, N=4, steps=10, batch=2, loss="relative", **more))
        for source, more in (("lpd", {}), ("semi-supervised", {"more_scans": 4, "share": 1e-30}))
    )
    for name, value in mixed.items():
        np.testing.assert_allclose(value, pairs[name.replace("module.network", "module")], rtol=1e-6, atol=1e-9)


def linear(x):
    return x @ (torch.randn(6, 6, generator=torch.Generator().manual_seed(0)) / 2)


@pytest.mark.parametrize("network", [linear, lambda x: torch.sin(2 * x)])
def test_the_estimated_risk_of_a_network_is_its_error_on_the_mean(network):
    """Whatever the truth and however uneven the noise; sin(2x) bends within the noise."""
    random = torch.Generator().manual_seed(1)
    truth, std = torch.randn(6, generator=random), torch.linspace(0.1, 1, 6)
    x = truth + std * torch.randn(20000, 6, generator=random)
    torch.manual_seed(0)
    _, estimated = unpaired_layers.risk(network, x, std)
    difference = estimated - (network(x) - truth).square().sum(1)
    assert abs(difference.mean()) < 4 * difference.std() / len(x) ** 0.5
    assert abs(difference.mean()) < 0.05 * estimated.mean()


@pytest.mark.parametrize("size", [1.0, 50.0])
def test_the_risk_of_scans_is_in_the_unit_of_pixels_whatever_the_operator(size):
    """That of images whose pixels are off by noise is its variance, as is the squared error of turned images."""
    random = torch.Generator().manual_seed(0)
    A = Matrix(size * np.random.default_rng(1).standard_normal((30, 64)), (8, 8), (1, 30))
    network = unpaired_layers.Equivariance(torch.nn.Identity(), A, 0.0)
    off = 0.1 * torch.randn(400, 64, generator=random)
    assert float(A.flat(off).square().sum(1).mean()) / network.unit == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize(
    ("losses", "gain"), [((4.0, 3.0), 0.25), ((1.0, -1.0), 2.0), ((-1.0, -2.0), 1.0), ((0.0, 0.0), 0.0)]
)
def test_a_gain_is_what_a_loss_falls_by_where_estimates_of_a_risk_are_negative_too(losses, gain):
    assert Trainer.gain.fget(SimpleNamespace(losses=[9.0, *losses])) == gain


@pytest.mark.parametrize("count", [2, 3])
def test_a_group_of_views_is_a_scan_of_its_own_and_all_groups_together_are_the_scan(count):
    geometry, fewer = (ParallelBeam(16, V, 20, bin=1.2, image=16.0) for V in (12, 12 // count))
    splits = unpaired_layers.Splits(torch.nn.Identity(), fbp(geometry, None), count)
    x = torch.randn(2, 1, 12, 20, generator=torch.Generator().manual_seed(0))
    parts = splits.images(x)
    torch.testing.assert_close(parts.mean(1), fbp(geometry, None)(x)[:, 0])
    torch.testing.assert_close(parts[:, 0], fbp(fewer, None)(x[:, 0, ::count]))
    z = torch.randn(parts.shape, generator=torch.Generator().manual_seed(1))
    back = (splits.masks * splits.reconstruction.T(z)).sum(1, keepdim=True)  # the adjoint
    torch.testing.assert_close((parts * z).sum(), (x * back).sum())
    torch.testing.assert_close(splits(x), parts.mean(1, keepdim=True))  # of a network that does nothing


def test_the_loss_of_groups_is_the_error_of_what_is_predicted_and_the_noise_of_its_target():
    """Proposition 1 of Noise2Inverse, for any network: what is learned is the FBP of a group without its noise."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 1, 3, padding=1)
    )
    splits = unpaired_layers.Splits(network, fbp(ParallelBeam(8, 12, 12, bin=1.0, image=8.0), None), 2).eval()
    clean = torch.randn(1, 1, 12, 12).expand(4000, 1, 12, 12)
    noisy = clean + torch.randn(4000, 1, 12, 12)
    with torch.no_grad():
        parts, targets = splits.images(noisy), splits.images(clean)
        error, noise = (splits._predicted(parts) - targets).square().mean(), (parts - targets).square().mean()
        torch.testing.assert_close(splits.losses(noisy).mean(), error + noise, rtol=0.01, atol=0)


def test_groups_of_odd_views_are_as_bright_as_all_views():
    """Of 15 views, groups have 8 and 7."""
    geometry = ParallelBeam(16, 15, 24, bin=1.0, image=16.0)
    splits = unpaired_layers.Splits(torch.nn.Identity(), fbp(geometry, None), 2)
    disc = (torch.hypot(*torch.meshgrid(*[torch.arange(16) - 7.5] * 2, indexing="ij")) < 5).float()[None, None]
    one, other = splits.images(Projector(geometry)(disc))[0, :, 4:12, 4:12].mean((1, 2)).tolist()
    assert one == pytest.approx(other, rel=0.03)


def test_turning_by_right_angles_moves_pixels(monkeypatch):
    image = torch.arange(9.0).reshape(1, 1, 3, 3)
    for angle, turned in ((0.0, image), (0.25, image.rot90(1, (2, 3))), (0.5, image.flip(2, 3))):
        monkeypatch.setattr(torch, "rand", lambda *size, angle=angle, **where: torch.full(size, angle))
        torch.testing.assert_close(unpaired_layers.turn(image), turned, atol=1e-5, rtol=0)


@pytest.mark.parametrize("shape", [(9, 9), (6, 11)])
def test_the_gradient_of_turning_is_its_adjoint(shape):
    random = torch.Generator().manual_seed(0)
    images, others = (torch.randn(5, 1, *shape, generator=random, requires_grad=True) for _ in range(2))
    turned = unpaired_layers.Turn.apply(images, 7 * torch.rand(5, 1, 1, generator=random))
    (back,) = torch.autograd.grad(turned, images, others)
    torch.testing.assert_close((turned * others).sum((1, 2, 3)), (images * back).sum((1, 2, 3)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("uneven", [False, True])
def test_half_quadratic_splitting_with_nothing_to_denoise_gives_weighted_least_squares(uneven):
    random = np.random.default_rng(0)
    matrix, x = random.standard_normal((12, 5)), random.standard_normal((2, 12))
    std = np.linspace(1, 4, 12) if uneven else np.ones(12)
    best = np.linalg.lstsq(matrix / std[:, None], (x / std).T, rcond=None)[0].T
    variance = torch.as_tensor(1e-6 * np.tile(std**2, (2, 1)))  # the residual decides, and no noise in it
    term = unpaired_layers.Weighed.of(Matrix(matrix, (5,), (12,)), torch.as_tensor(x), variance)
    found = unpaired_layers.half_quadratic(term, lambda images, level: images, [1.0, 0.1], [1.0], 30, torch.zeros(2))
    np.testing.assert_allclose(found.numpy(), best, rtol=1e-4, atol=1e-6)


def test_a_penalty_leads_from_what_is_given_to_least_squares():
    random = np.random.default_rng(1)
    matrix, x, z = (random.standard_normal(shape) for shape in ((7, 4), (1, 7), (1, 4)))
    term = unpaired_layers.Weighed(Matrix(matrix, (4,), (7,)), torch.as_tensor(x), torch.ones(1, 7))
    for penalty in (0.1, 3.0):
        wanted = np.linalg.solve(matrix.T @ matrix + penalty * np.eye(4), (x @ matrix + penalty * z)[0])
        np.testing.assert_allclose(term.nearest(torch.as_tensor(z), penalty, 8)[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("wrong", [0.0, 0.05])
def test_a_residual_is_explained_by_the_noise_and_by_what_the_operator_gets_wrong(wrong):
    random = np.random.default_rng(3)
    A, y = random.standard_normal((400, 16)), random.random((3, 16))
    variance = random.uniform(0.01, 0.03, 400)
    x = y @ (A + wrong * random.standard_normal(A.shape)).T + variance**0.5 * random.standard_normal((3, 400))
    x, variance, y = (torch.as_tensor(each).float() for each in (x, np.tile(variance, (3, 1)), y))
    term = unpaired_layers.Weighed.of(Matrix(A, (4, 4), (400,)), x, variance)
    of_noise, limit, true = 400, term.limit(True), term.residual(y)
    assert ((limit > 0.95 * of_noise) & (limit < 1.5 * true)).all()
    assert (limit > 0.8 * true).all()


def test_a_deep_image_prior_has_the_same_bits_twice(pool, monkeypatch):
    monkeypatch.setattr(deep_image_prior, "BLOCK", 2)  # of three scans
    data = data_of(pool, "deep-image-prior", N=0, levels=2)
    about, network = fitting.fit(data)
    x, found = data.pool.x("test"), data.predict(network, "test")
    assert (about["p"], about["tuned_on"]) == (0, "noise")
    np.testing.assert_array_equal(data.predict(network, "test"), found)
    if data.device.name == "cpu":  # a GPU sums batches of other sizes in another order
        np.testing.assert_array_equal(data.images(network, x[1:2]), found[1:2])


def test_a_deep_image_prior_comes_near_the_least_objective_of_total_variation_with_its_strength(pool, monkeypatch):
    """It cannot pass it: TV has the least of all images."""
    monkeypatch.setattr(deep_image_prior, "BLOCK", 1)
    data = data_of(pool, "deep-image-prior", N=0, steps=250, levels=2, channels=8, lr=1e-2)
    tv = data_of(pool, "tv", N=0, steps=None, channels=None, iterations=4000, tolerance=1e-6)
    x, (about, prior), (other, baseline) = data.pool.x("test")[:1], fitting.fit(data), fitting.fit(tv)
    assert about["lam"] == other["lam"]

    def objective(images):
        slopes = lengths(gradient(images.reshape(-1, *data.y_shape, 1))).sum()
        return ((data.problem.forward({}).flat(images) - x) ** 2).sum() / 2 + about["lam"] * slopes

    least = objective(tv.images(baseline, x))
    assert 0.999 * least < objective(data.images(prior, x)) < 1.05 * least


def white(count):
    """Return an operator on images of 4 × 4 pixels, and flat measurements and images."""
    random = np.random.default_rng(0)
    A = Matrix(random.standard_normal((40, 16)), (4, 4), (40,))
    x, start = (torch.as_tensor(random.standard_normal((count, size))).float() for size in (40, 16))
    return A, x, start


def test_an_image_prior_is_the_image_with_the_least_objective():
    """However Adam jumps: the first of its images is where it starts."""
    A, x, start = white(2)
    for steps in (1, 4, 32):
        torch.manual_seed(1)
        found = unpaired_layers.image_prior(A, x, start, (4, 4), UNet(2, 2), 0.1, 0.5, steps)
        before, after = (
            (A.flat(images) - x).square().sum(1) / 2 + 0.1 * unpaired_layers.total_variation(images.reshape(2, 1, 4, 4))
            for images in (start, found)
        )
        assert (after <= before).all()
        assert (after < before).all() == (steps > 1)


def test_image_priors_scale_with_their_scans_and_are_the_same_alone():
    A, x, start = white(3)
    torch.manual_seed(0)
    network = UNet(2, 2)

    def images(rows, scale=1):
        return unpaired_layers.image_prior(
            A, scale * x[rows], scale * start[rows], (4, 4), network, 0.1 * scale, 1e-2, 5
        )

    together = images(slice(0, 3))
    assert (together - start).std() > 0
    torch.testing.assert_close(images(slice(0, 3), 1024), 1024 * together, rtol=1e-4, atol=1e-2)
    for row in range(3):
        torch.testing.assert_close(images(slice(row, row + 1)), together[row : row + 1], rtol=1e-4, atol=1e-5)


# One fit for every operator


def test_what_learned_from_images_is_the_same_for_every_operator_and_is_tested_with_the_other(pool, tmp_path):
    """A fit with 8 views, tested on a scan of 4, is what the fit with 4 views is there; no image network is else."""
    own, other = (data_of(pool, "plug-and-play", V=V, iterations=4) for V in (8, 4))
    fits = {}
    for data, V in ((own, 8), (other, 4)):
        about, network = fitting.fit(data)
        fits[V] = str(tmp_path / f"{V}.npy")
        cells.write_fit(fits[V], data.stamp(data.cell.encode(), about), network)
    states = [cells.read_fit(path)[1] for path in fits.values()]
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name])
    tested = {"tested": encode_problem(scan(4), layers=True), "tested_seed": 1, "tested_on": "E4"}
    evaluation.transfer(fits[8], {"pool": pool(8)}, pool(4), str(tmp_path / "there.json"), tested)
    evaluation.evaluate(fits[4], {"pool": pool(4)}, str(tmp_path / "own.json"), {})
    there, here = (evaluation.json.loads((tmp_path / f"{name}.json").read_text()) for name in ("there", "own"))
    assert there["mse"] == here["mse"]


@pytest.mark.parametrize("source", ["unet", "lpd", "noise2inverse", "equivariant", "semi-supervised"])
def test_other_networks_take_other_operators_where_measurements_have_another_shape(pool, source):
    data = data_of(pool, source, N=4)
    state = state_of(data)
    moved = data.moved(scan(4), 1, pool(4))
    assert data.cell.arch.moved(scan(8), scan(4))
    assert not data.cell.arch.moved(scan(8), scan(8))
    images = moved.predict(data.cell.arch.restore(state, moved), "test")
    assert images.shape == (3, 64)
    assert np.isfinite(images).all()


# Promises of the contract

SIGNALS = """
import numpy as np

from koct.contracts import Problem


class Blurred(Problem):
    x_shape = y_shape = (16,)

    def matrix(self):
        n = np.arange(16)
        return np.exp(-((n[:, None] - n) ** 2) / 2)

    def pairs(self, seed, sizes):
        for number, part in enumerate(("train", "val", "test")):
            rng = np.random.default_rng([seed, number])
            y = rng.random((getattr(sizes, part), 16)).round()
            yield part, y @ self.matrix() + 0.01 * rng.standard_normal(y.shape), y

    def forward(self, shared):
        from koct.operators.algebra import Matrix

        return Matrix(self.matrix(), (16,), (16,))

    def noise_variance(self, x):
        return 1e-4
"""
QUICK = {
    "plug-and-play": {"levels": 2, "channels": 2, "iterations": 3},
    "deep-image-prior": {"steps": 5, "channels": 2},
}
QUICK |= {"noise2inverse": {"levels": 2, "channels": 2}, "equivariant": {"iterations": 1, "channels": 2}}
QUICK["semi-supervised"] = {**QUICK["equivariant"], "more_scans": 4}


@pytest.fixture
def signals(tmp_path):
    path = tmp_path / "signals.py"
    path.write_text(SIGNALS)
    return str(path)


@pytest.mark.parametrize("source", QUICK)
def test_every_network_keeps_the_promises_of_the_contract(source):
    settings = {"problem": "ellipses50", "H": 8, "V": 8, "B": 12, "N": [2, 4], source: QUICK[source]}
    assert contract_suite.run(["unet", source], {**settings, "unet": {"levels": 2, "channels": 2, "steps": 2}})


@pytest.mark.parametrize("source", ["plug-and-play", "deep-image-prior"])
def test_signals_of_ones_own_are_deconvolved(signals, source, capsys):
    assert contract_suite.run([signals, "fc", source], {source: QUICK[source]}), capsys.readouterr().out


@pytest.mark.parametrize(("source", "why"), [("noise2inverse", "no views"), ("equivariant", "two-dimensional")])
def test_what_does_not_apply_to_signals_is_refused(signals, source, why, capsys):
    assert not contract_suite.run([signals, source], {})
    assert why in capsys.readouterr().out


@pytest.mark.parametrize("source", ["plug-and-play", "deep-image-prior"])
def test_signals_whose_noise_is_unknown_are_refused_where_noise_decides(tmp_path, source, capsys):
    (tmp_path / "signals.py").write_text(SIGNALS.partition("    def noise_variance")[0])
    assert not contract_suite.run([str(tmp_path / "signals.py"), source], {})
    assert "does not say how noisy measurements are" in capsys.readouterr().out


def test_a_network_of_ones_own_that_reads_scans_needs_a_loss_for_them(tmp_path, capsys):
    head = "class CNN(ModuleArchitecture):\n"
    text = (ROOT / "docs/your-own/cnn.py").read_text()
    assert head in text
    (tmp_path / "cnn.py").write_text(text.replace(head, f"{head}    more_scans = 2\n"))
    settings = {"problem": "ellipses50", "H": 8, "V": 8, "B": 12}
    assert not contract_suite.run([str(tmp_path / "cnn.py")], settings)
    assert "no loss for them; write its scan_losses" in capsys.readouterr().out  # the pool has room for both


# What a pair is worth


def worth(folder, laws, kinds, sizes=(4, 16, 64, 256)):
    curves = [rows(arch, law, 9, sizes) for arch, law in laws.items()]
    saved(folder, *curves)
    made = table_worth.table(folder / "cells.parquet", folder / "images.parquet", {"A": kinds}, {"A": "mse"})
    return [line[1:] for line in made.body if isinstance(line, list) and len(line) > 2]


def test_a_pair_is_worth_as_many_scans_as_give_the_same_error(tmp_path):
    """A network that learns from both is in neither column."""
    laws = {"pairs": lambda n: 0.1 * n**-0.5, "scans": lambda n: 0.1 * (n / 4) ** -0.5, "both": lambda n: 0.1 / n}
    lines = worth(tmp_path, laws, {"pairs": "pairs", "scans": "scans", "both": "pairs and scans"})
    assert [line[0] for line in lines] == ["$4$", "$16$", "$64$", "$256$"]
    for _, _, found in lines[:2]:
        value, low, high = (float(part.strip(" ,")) for part in found.replace("]", "").replace("[", " ").split())
        assert low <= value <= high
        assert 3 < value < 5.5
    assert lines[3][2].startswith("$>$ 1")
    twice = worth(tmp_path, {**laws, "scans": lambda n: 0.1 * (n / 1.2) ** -0.5}, {"pairs": "pairs", "scans": "scans"})
    assert 1.1 < float(twice[0][2].split()[0]) < 1.24, "no whole number of scans over 4, as 5 / 4"


@pytest.mark.parametrize(("scale", "text"), [(0.01, r"$\leq$"), (100.0, "$>$")])
def test_what_is_always_better_or_worse_has_a_bound_and_no_number(tmp_path, scale, text):
    laws = {"pairs": lambda n: 0.1 * n**-0.5, "images": lambda n: scale * n**-0.5}
    found = worth(tmp_path, laws, {"pairs": "pairs", "images": "images"})
    assert all(line[2].startswith(text) and "[" not in line[2] for line in found)


def test_nothing_is_decided_by_a_curve_that_could_be_anywhere(tmp_path):
    laws = {"pairs": lambda n: 0.1, "scans": lambda n: 0.1}  # each N has noise of its own
    found = [line[2] for line in worth(tmp_path, laws, {"pairs": "pairs", "scans": "scans"})]
    assert "not decided" in found
