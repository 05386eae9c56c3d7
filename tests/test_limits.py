"""What jobs ask for, and that a study that no machine could finish, or learn from, stops before the first job."""

import importlib.util
import itertools
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import CONFIG, SMALL_FANBEAM

from koct.config.study_file import Settings, build, read
from koct.contracts import Sizes
from koct.errors import KoctError
from koct.operators.fanbeam import FanBeam, Projector
from koct.problems.fanbeam import FanBeamProblem
from koct.workflow import resources

GIB = 2**30


def wrong(name="H8", memory=24 * GIB, days=30, device="auto", gpu=False, **changes):
    """What is said of a sweep of config.yaml with other options."""
    return resources.too_large([build("mine", {**CONFIG["sweeps"][name], **changes})], device, memory, days, gpu)


@pytest.mark.parametrize("study", sorted(CONFIG["studies"].keys() - {"fsdp"}))  # which is for several GPUs
def test_every_study_fits_a_machine_of_24_gib(study):
    data = [CONFIG["sweeps"][name].get("data") for name in CONFIG["studies"][study]]
    if missing := [path for path in data if path and path != "ellipses" and not os.path.exists(path)]:
        pytest.skip(f"{missing[0]} is not installed")
    assert resources.too_large(read({**CONFIG, "study": study}), "cpu", 24 * GIB, 30) == []


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


def test_a_torch_network_may_take_a_gpus_time_whatever_its_problem():
    long = {"archs": ["unet"], "unet": {"steps": 10**8}}
    (said,) = wrong(days=10, **long)
    assert re.search(r"the fit of unet with N = 64 takes about [\d,]+ days on a core", said)
    assert wrong(days=10, gpu=True, **long) == []


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
    monkeypatch.setattr(resources, "total_memory", lambda: 16 * GIB)
    monkeypatch.setattr(resources, "has_gpu", lambda: False)
    with pytest.raises(KoctError, match=r"^config: sweeps\.mine: the pool needs 23 GB of memory, .* take 17 GB;"):
        resources.check(study, plain, local=True)
    resources.check(study, replace(plain, memory_gb=32), local=True)
    resources.check(study, plain, local=False)
    with pytest.raises(KoctError, match="a job may take 16 GB"):
        resources.check(study, replace(plain, memory_gb=16), local=False)
    with pytest.raises(KoctError, match=r"longest_days is 0\.001"):
        resources.check(study, replace(plain, longest_days=0.001), local=False)
    monkeypatch.setattr(resources, "total_memory", lambda: None)
    resources.check(study, plain, local=True)


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
    assert resources.total_memory(str(tmp_path)) == (expected or resources.total_memory(str(tmp_path / "none")))


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


# What a cluster is asked for, as a dry run with the SLURM profile shows it; needs no SLURM

WIDE = {**CONFIG["sweeps"]["H8"], "H": 64, "V": 80, "B": 64, "N": [4, 8], "seeds": [1], "archs": ["ko", "fc"]}
FANBEAM = {**SMALL_FANBEAM["sweeps"]["F32"], "N": [4, 16], "seeds": [1]}
SWEEPS = {"H64": WIDE, "F32": FANBEAM}
MEAN = '''"""The mean image of the training set, whatever is measured; it does not say what it costs."""

from koct.contracts import Architecture, Network


class Mean(Architecture):
    def fit(self, data):
        yield None, MeanNetwork(data.y.mean(axis=0))

    def restore(self, state, data):
        return MeanNetwork(state["image"])


class MeanNetwork(Network):
    def __init__(self, image):
        self.image = image

    def predict(self, x):
        return x[:, :1] * 0 + self.image

    def state(self):
        return vars(self)
'''


def request(cost, on_gpu=False):
    """(MB, minutes)"""
    return resources.mem_mb(cost), resources.minutes(cost, on_gpu)


def costs(name):
    """What the jobs of a sweep cost, by stage and N."""
    sweep = build(name, CONFIG["sweeps"][name])
    found = {stage: getattr(resources, stage)(sweep) for stage in ("pool", "gram", "recons")}
    for stage in (resources.fit, resources.evaluate):
        found |= {(stage.__name__, arch.name, N): stage(sweep, arch, N) for arch in sweep.networks for N in sweep.N}
    return found


