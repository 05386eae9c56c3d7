"""Bad configs stop with a message that names the key and the fix; the docs and the code agree."""

import json
import os

import pytest
import yaml
from conftest import CONFIG, ROOT, TINY_SWEEP
from snakemake.io import get_wildcard_names

from koct.base import strict_yaml
from koct.config.study_file import document, read, settings
from koct.contracts import registry
from koct.errors import KoctError
from koct.workflow import resources
from koct.workflow.jobs import Jobs

BAD = [  # changes of the sweep H8: (entry, the key, its value or the fix)
    ({"lamdas": [1.0]}, "lamdas", "'lambdas'?"),
    ({"rays": "exact"}, "rays", "not a key"),
    ({"N": [4, 300]}, "N = 300", "pool.train = 256; make the pool larger"),
    ({"seeds": []}, "seeds = []", "at least 1"),
    ({"lambdas": [0.0, 1.0]}, "lambdas[0] = 0.0", "greater than 0"),
    ({"lambdas": ["1e-6"]}, "lambdas[0] = '1e-6'", "write 1.0e-6"),
    ({"N": [4, 8.5]}, "N[1] = 8.5", "whole number"),
    ({"N": [4, 8, "frsh"]}, "N[2] = 'frsh'", "whole number"),
    ({"N": [4, "fresh"]}, "N has fewer than two sizes", "add some"),
    ({"archs": ["unet"], "unet": {"schedule": "warmup-stable-decay"}}, "unet.schedule", "set validation to split"),
    ({"seeds": 5}, "seeds = 5", "list"),
    ({"ko": {"solver": "newton"}}, "ko.solver = 'newton'", "'adam'"),
    ({"archs": ["fc-fsdp"], "fsdp": {"ranks": 2}}, "fsdp.iterations", "missing; add it"),
    ({"archs": ["ko", "cnn"]}, "archs[1] = 'cnn'", ", untrained, or a Python file"),
    ({"metric": "mae"}, "metric = 'mae'", "must be one of mse"),
    ({"metric": "psnr"}, "metric = 'psnr'", "take one of"),
    ({"N": [4, 4]}, "N = [4, 4]", "remove one"),
    ({"tikhonov": float("nan")}, "tikhonov = nan", "finite"),
    ({"seeds": [3_000_000_000]}, "seeds[0] = 3000000000", "2147483647"),
    ({"B": 9}, "B = 9", "must equal H = 8"),
    ({"V": 10**400}, "V = 1000", "9223372036854775807"),
    ({"archs": ["ko", f"mine/{'a' * 65}.py"]}, "archs[1] = 'mine/aaa", "64 at most"),
    ({"archs": ["my net.py"]}, "archs[0] = 'my net.py'", "rename it"),
]
BAD_TOP = [
    ({"stduy": 1}, "stduy", "'study'?"),
    ({"device": "gpu"}, "device = 'gpu'", "'cuda'"),
    ({"longest_days": 0}, "longest_days = 0", "greater than 0"),
    ({"sweeps": None}, "sweeps = None", "mapping"),
    ({"studies": {"mine": ["H8", "H8"]}}, "studies.mine", "remove one"),
    ({"sweeps": {**CONFIG["sweeps"], "a/b": CONFIG["sweeps"]["H8"]}}, "sweeps: the name 'a/b'", "rename it"),
    ({"study": "papr"}, "study = 'papr'", "known studies are surrogate"),
    ({"studies": {**CONFIG["studies"], "mine": ["H9"]}}, "studies.mine has 'H9'", "known sweeps are"),
    ({"studies": {**CONFIG["studies"], 1: ["H8"]}}, "studies: the name 1", "rename it"),
]


def changed(entry, without=()):
    """config.yaml with another sweep H8."""
    H8 = {key: value for key, value in CONFIG["sweeps"]["H8"].items() if key not in without}
    return {**CONFIG, "sweeps": CONFIG["sweeps"] | {"H8": H8 | entry}}


