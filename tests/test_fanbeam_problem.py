"""The fan-beam problem and its known chain against analytic truth and slower solvers, and a small sweep really run."""

import json
import math

import numpy as np
import pytest
from conftest import SMALL_FANBEAM
from small_problems import drawn
from test_networks import stacked_ridge
from test_scans import integrals

from koct.base import device
from koct.config.study_file import read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.algebra import product
from koct.operators.fanbeam import Backprojector, FanBeam, Projector, fbp, printed_weights
from koct.operators.filters import RampFilter
from koct.problems import pools
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.known_chain import CUTOFFS
from koct.problems.phantoms import Ellipse, rasterise

pytestmark = pytest.mark.thorough
PROBLEM = FanBeamProblem(H=32, V=10, B=32, rays="printed")


def chain(problem):
    return product([layer.operator for layer in problem.layers({})])


def test_a_disc_has_its_analytic_sinogram():
    """Within 1 % of the peak, but for rays that graze the disc: there pixels of any kind are too coarse."""
    geometry = FanBeam(256, 24, 256)
    disc = Ellipse(1.0, (0.1, -0.15), (0.6, 0.6), 0.0)
    expected = integrals(geometry, disc)
    assert expected.max() == pytest.approx(2 * 0.6 * geometry.radius, rel=1e-4)
    axes = 0.6 + 4 / 256, 0.6 - 4 / 256
    wider, narrower = (integrals(geometry, Ellipse(1.0, disc.centre, (a, a), 0.0)) > 0 for a in axes)
    grazing = wider & ~narrower
    image = np.pad(rasterise([disc], 256 * 9 - 8), 4).reshape(256, 9, 256, 9).mean(axis=(1, 3))  # by fine sampling
    error, sparse = ((Projector(geometry, rays)(image) - expected) / expected.max() for rays in ("exact", "printed"))
    assert np.abs(error[~grazing]).max() < 0.01
    assert np.sqrt(np.mean(error**2)) < 0.0025
    assert grazing.mean() < 0.1
    assert np.abs(sparse[~grazing]).max() > 0.01  # the printed rays are no line integrals