def test_requests_grow_with_the_cell():
    sizes = [costs(name) for name in ("H128", "H256", "H512")]
    assert len(sizes[0]) == 3 + 2 * 2 * 6
    for job in sizes[0]:
        asked = [request(size[job]) for size in sizes]
        assert asked == sorted(asked)
    largest = sizes[-1]
    for stage in ("fit", "evaluate"):
        small, large = (resources.mem_mb(largest[stage, "fc", N]) for N in (4, 2048))
        assert small < large < 16_000
    measured = {"pool": (240, 290), "gram": (24, 1600), ("fit", "ko", 2048): (600, 4300)}  # on one CPU core
    for job, (seconds, mb) in {**measured, ("fit", "fc", 2048): (48, 4300)}.items():
        assert resources.minutes(largest[job]) * 60 > 2 * seconds
        assert resources.mem_mb(largest[job]) > 1.5 * mb


@pytest.fixture(autouse=True)
def any_torch(monkeypatch):
    """These GPUs are asked for, and not used: a torch without CUDA will do."""
    monkeypatch.setenv("KOCT_ALLOW_CPU", "1")


def asked(checkout, sweeps, *arguments):
    """(partition, MB, minutes, GPUs) of every job of a dry run by its first output file, and its input files."""
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="no SLURM plugin here: run make slurm")
    run = checkout({"study": "s", "studies": {"s": list(sweeps)}, "sweeps": sweeps})
    run.write("mine/mean.py", MEAN)
    for path in run.path("rules").glob("*.smk"):  # a job with a message of its own shows nothing else
        path.write_text(re.sub(r'    message:\n(        ".*"\n)+', "", path.read_text()))
    done = run.snakemake("--profile", "slurm", "--dry-run", "--config", "study=s", *arguments)
    found, inputs = {}, {}
    for text in re.split(r"^ *(?:local)?rule \w+:$", done.stdout, flags=re.M)[1:]:
        job = dict(re.findall(r"^ +(input|output|resources): (.*)$", text, re.M))
        if "output" in job:
            output = re.split(r"[, ]", job["output"])[0].removeprefix("results/")
            values = dict(re.findall(r"(\w+)=([^,]+)", job["resources"]))
            numbers = (int(values.get(key, 0)) for key in ("mem_mb", "runtime", "gpu"))
            found[output], inputs[output] = (values["slurm_partition"], *numbers), job.get("input", "").split(", ")
    assert len(found) > 10
    return found, inputs


def expected(name, partition, gpus):
    """The large jobs of a sweep."""
    sweep = build(name, SWEEPS[name])
    found = {}
    for arch in sweep.archs:
        for N in sweep.sizes_of(arch) if not resources.cheap_curve(sweep, arch) else ():
            row = f"cells/{name}/{arch.name}/N{N}_seed1.json"
            found[row] = (partition, *request(resources.fit(sweep, arch, N), gpus), gpus)
    return found


def test_large_jobs_go_where_their_problem_computes(checkout):
    """One study of both: a problem for the CPU alone asks for no GPU, however large it is."""
    found, _ = asked(checkout, SWEEPS)
    on_cpu, on_gpu = expected("H64", "cpu", 0), expected("F32", "gpu", 1)
    assert len(on_cpu) == 2
    assert all(output.startswith("cells/H64/ko/") for output in on_cpu)
    assert len(on_gpu) == 5
    fanbeam = build("F32", FANBEAM)
    large = dict.fromkeys(["pools/F32/seed1.npy", "pools/F32/seed101.npy"], resources.pool(fanbeam))
    large |= {"grams/F32/seed1.npy": resources.gram(fanbeam), "fig_recons_F32.pdf": resources.recons(fanbeam)}
    large |= {"theory/F32/fc.json": resources.theory(fanbeam, fanbeam.arch("fc"))}
    on_gpu |= {output: ("gpu", *request(cost, on_gpu=True), 1) for output, cost in large.items()}
    assert {output: found[output] for output in on_cpu | on_gpu} == on_cpu | on_gpu
    others = {output: request for output, request in found.items() if output not in on_cpu | on_gpu}
    assert {(partition, gpus) for partition, _, _, gpus in others.values()} == {("cpu", 0)}
    assert others["cells/H64/fc/N4_seed1.json"] == ("cpu", 2000, 1, 0)  # a cheap fit asks for nothing special
    H64 = build("H64", WIDE)
    assert others["known/H64.npy"] == ("cpu", *request(resources.shared(H64)), 0)
    assert "normal/H64.npy" not in found  # it comes with the known operator
    assert request(resources.fit(H64, H64.arch("ko"), 8)) > (3500, 3)  # it is large
    found, _ = asked(checkout, {"F32": FANBEAM}, "device=cpu")  # without GPUs
    assert {(partition, gpus) for partition, _, _, gpus in found.values()} == {("cpu", 0)}
    assert found["cells/F32/ko/N16_seed1.json"] == expected("F32", "cpu", 0)["cells/F32/ko/N16_seed1.json"]


