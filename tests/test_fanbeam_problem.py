"""The fan-beam problem against analytic truth and slower solvers, its pools, and a small sweep really run."""

import ctypes
import json
import math
import mmap
import os

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import SMALL_FANBEAM

from koct.base import device, stamps
from koct.base.files import record_writer
from koct.config.study_file import read
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.networks.solvers import Known
from koct.operators.chain import product
from koct.operators.fanbeam import FanBeam, Projector, fbp
from koct.problems import pools
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.phantoms import Ellipse, rasterise
from koct.study import cells, evaluation

PROBLEM = FanBeamProblem(H=32, V=10, B=32, rays="printed")


def chain(problem):
    return product([layer.operator for layer in problem.layers({})])


def chords(geometry, ellipse):
    """The exact line integrals of one ellipse: amplitude times the length of the ray inside it."""
    g, r = geometry, geometry.radius
    c, s = np.cos(g.angles)[:, None], np.sin(g.angles)[:, None]
    source = g.source_isocentre * np.stack([-s + 0 * g.bins, c + 0 * g.bins])
    end = np.stack([500 * s + g.bins * c, -500 * c + g.bins * s])
    way = (end - source) / np.linalg.norm(end - source, axis=0)
    centre = np.array(ellipse.centre)[:, None, None] * r
    c, s = math.cos(ellipse.angle), math.sin(ellipse.angle)
    scale = np.diag(1 / (np.array(ellipse.axes) * r)) @ [[c, s], [-s, c]]
    p, d = np.einsum("ij,jvb->ivb", scale, source - centre), np.einsum("ij,jvb->ivb", scale, way)
    a, b, k = (d * d).sum(0), (p * d).sum(0), (p * p).sum(0) - 1
    return ellipse.amplitude * 2 * np.sqrt(np.maximum(b * b - a * k, 0)) / a


