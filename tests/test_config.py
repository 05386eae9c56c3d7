"""Bad configs stop with a message that names the key and the fix; the schema, the docs and the code agree."""

import copy
import os

import jsonschema
import pytest
import yaml
from conftest import ROOT, SMALL_FANBEAM

from koct.base import strict_yaml
from koct.config.docs import document, schema
from koct.config.study_file import read
from koct.contracts import Architecture, Problem, registry
from koct.errors import KoctError

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
BAD = {
    "unknown key": ({"lamdas": [1.0]}, r"sweeps\.H8\.lamdas is not a key of the config; did you mean 'lambdas'\?"),
    "negative H": ({"H": -8}, r"sweeps\.H8\.H = -8 must be at least 2"),
    "N above the pool": ({"N": [4, 300]}, r"sweeps\.H8\.N = 300 is above .*train = 256; make the pool larger"),
    "empty seeds": ({"seeds": []}, r"sweeps\.H8\.seeds = \[\] must have at least 1 value"),
    "lambda zero": ({"lambdas": [0.0, 1.0]}, r"sweeps\.H8\.lambdas\[0\] = 0\.0 must be greater than 0"),
    "text for a number": ({"lambdas": ["1e-6"]}, r"lambdas\[0\] = '1e-6' must be a finite number .*write 1\.0e-6"),
    "text for a count": ({"V": "ten"}, r"sweeps\.H8\.V = 'ten' must be a whole number"),
    "a fraction": ({"N": [4, 8.5]}, r"sweeps\.H8\.N\[1\] = 8\.5 must be a whole number"),
    "a truth value": ({"H": True}, r"sweeps\.H8\.H = True must be a whole number"),
    "a number for a list": ({"seeds": 5}, r"sweeps\.H8\.seeds = 5 must be a list"),
    "unknown arch": (
        {"archs": ["ko", "cnn"]},
        r"sweeps\.H8\.archs\[1\] = 'cnn' must be one of fbp, fc, fc-fsdp, filter, filters, ko, ko-filter, "
        "ko-filter-adagrad, ko-ridge, nnls, taps, tv, untrained",
    ),
    "unknown metric": ({"metric": "mae"}, r"sweeps\.H8\.metric = 'mae' must be one of mse"),
    "a score": ({"metric": "psnr"}, r"sweeps\.H8\.metric = 'psnr' is a score, and curves are of errors"),
    "the same N twice": ({"N": [4, 4]}, r"sweeps\.H8\.N = \[4, 4\] has a value twice"),
    "the same lambda twice": ({"lambdas": [1, 1.0]}, r"sweeps\.H8\.lambdas = \[1, 1\.0\] has a value twice"),
    "infinity": ({"lambdas": [float("inf")]}, r"lambdas\[0\] = inf must be a finite number"),
    "not a number": ({"tikhonov": float("nan")}, r"tikhonov = nan must be a finite number"),
    "a float count": ({"V": 10.0}, r"sweeps\.H8\.V = 10\.0 must be a whole number"),
    "a huge seed": ({"seeds": [3_000_000_000]}, r"seeds\[0\] = 3000000000 must be at most 2147483647"),
    "B unlike H": ({"B": 9}, r"sweeps\.H8\.B = 9 must equal H = 8"),
    "too many digits": ({"V": 10**400}, r"sweeps\.H8\.V is a number of 401 digits; give at most 9223372036854775807"),
    "too many digits for a float": ({"tikhonov": 10**400}, r"sweeps\.H8\.tikhonov is a number of 401 digits"),
    "too many digits in a list": ({"N": [4, -(10**400)]}, r"sweeps\.H8\.N\[1\] is a number of 401 digits"),
    "ranks that nobody starts": (
        {"fsdp": {"ranks": 3, "iterations": 9, "nodes": 2}},
        r"sweeps\.H8\.fsdp\.ranks = 3 cannot be shared equally by nodes = 2; make ranks a multiple",
    ),
    "a long file name": (
        {"archs": ["ko", f"mine/{'a' * 65}.py"]},
        r"sweeps\.H8\.archs\[1\]: the file name 'a{20}\.\.\.' has 65 characters, and 64 are the most; shorten it",
    ),
    "a file name of a dot": (
        {"archs": ["mine/..py"]},
        r"sweeps\.H8\.archs\[0\] = 'mine/\.\.py' may have letters, digits",
    ),
    "a file name with a space": ({"archs": ["my net.py"]}, r"archs\[0\] = 'my net\.py' may have .*; rename it"),
}