def test_a_torch_network_goes_to_a_gpu_whatever_its_problem_and_other_jobs_of_the_sweep_do_not(checkout):
    pytest.importorskip("torch", reason="torch is not installed: unet needs it")
    unet = {"steps": 20_000, "channels": 8, "levels": 2}
    sweeps = {"H64": {**WIDE, "archs": ["ko", "unet"], "unet": unet}}
    found, _ = asked(checkout, sweeps)
    assert {job[::3] for output, job in found.items() if "/unet/" in output} == {("gpu", 1)}
    assert {job[::3] for output, job in found.items() if "/unet/" not in output} == {("cpu", 0)}
    run = checkout({"study": "s", "studies": {"s": ["H64"]}, "sweeps": sweeps})
    text = run.snakemake("--profile", "slurm", "--dry-run", "--config", "study=s").stdout
    assert re.search(r"^ +\d+ to cpu, each: 1 core, \d", text, re.M)
    assert re.search(r"^ +\d+ to gpu, each: 1 core, 1 GPU, ", text, re.M)


def test_a_dry_run_names_fits_that_travel_alone(checkout):
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="no SLURM plugin here: run make slurm")
    pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")
    fsdp = {**FANBEAM, "archs": ["fc-fsdp"], "fsdp": {"ranks": 4, "nodes": 2, "iterations": 10}}
    run = checkout({"study": "s", "studies": {"s": ["F32"]}, "sweeps": {"F32": fsdp}})
    text = run.snakemake("--profile", "slurm", "--dry-run", "--config", "study=s").stdout
    assert f"{len(fsdp['N']) * len(fsdp['seeds']):3d} to gpu, each: 2 nodes, 4 cores, 4 GPUs, " in text


def test_unknown_costs_are_an_hour_and_8_gb_and_a_fit_waits_for_the_fit_that_it_reads(checkout):
    mean = ["mine/mean.py"]
    ridge = {**FANBEAM, "archs": ["ko"], "ko": {"solver": "ridge"}}
    sweeps = {"H64": {**WIDE, "archs": mean}, "F32": {**FANBEAM, "archs": mean}, "ridge": ridge}
    if torch := importlib.util.find_spec("torch"):  # which fc-fsdp needs
        sweeps["fsdp"] = {**FANBEAM, "archs": ["fc-fsdp"], "fsdp": {"ranks": 2, "iterations": 10}}
    found, inputs = asked(checkout, sweeps)
    assert found["cells/H64/mean/N4_seed1.json"] == ("cpu", 8000, 60, 0)
    assert found["cells/F32/mean/N4_seed1.json"] == ("gpu", 8000, 60, 1)
    assert found["normal/ridge.npy"] == ("cpu", *request(resources.normal(build("ridge", ridge))), 0)
    assert found["cells/ridge/ko/N4_seed1.json"][0] == "gpu"
    if torch:
        read = inputs["fits/fsdp/fc-fsdp/N16_seed1.npy"]
        assert "results/fits/fsdp/fc/N16_seed1.npy" in read
        assert not [path for path in read if path.startswith("results/cells")]