def test_phantoms_come_from_the_stated_streams(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed: its stream is the reference")
    pools.make(PROBLEM, 3, Sizes(train=10, val=3, test=5), tmp_path / "pool.npy")
    pool = pools.Pool(tmp_path / "pool.npy", PROBLEM)
    A = Projector(FanBeam(32, 10, 32), "printed")
    y, x = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")
    for part, seed, count in (("train", 4, 10), ("val", 20001, 3), ("test", 10001, 5)):
        generator, images = torch.Generator().manual_seed(seed), []
        for _ in range(count):
            image = torch.zeros(32, 32)
            for _ in range(int(torch.randint(3, 7, (1,), generator=generator))):
                amplitude = torch.rand(1, generator=generator) * 0.8 + 0.2
                cx, cy = torch.rand(2, generator=generator) - 0.5
                a, b = (torch.rand(1, generator=generator) * 0.32 + 0.08 for _ in range(2))
                angle = torch.rand(1, generator=generator) * math.pi
                u = torch.cos(angle) * (x - cx) + torch.sin(angle) * (y - cy)
                v = torch.cos(angle) * (y - cy) - torch.sin(angle) * (x - cx)
                image += amplitude * ((u / a) ** 2 + (v / b) ** 2 <= 1)
            images.append(image.clip(0, 1.5))
        expected = torch.stack(images).numpy().reshape(count, -1)
        np.testing.assert_allclose(pool.y(part), expected, atol=1e-6)
        np.testing.assert_allclose(pool.x(part), A(expected.reshape(-1, 32, 32)).reshape(count, -1), atol=1e-4)


# The known chain


def test_the_known_chain_reconstructs():
    """Before any training, on the 50 test images of H128-exact; the printed chain gives a disc 0.61 of its value."""
    disc, inside = (Ellipse(1.0, (0.0, 0.0), (a, a), 0.0) for a in (0.4, 0.36))
    for known, error, value in (("exact", 7.6e-4, 1.0), ("printed", 8.92e-3, 0.61)):
        problem = FanBeamProblem(H=128, V=60, B=128, rays="exact", known=known)
        x, y = drawn(problem, train=1, val=1, test=50)["test"]
        image = chain(problem)(x).clip(min=0)
        found = np.mean(np.sqrt(((image - y) ** 2).mean((1, 2))) / y.max((1, 2))) ** 2
        assert found == pytest.approx(error, rel=0.01)
        image = chain(problem)(integrals(problem.geometry(), disc))
        assert image[rasterise([inside], 128) > 0].mean() == pytest.approx(value, abs=0.005)


def test_the_printed_chain_is_that_of_the_paper():
    """Bit for bit: the circular ramp without a scale behind Parker's weights at the angles of the views."""
    problem = FanBeamProblem(H=32, V=20, B=32, rays="printed", known="printed")
    g, (weights, ramp, back) = problem.geometry(), [layer.operator for layer in problem.layers({})]
    np.testing.assert_array_equal(weights.weights, printed_weights(g))
    np.testing.assert_array_equal(ramp.view_matrix, RampFilter(20, 32).view_matrix)
    assert isinstance(back, Backprojector)
    beta, gamma = np.linspace(0, math.pi, 20)[:, None], np.arctan2(g.bins, 1500.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(beta < -2 * gamma, np.sin(math.pi / 4 * beta / -gamma) ** 2, 1)
        falling = np.where(beta > math.pi - 2 * gamma, np.sin(math.pi / 4 * (math.pi - beta) / gamma) ** 2, 1)
    np.testing.assert_allclose(weights.weights, rising * falling * g.cosines, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("known", ["exact", "printed"])
def test_inverses_are_exact_fbp_by_their_window(known):
    """Whatever the chain of the networks is: a disc keeps its value, and noise falls with the cutoff."""
    problem = FanBeamProblem(H=64, V=40, B=64, rays="exact", known=known)
    g, disc = problem.geometry(), Ellipse(1.0, (0.1, 0.0), (0.5, 0.5), 0.0)
    inside = rasterise([Ellipse(1.0, disc.centre, (0.35, 0.35), 0.0)], 64) > 0
    noise, spread = np.random.default_rng(0).standard_normal((40, 64)), []
    inverses = problem.inverses({})
    np.testing.assert_array_equal(inverses[None](noise), fbp(g)(noise))
    for cutoff, inverse in inverses.items():
        if (cutoff or 1) >= 0.3:  # smoother ones reach across the border of the disc
            assert inverse(integrals(g, disc))[inside].mean() == pytest.approx(1, abs=0.01)
        spread.append(inverse(noise).std())
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 0.3 * spread[0]
    assert list(inverses) == [None, *CUTOFFS]


# A small sweep, really run


def test_a_fit_by_the_workflow_is_the_fit_by_hand(small_fanbeam):
    """FC of one cell, written out as a primal ridge with the stated choice of λ."""
    problem = FanBeamProblem(H=32, V=20, B=32, rays="printed")
    pool = pools.Pool(small_fanbeam.path("results/pools/F32/seed2.npy"), problem)
    whole = pool.x("train").astype(float)
    np.testing.assert_allclose(np.load(small_fanbeam.path("results/grams/F32/seed2.npy")), whole @ whole.T, rtol=1e-12)
    x, y = whole[:16], pool.y("train", 16).astype(float)
    errors = {}
    for lam in SMALL_FANBEAM["sweeps"]["F32"]["lambdas"]:
        M = stacked_ridge(x, y, lam)
        for part in ("val", "test"):
            predicted, truth = np.maximum(pool.x(part) @ M, 0), pool.y(part)
            peak = np.sqrt(np.mean((predicted - truth) ** 2, axis=1)) / truth.max(axis=1)
            errors[lam, part] = peak.mean()
    best = min((errors[lam, "val"], lam) for lam, part in errors if part == "val")[1]
    row = json.loads(small_fanbeam.path("results/cells/F32/fc/N16_seed2.json").read_text())
    assert small_fanbeam.path("results/logs/fits/F32/fc/N16_seed2.log").read_text().startswith("device: ")
    assert row["lam"] == best
    assert row["rrmse_peak"] == pytest.approx(errors[best, "test"], rel=1e-6)


# What goes wrong


@pytest.mark.parametrize(("seed", "part"), [(10000, "test"), (20000, "val")])
def test_a_seed_that_would_train_on_held_out_phantoms_is_refused(seed, part):
    wrong, other = (drawn(PROBLEM, number, 3, 3, 3) for number in (seed, 1))
    np.testing.assert_array_equal(wrong["train"][1], other[part][1])  # which is why
    sweep = {**SMALL_FANBEAM["sweeps"]["F32"], "seeds": [1, seed]}
    config = {"study": "small", "studies": {"small": ["F32"]}, "sweeps": {"F32": sweep}}
    message = rf"sweeps\.F32\.seeds has {seed}, whose training phantoms are the {part} phantoms .*; take another seed"
    with pytest.raises(KoctError, match=message):
        read(config)
    sweep["seeds"] = [seed - 1, seed + 1]
    assert read(config)[0].seeds == (seed - 1, seed + 1)


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(device, "_missing", lambda: "there is no NVIDIA driver")
    for asked, message in (
        ("cuda", "device = 'cuda' but there is no NVIDIA driver: fix that, or set device to cpu"),
        ("gpu", "device = 'gpu' must be one of auto, cpu, cuda"),
    ):
        monkeypatch.setenv("KOCT_DEVICE", asked)
        with pytest.raises(KoctError, match=message):
            device.choose()
    monkeypatch.setenv("KOCT_DEVICE", "auto")
    assert device.choose() is device.CPU


def test_what_a_gpu_does_to_a_job_is_one_sentence():
    torch = pytest.importorskip("torch", reason="torch is not installed: no GPU could fail")
    for error, kind, message in (
        (torch.OutOfMemoryError("90 GiB."), KoctError, "out of GPU memory: 90 GiB"),
        (RuntimeError("CUDA error: failure\nmore"), KoctError, "the GPU failed: CUDA error: failure; run snakemake"),
        (MemoryError("1 PiB"), KoctError, "out of memory: 1 PiB; run fewer jobs at once"),
        (RuntimeError("something else"), RuntimeError, "something else"),
    ):
        with pytest.raises(kind, match=message), device.failures_explained():
            raise error
