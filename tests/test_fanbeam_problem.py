"""The fan-beam problem against analytic truth and slower solvers, its pools, and a small sweep really run."""

import json
import math

import numpy as np
import pytest
from conftest import SMALL_FANBEAM
from test_scans import integrals, smooth

from koct.base import device
from koct.config.study_file import read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.algebra import product
from koct.operators.fanbeam import FanBeam, Projector
from koct.problems import pools
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.phantoms import Ellipse

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
    grazing, image = wider & ~narrower, smooth(disc, 256)
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
    for part, seed, count in (("train", 4, 10), ("val", 20001, 3), ("test", 10001, 5)):
        generator = torch.Generator().manual_seed(seed)
        axis = torch.linspace(-1, 1, 32)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        images = []
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


# A small sweep, really run

F32 = FanBeamProblem(H=32, V=20, B=32, rays="printed")
LAMBDAS = tuple(SMALL_FANBEAM["sweeps"]["F32"]["lambdas"])


def test_a_fit_by_the_workflow_is_the_fit_by_hand(small_fanbeam):
    """FC of one cell, written out as a primal ridge with the stated choice of λ."""
    pool = pools.Pool(small_fanbeam.path("results/pools/F32/seed2.npy"), F32)
    whole = pool.x("train").astype(float)
    np.testing.assert_allclose(np.load(small_fanbeam.path("results/grams/F32/seed2.npy")), whole @ whole.T, rtol=1e-12)
    x, y = whole[:16], pool.y("train", 16).astype(float)
    errors, zeros = {}, np.zeros((x.shape[1], y.shape[1]))
    for lam in LAMBDAS:
        M = np.linalg.lstsq(np.vstack([x, math.sqrt(lam) * np.eye(x.shape[1])]), np.vstack([y, zeros]))[0]
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
    wrong, other = (list(PROBLEM.pairs(number, Sizes(train=3, val=3, test=3))) for number in (seed, 1))
    trained, held_out = wrong[0][2], {name: y for name, _, y in other}[part]
    np.testing.assert_array_equal(trained, held_out)  # which is why
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
