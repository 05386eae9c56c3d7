"""Bad configs stop with a message that names the key and the fix; the schema, the docs and the code agree."""

import copy

import jsonschema
import pytest
import yaml
from conftest import ROOT, SMALL_FANBEAM

from koct import registry
from koct.contracts import Architecture, Problem
from koct.errors import KoctError
from koct.workflow.config import read
from koct.workflow.docs import document, schema

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
        r"sweeps\.H8\.archs\[1\] = 'cnn' must be one of fc, fc-fsdp, ko",
    ),
    "unknown metric": ({"metric": "psnr"}, r"sweeps\.H8\.metric = 'psnr' must be one of mse"),
    "the same N twice": ({"N": [4, 4]}, r"sweeps\.H8\.N = \[4, 4\] has a value twice"),
    "the same lambda twice": ({"lambdas": [1, 1.0]}, r"sweeps\.H8\.lambdas = \[1, 1\.0\] has a value twice"),
    "infinity": ({"lambdas": [float("inf")]}, r"lambdas\[0\] = inf must be a finite number"),
    "not a number": ({"tikhonov": float("nan")}, r"tikhonov = nan must be a finite number"),
    "a float count": ({"V": 10.0}, r"sweeps\.H8\.V = 10\.0 must be a whole number"),
    "a huge seed": ({"seeds": [3_000_000_000]}, r"seeds\[0\] = 3000000000 must be at most 2147483647"),
    "B unlike H": ({"B": 9}, r"sweeps\.H8\.B = 9 must equal H = 8"),
}


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
}


@pytest.fixture(scope="module")
def validator():
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema())
    return kind(schema())


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
