"""Studies that no machine could finish, and options with which nothing could be learned, stop before the first job."""

import re
from dataclasses import replace

import numpy as np
import pytest
import yaml
from conftest import ROOT

from koct.config.study_file import Settings, build, read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.fanbeam import FanBeam, Projector
from koct.problems.fanbeam import FanBeamProblem
from koct.workflow import resources as limits

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
GIB = 2**30
SMALL_SIZES = Sizes(train=1, val=1, test=1)


def wrong(name="H8", memory=24 * GIB, days=30, device="auto", gpu=False, **changes):
    """What is said of a sweep of config.yaml with other options."""
    return limits.too_large([build("mine", {**CONFIG["sweeps"][name], **changes})], device, memory, days, gpu)


@pytest.mark.parametrize("study", CONFIG["studies"])
def test_every_study_fits_a_machine_of_24_gib(study):
    assert limits.too_large(read({**CONFIG, "study": study}), "cpu", 24 * GIB, 30) == []


LARGE = {  # a sweep of config.yaml with other options, and what is said of it
    "a pool in memory": (
        {"pool": {"train": 10**9, "val": 32, "test": 128}},
        r"the pool needs 2,304 GB of memory, and a job may take 17 GB; lower pool, H, V, B, or set memory_gb if",
    ),
    "a pool that takes years": (
        {"name": "H512", "pool": {"train": 10**8, "val": 1, "test": 1}},
        r"the pool takes about 129 days on a core, and longest_days is 30; lower pool, .*, or raise longest_days",
    ),
    "a known operator": (
        {"H": 128, "B": 128, "V": 256},
        r"the known operator needs 19 GB of memory, .*; lower H",
    ),
    "a normal matrix": ({"name": "H128-ridge", "V": 256}, r"the normal matrix needs 26 GB of memory"),
    "a Gram matrix": (
        {"name": "H512", "pool": {"train": 10**5, "val": 1, "test": 1}},
        r"the Gram matrix needs 272 GB of memory",
    ),
    "a fit in memory": (
        {"name": "H512", "N": [4, 20_000], "pool": {"train": 20_000, "val": 1, "test": 1}},
        r"the fit of fc with N = 20000 needs 55 GB of memory, .*; lower N, fc, ",
    ),
    "a fit that takes years": (
        {"ko": {"solver": "adagrad", "lr": 0.1, "iterations": 10**13, "batch": 4}},
        r"the fit of ko with N = 64 takes about .* days on a core, and longest_days is 30; lower N, ko, ",
    ),
    "ranks on one machine": (
        {"name": "H256", "archs": ["fc-fsdp"], "fsdp": {"ranks": 4, "iterations": 100}},
        r"the fit of fc-fsdp with N = 2048 on 4 ranks needs 1[5-9] GB of memory",
    ),
}


@pytest.mark.parametrize(("changes", "message"), LARGE.values(), ids=LARGE)
def test_a_job_that_is_too_large_says_what_it_needs_and_what_to_change(changes, message):
    found = wrong(memory=10e9 if "ranks" in message else 17e9, **changes)
    assert [text for text in found if re.match(rf"sweeps\.mine: {message}", text)], found


def test_a_gpu_takes_memory_and_time_off_the_host():
    fit = {"name": "H512", "N": [4, 16_000], "pool": {"train": 16_000, "val": 1, "test": 1}}
    assert len(wrong(**fit, gpu=False)) == 2
    assert wrong(**fit, gpu=True) == []
    assert wrong(**fit, gpu=True, device="cpu") == wrong(**fit, gpu=False)
    long = {"ko": {"solver": "adagrad", "lr": 0.1, "iterations": 10**9, "batch": 4}}
    assert re.search("takes about .* days on a core", wrong("H128", **long)[0])
    assert wrong("H128", **long, gpu=True) == []
    assert re.search("days on a GPU", wrong("H128", **long, gpu=True, days=0.5)[0])
    normal = {"name": "H128-ridge", "V": 256}
    assert wrong(**normal, memory=17e9, gpu=True) == wrong(**normal, memory=17e9)[:1]  # which no GPU computes


def test_a_run_stops_by_its_config(monkeypatch):
    pool = {"train": 10**7, "val": 32, "test": 128}
    study = [build("mine", {**CONFIG["sweeps"]["H8"], "archs": ["ko"], "pool": pool})]
    plain = Settings(study="mine", studies={}, sweeps={})
    monkeypatch.setattr(limits, "total_memory", lambda: 16 * GIB)
    monkeypatch.setattr(limits, "has_gpu", lambda: False)
    with pytest.raises(KoctError, match=r"^config: sweeps\.mine: the pool needs 23 GB of memory, .* take 17 GB;"):
        limits.check(study, plain, local=True)
    limits.check(study, replace(plain, memory_gb=32), local=True)
    limits.check(study, plain, local=False)
    with pytest.raises(KoctError, match="a job may take 16 GB"):
        limits.check(study, replace(plain, memory_gb=16), local=False)
    with pytest.raises(KoctError, match=r"longest_days is 0\.001"):
        limits.check(study, replace(plain, longest_days=0.001), local=False)
    monkeypatch.setattr(limits, "total_memory", lambda: None)
    limits.check(study, plain, local=True)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "1000000"}, 10**6),
        ("0::/not/mounted\n", {"memory.max": "5000"}, 5000),
        ("0::/\n4:cpu,memory:/x\n", {"memory/x/memory.limit_in_bytes": "3000"}, 3000),
        ("4:cpu:/x\n", {"memory/x/memory.limit_in_bytes": "3000"}, None),
    ],
)
def test_a_control_group_limits_the_memory_of_the_machine(tmp_path, groups, files, expected):
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert limits.total_memory(str(tmp_path)) == (expected or limits.total_memory(str(tmp_path / "none")))


# Rays that miss the image


def coverable(H):
    """One on every pixel that an ellipse can cover: centres lie within 0.5, half axes are below 0.4."""
    beyond = np.maximum(np.abs(np.linspace(-1, 1, H)) - 0.5, 0)
    return (np.hypot(beyond[:, None], beyond) < 0.4).astype(float)


def refused(H, V, B, rays="printed"):
    return list(FanBeamProblem(H=H, V=V, B=B, rays=rays).check([1], SMALL_SIZES))


def test_printed_rays_are_refused_exactly_if_they_see_nothing():
    count = 0
    for H in range(3, 65):
        for V in (1, 2, 3, 4, 5, 10, 33):
            for B in (H, 5, 100):
                seen = Projector(FanBeam(H, V, B), "printed")(np.stack([coverable(H), np.ones((H, H))]))
                found = refused(H, V, B)
                assert bool(found) == (not (seen[0] > 1e-9).any()), (H, V, B)
                assert found or seen[1].any()
                count += bool(found)
    assert count > 100
    for H in (4, 12, 16, 24):
        assert refused(H, 20, H)
        assert refused(H, 20, H, rays="exact") == []
    assert refused(32, 20, 32) == []
