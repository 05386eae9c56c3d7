"""Bad configs stop with a message that names the key and the fix; the docs and the code agree."""

import copy
import os

import pytest
import yaml
from conftest import ROOT

from koct.base import strict_yaml
from koct.config.study_file import document, read
from koct.errors import KoctError

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
BAD = {  # changes of the sweep H8: (entry, the key, its value or the fix)
    "unknown key": ({"lamdas": [1.0]}, "lamdas", "'lambdas'?"),
    "option of another problem": ({"rays": "exact"}, "rays", "not a key"),
    "N above the pool": ({"N": [4, 300]}, "N = 300", "pool.train = 256; make the pool larger"),
    "empty seeds": ({"seeds": []}, "seeds = []", "at least 1"),
    "lambda zero": ({"lambdas": [0.0, 1.0]}, "lambdas[0] = 0.0", "greater than 0"),
    "text for a number": ({"lambdas": ["1e-6"]}, "lambdas[0] = '1e-6'", "write 1.0e-6"),
    "a fraction": ({"N": [4, 8.5]}, "N[1] = 8.5", "whole number"),
    "a number for a list": ({"seeds": 5}, "seeds = 5", "list"),
    "unknown choice": ({"ko": {"solver": "newton"}}, "ko.solver = 'newton'", "'adam'"),
    "missing option": ({"archs": ["fc-fsdp"], "fsdp": {"ranks": 2}}, "fsdp.iterations", "missing; add it"),
    "unknown arch": ({"archs": ["ko", "cnn"]}, "archs[1] = 'cnn'", ", untrained, or a Python file"),
    "unknown metric": ({"metric": "mae"}, "metric = 'mae'", "must be one of mse"),
    "a score": ({"metric": "psnr"}, "metric = 'psnr'", "take one of"),
    "the same N twice": ({"N": [4, 4]}, "N = [4, 4]", "remove one"),
    "not a number": ({"tikhonov": float("nan")}, "tikhonov = nan", "finite"),
    "a huge seed": ({"seeds": [3_000_000_000]}, "seeds[0] = 3000000000", "2147483647"),
    "B unlike H": ({"B": 9}, "B = 9", "must equal H = 8"),
    "too many digits": ({"V": 10**400}, "V = 1000", "9223372036854775807"),
    "a long file name": ({"archs": ["ko", f"mine/{'a' * 65}.py"]}, "archs[1] = 'mine/aaa", "64 at most"),
    "a file name with a space": ({"archs": ["my net.py"]}, "archs[0] = 'my net.py'", "rename it"),
    "a group of sizes": ({"pool": {"train": 256, "val": 32, "tests": 1}}, "pool.tests", "'test'?"),
}
H8 = CONFIG["sweeps"]["H8"]
BAD_TOP = {
    "unknown key": ({"stduy": 1}, "stduy", "'study'?"),
    "unknown device": ({"device": "gpu"}, "device = 'gpu'", "'cuda'"),
    "no days": ({"longest_days": 0}, "longest_days = 0", "greater than 0"),
    "no sweeps": ({"sweeps": None}, "sweeps = None", "mapping"),
    "empty study": ({"studies": {"mine": []}}, "studies.mine = []", "at least 1"),
    "a sweep twice": ({"studies": {"mine": ["H8", "H8"]}}, "studies.mine", "remove one"),
    "a slash in a name": ({"sweeps": {**CONFIG["sweeps"], "a/b": H8}}, "sweeps: the name 'a/b'", "rename it"),
    "a long name": ({"sweeps": {**CONFIG["sweeps"], "n" * 65: H8}}, "sweeps: the name 'nnn", "64"),
    "unknown study": ({"study": "papr"}, "study = 'papr'", "known studies are surrogate"),
    "unknown sweep": ({"studies": {**CONFIG["studies"], "mine": ["H9"]}}, "studies.mine has 'H9'", "known sweeps are"),
    "a number for a name": ({"studies": {**CONFIG["studies"], 1: ["H8"]}}, "studies: the name 1", "rename it"),
}


def changed(entry):
    config = copy.deepcopy(CONFIG)
    config["sweeps"]["H8"].update(entry)
    return config


@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_is_named_with_its_fix(name):
    entry, key, fix = BAD[name]
    with pytest.raises(KoctError) as caught:
        read(changed(entry))
    assert any(f"config: sweeps.H8.{key}" in text and fix in text for text in str(caught.value).splitlines())


@pytest.mark.parametrize("name", BAD_TOP)
def test_a_bad_key_at_the_top_is_named_with_its_fix(name):
    entry, key, fix = BAD_TOP[name]
    config = {**CONFIG, **entry}
    with pytest.raises(KoctError) as caught:
        read(config)
    assert any(f"config: {key}" in text and fix in text for text in str(caught.value).splitlines())


@pytest.mark.parametrize("key", ["H", "tikhonov", "pool", "N", "seeds", "archs", "lambdas", "metric", "problem"])
def test_what_is_missing_is_named(key):
    config = copy.deepcopy(CONFIG)
    del config["sweeps"]["H8"][key]
    with pytest.raises(KoctError, match=rf"sweeps\.H8\.{key} is missing; add it: \w+"):
        read(config)