@pytest.fixture(scope="module")
def validator():
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema())
    return kind(schema())


def changed(entry):
    config = copy.deepcopy(CONFIG)
    config["sweeps"]["H8"].update(entry)
    return config


@pytest.mark.parametrize(("entry", "message"), BAD.values(), ids=BAD)
def test_a_bad_entry_is_named_with_its_fix(entry, message):
    with pytest.raises(KoctError, match=message):
        read(changed(entry))


def test_missing_and_unknown_names():
    config = copy.deepcopy(CONFIG)
    del config["sweeps"]["H8"]["pool"]["val"]
    with pytest.raises(KoctError, match=r"sweeps\.H8\.pool\.val is missing"):
        read(config)
    with pytest.raises(KoctError, match="study = 'papr' is not under studies; known studies are surrogate"):
        read({**CONFIG, "study": "papr"})
    with pytest.raises(KoctError, match=r"studies\.mine has 'H9', which is not under sweeps"):
        read({**CONFIG, "studies": {**CONFIG["studies"], "mine": ["H9"]}})
    with pytest.raises(KoctError, match="letters, digits"):
        read({**CONFIG, "sweeps": {**CONFIG["sweeps"], "a/b": CONFIG["sweeps"]["H8"]}})
    with pytest.raises(KoctError, match="letters, digits"):
        read({**CONFIG, "sweeps": {**CONFIG["sweeps"], "H8\n": CONFIG["sweeps"]["H8"]}})
    with pytest.raises(KoctError, match="1 must be text"):
        read({**CONFIG, "studies": {**CONFIG["studies"], 1: ["H8"]}})
    with pytest.raises(KoctError, match="sweeps = None must be a mapping"):
        read({**CONFIG, "sweeps": None})
    for name in ("", ".", "..", "-x"):
        with pytest.raises(KoctError, match="letters, digits"):
            read({**CONFIG, "sweeps": {**CONFIG["sweeps"], name: CONFIG["sweeps"]["H8"]}})


@pytest.mark.parametrize("key", ["studies", "sweeps"])
def test_a_name_has_64_characters_at_most(validator, key):
    entry = CONFIG[key][next(iter(CONFIG[key]))]
    for length in (64, 65):
        config = {**CONFIG, key: {**CONFIG[key], "n" * length: entry}}
        assert validator.is_valid(config) == (length == 64)
        if length == 64:
            read(config)
        else:
            with pytest.raises(KoctError, match=rf"{key}: the name 'n+\.\.\.' has 65 characters, and 64 are the most"):
                read(config)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("longest_days", 0, "longest_days = 0 must be greater than 0"),
        ("longest_days", None, "longest_days = None must be a finite number"),
        ("memory_gb", -1, "memory_gb = -1 must be greater than 0"),
        ("memory_gb", "much", "memory_gb = 'much' must be a finite number"),
    ],
)
def test_limits_are_checked(key, value, message):
    with pytest.raises(KoctError, match=message):
        read({**CONFIG, key: value})
    read({**CONFIG, "longest_days": 0.5, "memory_gb": None})


def test_an_architecture_that_needs_torch_says_so_before_any_job(monkeypatch):
    fsdp = {"archs": ["fc", "fc-fsdp"], "fsdp": {"ranks": 2, "iterations": 9}}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != "torch" or None)
    with pytest.raises(KoctError, match=r"sweeps\.H8\.fsdp: the architecture fc-fsdp needs torch, .*; install it"):
        read(changed(fsdp))
    read(changed({"fsdp": fsdp["fsdp"]}))  # which no cell uses
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    read(changed(fsdp))


def test_all_mistakes_are_listed_at_once():
    with pytest.raises(KoctError) as caught:
        read(changed({"H": -8, "seeds": []}))
    assert len(str(caught.value).splitlines()) == 2
    config = changed({"one": 1, "two": 2})
    del config["sweeps"]["H8"]["N"], config["sweeps"]["H8"]["seeds"]
    with pytest.raises(KoctError) as caught:
        read(config)
    for name in ("one is not a key", "two is not a key", "N is missing", "seeds is missing"):
        assert str(caught.value).count(f"sweeps.H8.{name}") == 1