CASES = [(changed(entry), f"sweeps.H8.{key}", fix) for entry, key, fix in BAD]
for key in ("H", "tikhonov", "pool", "N", "seeds", "archs", "metric", "problem"):
    CASES.append((changed({}, [key]), f"sweeps.H8.{key} is missing", "add it: "))


@pytest.mark.parametrize(("entry", "key", "fix"), [*CASES, *BAD_TOP])
def test_a_bad_entry_is_named_with_its_fix(entry, key, fix):
    with pytest.raises(KoctError) as caught:
        read({**CONFIG, **entry})
    assert any(f"config: {key}" in text and fix in text for text in str(caught.value).splitlines())


def test_all_mistakes_are_listed_at_once():
    config = changed({"one": 1, "two": 2, "H": -8, "ko": {"lr": 0}}, ["N"])
    config["sweeps"]["H16"] = {**config["sweeps"]["H16"], "seeds": []}
    with pytest.raises(KoctError) as caught:
        read(config)
    keys = ("H8.one", "H8.two", "H8.H", "H8.ko.lr", "H8.N", "H16.seeds")
    assert [str(caught.value).count(f"config: sweeps.{key} ") for key in keys] == [1] * 6
    assert len(str(caught.value).splitlines()) == 6


def test_an_architecture_that_needs_torch_says_so_before_any_job(monkeypatch):
    fsdp = {"archs": ["fc", "fc-fsdp"], "fsdp": {"ranks": 2, "iterations": 9}}

    def check(sweep, **how):
        resources.check(read(changed(sweep)), settings(CONFIG), local=False, **how)

    monkeypatch.setattr(resources, "find_spec", lambda name: None)
    with pytest.raises(KoctError, match=r"sweeps\.H8\.fsdp: the architecture fc-fsdp needs torch, .*; install it"):
        check(fsdp)
    check(fsdp, deployed=True)  # its jobs have packages of their own
    check({"fsdp": fsdp["fsdp"]})  # which no cell uses
    monkeypatch.setattr(resources, "find_spec", lambda name: True)
    check(fsdp)


def test_the_workflow_stops_before_any_job(checkout):
    copy_of_repo = checkout(changed({"typo": 1, "lambdas": ["1e-6"]}))
    done = copy_of_repo.snakemake(check=False)
    assert done.returncode == 1
    assert done.stderr.count("config: sweeps.H8.") == 2
    assert "Traceback" not in done.stderr
    assert not copy_of_repo.path("results").exists()


def test_no_label_study_or_path_is_taken_for_a_wildcard(folder):
    """Nor is a label too long for a table."""
    text = (ROOT / "koct/commands/study/network.py").read_text()
    (folder / "{sweep}").mkdir()
    (folder / "{sweep}/net.py").write_text(text.replace("random features", "$L_{1}$ net"))
    sweep = {**TINY_SWEEP, "archs": ["ko", "fc", "{sweep}/net.py"]}
    study = {"study": "{sweep}", "studies": {"{sweep}": ["T4"]}, "sweeps": {"T4": sweep}}
    jobs = Jobs(study)
    for spec in (jobs.study_spec(), jobs.report_spec("calibrate"), jobs.crate_spec(study["study"])):
        assert not get_wildcard_names(spec)
    assert "$L_{1}$ net" in str(json.loads(jobs.study_spec())["sweeps"])
    (folder / "{sweep}/net.py").write_text(text.replace("random features", "a" * 10**6))
    registry.import_file.cache_clear()
    registry._load.cache_clear()
    with pytest.raises(KoctError, match=r"archs: the label of .*net\.py must be a text of at most 1000 letters"):
        Jobs(study)