def test_all_mistakes_are_listed_at_once():
    config = changed({"one": 1, "two": 2, "H": -8, "ko": {"lr": 0}})
    del config["sweeps"]["H8"]["N"]
    config["sweeps"]["H16"]["seeds"] = []
    with pytest.raises(KoctError) as caught:
        read(config)
    keys = ("H8.one", "H8.two", "H8.H", "H8.ko.lr", "H8.N", "H16.seeds")
    assert [str(caught.value).count(f"config: sweeps.{key} ") for key in keys] == [1] * 6
    assert len(str(caught.value).splitlines()) == 6


def test_an_architecture_that_needs_torch_says_so_before_any_job(monkeypatch):
    fsdp = {"archs": ["fc", "fc-fsdp"], "fsdp": {"ranks": 2, "iterations": 9}}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != "torch" or None)
    with pytest.raises(KoctError, match=r"sweeps\.H8\.fsdp: the architecture fc-fsdp needs torch, .*; install it"):
        read(changed(fsdp))
    read(changed({"fsdp": fsdp["fsdp"]}))  # which no cell uses
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    read(changed(fsdp))


def test_the_workflow_stops_before_any_job(checkout):
    copy_of_repo = checkout()
    copy_of_repo.path("config.yaml").write_text(yaml.safe_dump(changed({"typo": 1, "lambdas": ["1e-6"]})))
    done = copy_of_repo.snakemake(check=False)
    assert done.returncode == 1
    assert done.stderr.count("config: sweeps.H8.") == 2
    assert "Traceback" not in done.stderr
    assert not copy_of_repo.path("results").exists()


# The page


def test_the_documentation_is_made_from_the_code():
    assert (ROOT / "docs/config.md").read_text() == document(), "run: koct config > docs/config.md"


# Traps of YAML itself

TRAPS = {  # what it says: (text, the line, words of the sentence)
    "a key twice": ("a: 1\nb: {c: 2}\na: 3", 3, "a is there twice, first in line 1; remove"),
    "a key twice below": ("s:\n  N: 1\n  'N': 2", 3, "N is there twice, first in line 2"),
    "two merges": ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", 2, "write `<<: [*one, *other]`"),
    "octal": ("a: [1, 010]", 1, "reads 010 otherwise"),
    "an octal key": ("a: {010: 1}", 1, "reads 010 otherwise"),
    "base 60": ("a: 1:30.5", 1, "reads 1:30.5 otherwise"),
    "a day that is none": ("a: 2024-13-45", None, "month must be in 1..12"),
    "no digit": ("a: 0x_", None, "cannot be read"),
    "a list": ("- 1", None, "must have keys at its top level"),
    "nothing": ("# only a comment", None, "must have keys at its top level"),
    "two documents": ("a: 1\n---\nb: 2", None, "at line 2, column 1"),
    "a tab": ("a:\n\t- 1", None, "indent with spaces"),
    "a control character": ("a: 1\nb: \x07", None, "characters are not allowed"),
    "no such alias": ("a: *b", None, "at line 1, column 4: found undefined alias"),
    "a Python object": ("a: !!python/name:os.system", None, "could not determine a constructor"),
    "a key that is a list": ("? [1]\n: 2", None, "found unhashable key"),
}


@pytest.mark.parametrize(("text", "line", "words"), TRAPS.values(), ids=TRAPS)
def test_a_trap_is_named_with_its_line_and_fix(tmp_path, text, line, words):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KoctError) as caught:
        strict_yaml.load(path)
    assert str(caught.value).startswith(f"{path}, line {line}: " if line else f"{path} ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*a, {x: 4}], z: [*a, *a]}\nd: {<<: *b, x: 5}",
        "a: ['010', \"1:00\", 0, 0x10, 0b1, 0.5, -0.5, 1_000, 00.5, 12:99, 1e-6, .inf, 2024-01-02]",
        "\ufeffa: ä\nb%: 1",
        '{"a": 1, "b": [2.5, null, true]}',
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, y{i}: 2}}\n" for i in range(1, 99)),
    ],
)
def test_what_is_no_trap_is_read_as_ever(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert strict_yaml.load(path) == yaml.safe_load(text)


def test_the_shipped_files_have_no_traps():
    files = [ROOT / "config.yaml", ROOT / "docs/network.yaml", *ROOT.glob("docs/*/config.yaml")]
    strict_yaml.check_files([*files, *(ROOT / "profiles").glob("*/config.yaml")])
    assert strict_yaml.load(ROOT / "config.yaml") == CONFIG


def test_all_traps_of_all_files_are_listed_at_once(tmp_path):
    one, two, latin, absent = (tmp_path / name for name in ("one.yaml", "two.yaml", "latin.yaml", "absent.yaml"))
    one.write_text("a: 010\nb: 1\nb: 2")
    two.write_text("{}")
    latin.write_bytes("a: 1\nb: Schräg".encode("latin-1"))
    with pytest.raises(KoctError) as caught:
        strict_yaml.check_files([one, two, latin, absent, absent, tmp_path, os.devnull])
    starts = {f"{one}, line 1: ", f"{one}, line 3: ", f"{latin}, line 2 ", f"{absent} ", f"{tmp_path} "}
    lines = str(caught.value).splitlines()
    assert len(lines) == len(starts)
    assert all(any(line.startswith(start) for line in lines) for start in starts)
    strict_yaml.check_files([two])