SIX = [{"typo": 1}, {"H": -8}, {"N": [4, 300]}, {"seeds": []}, {"lambdas": [0]}, {"lambdas": ["1e-6"]}]


@pytest.mark.parametrize("entry", SIX)
def test_the_workflow_stops_before_any_job(checkout, entry):
    copy_of_repo = checkout()
    copy_of_repo.path("config.yaml").write_text(yaml.safe_dump(changed(entry)))
    done = copy_of_repo.snakemake(check=False)
    assert done.returncode == 1
    assert "config: sweeps.H8." in done.stderr
    assert "Traceback" not in done.stderr
    assert not copy_of_repo.path("results").exists()


# The generated schema, which editors use

BEYOND_A_SCHEMA = {  # bad entries that only the code finds
    "N above the pool",  # two keys, compared
    "B unlike H",
    "infinity",  # JSON has no such numbers, and the validator takes them for some
    "not a number",
    "a float count",  # to JSON 10.0 is a whole number
    "too many digits",
    "too many digits for a float",
    "ranks that nobody starts",
    "a long file name",
    "a file name of a dot",
    "a file name with a space",
}


@pytest.mark.parametrize("study", CONFIG["studies"])
def test_the_schema_and_the_code_accept_every_study(validator, study):
    config = {**CONFIG, "study": study}
    validator.validate(config)
    assert [sweep.name for sweep in read(config)] == CONFIG["studies"][study]


def test_the_schema_accepts_other_good_configs(validator):
    validator.validate(SMALL_FANBEAM)
    validator.validate(changed({"archs": ["ko", "fc-fsdp"], "fsdp": {"ranks": 2, "iterations": 100}}))
    validator.validate(changed({"problem": "mine/blur.py", "archs": ["ko", "mine/cnn.py"], "cnn": {"channels": 8}}))


@pytest.mark.parametrize("name", BAD)
def test_the_schema_rejects_a_bad_entry_if_a_schema_can(validator, name):
    assert validator.is_valid(changed(BAD[name][0])) == (name in BEYOND_A_SCHEMA)


@pytest.mark.parametrize("key", ["H", "tikhonov", "pool", "N", "seeds", "archs", "lambdas", "metric", "problem"])
def test_the_schema_misses_what_is_missing(validator, key):
    config = copy.deepcopy(CONFIG)
    del config["sweeps"]["H8"][key]
    assert not validator.is_valid(config)


@pytest.mark.parametrize(
    "config",
    [
        {**CONFIG, "sweeps": None},
        {**CONFIG, "sweeps": {}},
        {**CONFIG, "studies": {"mine": []}},
        {**CONFIG, "device": "gpu"},
        {**CONFIG, "typo": 1},
        {**CONFIG, "sweeps": {**CONFIG["sweeps"], "a/b": CONFIG["sweeps"]["H8"]}},
        changed({"ko": {"solver": "newton"}}),
        changed({"ko": {"rate": 1.0}}),
        changed({"archs": ["fc-fsdp"], "fsdp": {"ranks": 2}}),
        changed({"pool": {"train": 256, "val": 32, "test": 128, "typo": 1}}),
        changed({"rays": "exact"}),  # an option of the other problem
    ],
)
def test_the_schema_rejects_what_the_code_rejects_elsewhere(validator, config):
    with pytest.raises(KoctError):
        read(config)
    assert not validator.is_valid(config)


def test_the_schema_knows_what_the_code_has():
    """A problem and an architecture are one of koct, or a Python file."""
    keys = schema()["properties"]["sweeps"]["additionalProperties"]["properties"]
    for wanted, kind, other in (
        (keys["problem"], Problem, Architecture),
        (keys["archs"]["items"], Architecture, Problem),
    ):
        accepts = jsonschema.Draft202012Validator(wanted).is_valid
        assert all(map(accepts, [*registry.shipped(kind), "mine.py", "../mine/own.py"]))
        assert not any(map(accepts, [*registry.shipped(other), "", "mine", "mine.txt", "mine.py.txt", 5]))


def test_the_documentation_is_made_from_the_code():
    assert (ROOT / "docs/config.md").read_text() == document(), "run: koct config > docs/config.md"


# Traps of YAML itself