def smooth(ellipses, H, fine=9):
    """The share of every pixel that an ellipse covers, by fine sampling."""
    big = rasterise(ellipses, H * fine - (fine - 1))  # pixel centres of the small image are among these
    padded = np.pad(big, fine // 2)
    rows = np.add.reduceat(padded, np.arange(0, fine * H, fine), axis=0)
    return np.add.reduceat(rows, np.arange(0, fine * H, fine), axis=1) / fine**2


def test_a_disc_has_its_analytic_sinogram():
    """Within 1 % of the peak, but for rays that graze the disc: there pixels of any kind are too coarse."""
    geometry = FanBeam(256, 24, 256)
    disc = Ellipse(1.0, (0.1, -0.15), (0.6, 0.6), 0.0)
    expected = chords(geometry, disc)
    assert expected.max() == pytest.approx(2 * 0.6 * geometry.radius, rel=1e-4)
    axes = 0.6 + 4 / 256, 0.6 - 4 / 256
    wider, narrower = (chords(geometry, Ellipse(1.0, disc.centre, (a, a), 0.0)) > 0 for a in axes)
    grazing, image = wider & ~narrower, smooth([disc], 256)
    error, sparse = ((Projector(geometry, rays)(image) - expected) / expected.max() for rays in ("exact", "printed"))
    assert np.abs(error[~grazing]).max() < 0.01
    assert np.sqrt(np.mean(error**2)) < 0.0025
    assert grazing.mean() < 0.1
    assert np.abs(sparse[~grazing]).max() > 0.01  # the printed rays are no line integrals


def test_fbp_of_an_analytic_phantom():
    """Filtered backprojection with the ramp's true scale, from exact line integrals: more than 31 dB."""
    geometry = FanBeam(256, 720, 256)
    body = [Ellipse(0.8, (0.2, -0.1), (0.35, 0.2), 0.6), Ellipse(0.5, (-0.3, 0.25), (0.15, 0.3), 2.0)]
    truth = sum(e.amplitude * smooth([Ellipse(1.0, e.centre, e.axes, e.angle)], 256) for e in body)
    sinogram = sum(chords(geometry, e) for e in body)

    def psnr(image):
        return 10 * np.log10(truth.max() ** 2 / np.mean((image - truth) ** 2))

    assert psnr(fbp(geometry)(sinogram)) > 36
    exact, printed = (FanBeamProblem(H=256, V=720, B=256, rays="exact", known=known) for known in ("exact", "printed"))
    np.testing.assert_array_equal(chain(exact)(sinogram), fbp(geometry)(sinogram))
    image = chain(printed)(sinogram) * 1.5  # its ramp is in cycles per bin
    assert 25 < psnr(image) < 31  # and circular


def test_the_normal_matrix_is_that_of_the_operator(tmp_path, monkeypatch):
    """By the fast way of the problem, and by basis vectors where it has none."""
    R = Known(PROBLEM.layers({}), PROBLEM.nonnegative).R.matrix()
    for _ in range(2):
        cells.write_normal(PROBLEM, None, tmp_path / "normal.npy")
        np.testing.assert_allclose(np.load(tmp_path / "normal.npy"), R.T @ R, rtol=1e-10, atol=1e-12)
        monkeypatch.setattr(FanBeamProblem, "normal_matrix", lambda self, shared: None)


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


def test_a_cell_touches_its_prefix_and_not_the_pool(tmp_path):
    """Of a pool of a gigabyte that is not in memory, four pairs bring in what the kernel reads ahead, no more."""
    path, count = tmp_path / "pool.npy", 20_000
    problem = FanBeamProblem(H=64, V=200, B=64, rays="printed")
    pools.make(problem, 1, Sizes(train=4, val=1, test=1), path)
    records, stamp = np.load(path), stamps.read(path)
    record = 4 * 200 * 64 + 4 * 6 * 6 + stamps.DIGEST  # ellipses are stored, not images
    assert path.stat().st_size < 6 * record + 1024  # for the header and the stamp
    stamp.about["counts"]["train"] = count - 2
    kinds = {name: (kind.base, kind.shape) for name, (kind, _) in records.dtype.fields.items()}
    with record_writer(path, stamp, count, **kinds) as (file, _):
        start = file.tell()
        file.write(records.tobytes())
        file.seek(start + count * records.itemsize)  # the others are holes
        index = pools.digests(records) + [bytes(stamps.DIGEST)] * (count - len(records))
        pools.write_index(file, start, index, stamp.about)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = resident(path)
    pool = pools.Pool(path, problem)
    np.testing.assert_array_equal(pool.x("train", 4), records["x"][:4].reshape(4, -1))
    assert pool.y("train", 4).any(axis=1).all()
    assert path.stat().st_size > 1e9
    assert resident(path) - before < 1e-3  # 1 MB


def resident(path):
    """The share of a file's pages that are in memory."""
    size = path.stat().st_size
    state = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    mapped = np.memmap(path, np.uint8, mode="r")
    asked = ctypes.c_void_p(mapped.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(state.ctypes.data)
    if ctypes.CDLL(None).mincore(*asked):
        pytest.skip("mincore is not allowed here")
    return float((state & 1).mean())


# A small sweep, really run

F32 = FanBeamProblem(H=32, V=20, B=32, rays="printed")
LAMBDAS = tuple(SMALL_FANBEAM["sweeps"]["F32"]["lambdas"])


def test_a_small_sweep_learns(small_fanbeam):
    cells = pd.read_parquet(small_fanbeam.path("results/cells.parquet"))
    assert len(cells) == (2 + 1) * 2 * 3 + 2  # seeds of the two sweeps, networks, N; one cell without samples in each
    assert cells["lam"].isna().equals(cells["arch"] != "fc")
    curves = pd.read_parquet(small_fanbeam.path("results/curves.parquet")).set_index(["sweep", "arch", "N"])
    for sweep in ("F32", "F32-exact"):
        error = curves.loc[sweep]["error_mean"]
        assert error["ko", 64] < error["untrained", 0]
        assert error["fc", 64] < error["fc", 4]
        assert error["ko", 64] < error["ko", 4]


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


def test_what_runs_again(small_fanbeam, tmp_path):
    run = small_fanbeam.copy(tmp_path / "study")
    config = {**SMALL_FANBEAM, "device": "cpu"}

    def plan(**changes):
        sweep = {**config["sweeps"]["F32"], **changes}
        config["sweeps"] = {**config["sweeps"], "F32": sweep}
        run.path("config.yaml").write_text(yaml.safe_dump(config))
        return run.plan()

    def fits(**changes):
        jobs = plan(**changes)
        return [jobs.get(rule, 0) for rule in ("pool_large", "gram", "fit_large", "evaluate")]

    assert plan() == {}
    assert fits(ko={**SMALL_FANBEAM["sweeps"]["F32"]["ko"], "iterations": 100}) == [0, 0, 6, 6]
    assert fits(known="printed") == [0, 0, 7, 7]  # other layers, the same pairs; with the untrained chain
    assert fits(lambdas=[1.0, 10.0]) == [0, 0, 13, 13]
    assert fits(rays="exact") == [3, 2, 13, 13]


def test_the_closed_form_beats_its_start_and_needs_few_samples(small_fanbeam):
    inputs = {"pool": str(small_fanbeam.path("results/pools/F32/seed1.npy"))}
    untrained = json.loads(small_fanbeam.path("results/cells/F32/untrained/N0_seed1.json").read_text())
    arch = registry.architecture("ko")(solver="ridge", toward="analytic")
    data = cells.Data(Cell("F32", F32, arch, 4, 1, LAMBDAS), inputs)
    _, network = cells.fit(data)
    assert evaluation.errors(network, data)["rrmse_peak"] < untrained["rrmse_peak"]


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
