"""Studies that no machine could finish, and options with which nothing could be learned, stop before the first job."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import CONFIG

from koct.config.study_file import Settings, build, read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.fanbeam import FanBeam, Projector
from koct.problems.fanbeam import FanBeamProblem
from koct.workflow import limits

GIB = 2**30


def wrong(name="H8", memory=24 * GIB, days=30, device="auto", gpu=False, **changes):
    """What is said of a sweep of config.yaml with other options."""
    return limits.too_large([build("mine", {**CONFIG["sweeps"][name], **changes})], device, memory, days, gpu)


@pytest.mark.parametrize("study", CONFIG["studies"])
def test_every_study_fits_a_machine_of_24_gib(study):
    assert limits.too_large(read({**CONFIG, "study": study}), "cpu", 24 * GIB, 30) == []


def pool(train):
    return {"train": train, "val": 1, "test": 1}


LONG = {"solver": "adagrad", "lr": 0.1, "iterations": 10**13, "batch": 4}
FSDP = {"archs": ["fc-fsdp"], "fsdp": {"ranks": 4, "iterations": 100}, "memory": 10e9}
LARGE = [  # a sweep of config.yaml, its other options, and what is said of it
    ("H8", {"pool": pool(10**9)}, "the pool needs 2,304 GB of memory, and a job may take 17 GB; lower pool, H, V, B,"),
    ("H512", {"pool": pool(10**8)}, "the pool takes about 129 days .*, and longest_days is 30; lower pool, .* raise"),
    ("H8", {"H": 128, "B": 128, "V": 256}, "the known operator needs 19 GB of memory, .*; lower H"),
    ("H128-ridge", {"V": 256}, "the normal matrix needs 26 GB of memory"),
    ("H512", {"pool": pool(10**5)}, "the Gram matrix needs 272 GB of memory"),
    ("H512", {"N": [4, 20_000], "pool": pool(20_000)}, "the fit of fc with N = 20000 needs 55 GB .*; lower N, fc, "),
    ("H8", {"ko": LONG}, "the fit of ko with N = 64 takes about .* days on a core, .*; lower N, ko, "),
    ("H256", FSDP, "the fit of fc-fsdp with N = 2048 on 4 ranks needs 1[5-9] GB of memory"),
]


@pytest.mark.parametrize(("name", "changes", "message"), LARGE)
def test_a_job_that_is_too_large_says_what_it_needs_and_what_to_change(name, changes, message):
    found = wrong(name, **{"memory": 17e9, **changes})
    assert [text for text in found if re.match(rf"sweeps\.mine: {message}", text)], found


def test_a_gpu_takes_memory_and_time_off_the_host():
    fit = {"name": "H512", "N": [4, 16_000], "pool": pool(16_000)}
    assert len(wrong(**fit, gpu=False)) == 2
    assert wrong(**fit, gpu=True) == []
    assert wrong(**fit, gpu=True, device="cpu") == wrong(**fit, gpu=False)
    long = {"ko": {**LONG, "iterations": 10**9}}
    assert re.search("takes about .* days on a core", wrong("H128", **long)[0])
    assert wrong("H128", **long, gpu=True) == []
    assert re.search("days on a GPU", wrong("H128", **long, gpu=True, days=0.5)[0])
    normal = {"name": "H128-ridge", "V": 256}
    assert wrong(**normal, memory=17e9, gpu=True) == wrong(**normal, memory=17e9)[:1]  # which no GPU computes


def test_a_run_stops_by_its_config(monkeypatch):
    study = [build("mine", {**CONFIG["sweeps"]["H8"], "archs": ["ko"], "pool": pool(10**7)})]
    plain = Settings(study="mine", studies={}, sweeps={})
    monkeypatch.setattr(limits, "machine_memory", lambda: 16 * GIB)
    monkeypatch.setattr(limits, "has_gpu", lambda: False)
    with pytest.raises(KoctError, match=r"^config: sweeps\.mine: the pool needs 23 GB of memory, .* take 17 GB;"):
        limits.check(study, plain, local=True)
    limits.check(study, replace(plain, memory_gb=32), local=True)
    limits.check(study, plain, local=False)
    with pytest.raises(KoctError, match="a job may take 16 GB"):
        limits.check(study, replace(plain, memory_gb=16), local=False)
    with pytest.raises(KoctError, match=r"longest_days is 0\.001"):
        limits.check(study, replace(plain, longest_days=0.001), local=False)
    monkeypatch.setattr(limits, "machine_memory", lambda: None)
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
    assert limits.machine_memory(str(tmp_path)) == (expected or limits.machine_memory(str(tmp_path / "none")))


def test_printed_rays_are_refused_exactly_if_they_see_nothing():
    """Nothing that an ellipse can cover: centres lie within 0.5, half axes are below 0.4."""

    def refused(H, V, B, rays="printed"):
        return bool([*FanBeamProblem(H=H, V=V, B=B, rays=rays).check([1], Sizes(**pool(1)))])

    found = set()
    for H, V, B in itertools.product(range(3, 65), (1, 2, 3, 4, 5, 10, 33), (0, 5, 100)):
        beyond = np.maximum(np.abs(np.linspace(-1, 1, H)) - 0.5, 0)
        coverable = (np.hypot(beyond[:, None], beyond) < 0.4).astype(float)
        seen = Projector(FanBeam(H, V, B or H), "printed")(np.stack([coverable, np.ones((H, H))]))
        assert refused(H, V, B or H) == (not (seen[0] > 1e-9).any()), (H, V, B)
        assert refused(H, V, B or H) or seen[1].any()
        found |= {(H, V, B)} if refused(H, V, B or H) else set()
    assert len(found) > 100
    for H in (4, 12, 16, 24):
        assert refused(H, 20, H)
        assert not refused(H, 20, H, rays="exact")
    assert not refused(32, 20, 32)