TRAPS = {
    "a key twice": ("a: 1\nb: {c: 2}\na: 3", "line 3: a is there twice, first in line 1; remove one of them"),
    "a key twice below": ("s:\n  N: 1\n  'N': 2", r"line 3: s\.N is there twice, first in line 2; remove"),
    "two words for a key": ("yes: 1\ntrue: 2", "line 2: true is there twice, first in line 1"),
    "two merges": (
        "a: &a {x: 1}\nb: {<<: *a, <<: *a}",
        r"line 2: b\.<< is there twice, .* write `<<: \[\*one, \*other\]`",
    ),
    "octal": ("a: [1, 010]", r"line 1: a\[1\] is 010, which YAML 1\.1 reads as 8; write 10, or put it in quotes"),
    "no octal": ("a:\n- -08", r"line 2: a\[0\] is -08, which YAML 1\.1 reads as text; write -8"),
    "octal of YAML 1.2": ("a: 0o17", r"line 1: a is 0o17, which YAML 1\.1 reads as text; write 15"),
    "an octal key": ("a: {010: 1}", r"line 1: a\.010 is 010, which .* reads as 8"),
    "base 60": ("a: 1:00", r"line 1: a is 1:00, which YAML 1\.1 reads as 60, in base 60; write 60"),
    "base 60 with a fraction": ("a: 1:30.5", r"line 1: a is 1:30\.5, which .* reads as 90\.5, in base 60; write 90\.5"),
    "a day that is none": ("a: 2024-13-45", "line 1: a = 2024-13-45 cannot be read as timestamp: month must be"),
    "no digit": ("a: 0x_", "line 1: a = 0x_ cannot be read as int: invalid literal"),
    "many digits": (
        "a: " + "9" * 5000,
        r"line 1: a = 9+\.\.\. cannot be read as int: Exceeds the limit .*; correct it",
    ),
    "many hexadecimal digits": ("a: 0x" + "9" * 5000, r"line 1: a = 0x9+\.\.\. has too many digits; correct it"),
    "a list": ("- 1", "must have keys at its top level"),
    "nothing": ("# only a comment", "must have keys at its top level"),
    "two documents": (
        "a: 1\n---\nb: 2",
        "not valid YAML at line 2, column 1: expected a single document .*; correct it",
    ),
    "an open list": ("a: [1,\nb", "not valid YAML at line 2, column 2: .*; correct it"),
    "a tab": ("a:\n\t- 1", "not valid YAML at line 2, column 1: found character .*; indent with spaces"),
    "a control character": ("a: 1\nb: \x07", "not valid YAML at line 2: .* characters are not allowed"),
    "no such alias": ("a: *b", "not valid YAML at line 1, column 4: found undefined alias"),
    "a Python object": ("a: !!python/name:os.system", "line 1, column 4: could not determine a constructor"),
    "a key that is a list": ("? [1]\n: 2", "line 1, column 3: found unhashable key"),
    "an alias of itself": ("a: &a {b: [*a]}", r"line 1: a\.b\[0\] contains itself through an alias; remove the alias"),
    "deep": ("a: " + "[" * 100_000, "line 1: lists and mappings nest more than 50 deep"),
    "deep by aliases": (
        "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 99)),
        "^[^\n]*line 51: a50 nests more than 50 deep with its aliases; write them out$",
    ),
    "a billion laughs": (
        "a0: &a0 [ha]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)),
        "^[^\n]*a[67] has more than 1,000,000 values with its aliases; use fewer$",
    ),
    "a billion merges": (
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 40)),
        "has more than 1,000,000 values with its aliases",
    ),
}


@pytest.mark.parametrize("loader", ["C", "Python"])
@pytest.mark.parametrize(("text", "message"), TRAPS.values(), ids=TRAPS)
def test_a_trap_is_named_with_its_line_and_fix(tmp_path, monkeypatch, text, message, loader):
    if loader == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KoctError, match=message) as caught:
        strict_yaml.check(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: {<<: [*a, {x: 4}], z: [*a, *a]}",
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
    starts = [f"{one}, line 1: a is 010", f"{one}, line 3: b is", f"{latin}, line 2 is not UTF-8 text; save the file"]
    starts += [f"{absent} cannot be read: No such file", f"{tmp_path} cannot be read: Is a directory"]
    lines = str(caught.value).splitlines()
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))
    strict_yaml.check_files([two])


def test_a_file_without_end_is_refused():
    with pytest.raises(KoctError, match="/dev/zero has more than 10 MB"):
        strict_yaml.load("/dev/zero")