def test_sweeps_that_differ_in_views_alone_are_told_apart_by_them():
    labels = {
        study: [sweep["label"] for sweep in json.loads(Jobs({**CONFIG, "study": study}).study_spec())["sweeps"]]
        for study in ("full", "labels")
    }
    fan = "fan beam, analytic rays, 10,000 photons"
    assert labels["labels"][1::2] == [f"{fan}, 60 views", f"{fan}, 30 views"]
    assert not any("views, " in label or label.endswith(" views") for label in labels["full"])


def test_the_documentation_is_made_from_the_code():
    assert (ROOT / "docs/config.md").read_text() == document(), "run: koct config > docs/config.md"


# Traps of YAML itself

BOMBS = ["".join(f"a{i}: &a{i} {{{key}: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 30)) for key in ("<<", "x")]
TRAPS = [  # (text, the line, words of the sentence)
    ("a: 1\nb: {c: 2}\na: 3", 3, "a is there twice, first in line 1; remove"),
    ("s:\n  N: 1\n  'N': 2", 3, "N is there twice, first in line 2"),
    ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", 2, "write `<<: [*one, *other]`"),
    ("a: [1, 010]", 1, "reads 010 otherwise"),
    ("a: {010: 1}", 1, "reads 010 otherwise"),
    ("a: 1:30.5", 1, "reads 1:30.5 otherwise"),
    ("a: 2024-13-45", None, "month must be in 1..12"),
    ("a: 0x_", None, "cannot be read"),
    ("- 1", None, "must have keys at its top level"),
    ("a: 1\n---\nb: 2", None, "at line 2, column 1"),
    ("a:\n\t- 1", None, "indent with spaces"),
    ("a: *b", None, "at line 1, column 4: found undefined alias"),
    ("a: !!python/name:os.system", None, "could not determine a constructor"),
    ("? [1]\n: 2", None, "found unhashable key"),
    *((f"a0: &a0 {{x: 1}}\n{bomb}", None, "when all its aliases are followed; write at") for bomb in BOMBS),
]
NO_TRAPS = [
    "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*a, {x: 4}], z: [*a, *a]}\nd: {<<: *b, x: 5}",
    "a: ['010', \"1:00\", 0, 0x10, 0b1, 0.5, -0.5, 1_000, 00.5, 12:99, 1e-6, .inf, 2024-01-02]",
    "\ufeffa: ä\nb%: 1",
    '{"a": 1, "b": [2.5, null, true]}',
    "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, y{i}: 2}}\n" for i in range(1, 99)),
    (ROOT / "config.yaml").read_text(),
]


def test_a_trap_is_named_with_its_line_and_fix_and_what_is_none_is_read_as_ever(tmp_path):
    path = tmp_path / "mine.yaml"
    for text, line, words in TRAPS:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(KoctError) as caught:
            strict_yaml.load(path)
        assert str(caught.value).startswith(f"{path}, line {line}: " if line else f"{path} ")
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    for text in NO_TRAPS:
        path.write_text(text, encoding="utf-8")
        assert strict_yaml.load(path) == yaml.safe_load(text)


def test_all_traps_of_all_files_are_listed_at_once_and_the_shipped_files_have_none(tmp_path):
    one, latin, absent = (tmp_path / name for name in ("one.yaml", "latin.yaml", "absent.yaml"))
    one.write_text("a: 010\nb: 1\nb: 2")
    latin.write_bytes("a: 1\nb: Schräg".encode("latin-1"))
    shipped = [ROOT / "docs/network.yaml", *ROOT.glob("docs/*/config.yaml"), *ROOT.glob("profiles/*/config.yaml")]
    strict_yaml.check_files(shipped)
    with pytest.raises(KoctError) as caught:
        strict_yaml.check_files([one, *shipped, latin, absent, absent, tmp_path, os.devnull])
    starts = [f"{one}, line 1: ", f"{one}, line 3: ", f"{latin}, line 2 ", f"{absent} ", f"{tmp_path} "]
    lines = str(caught.value).splitlines()
    assert [start for start in starts for line in lines if line.startswith(start)] == starts
    assert len(lines) == len(starts)
