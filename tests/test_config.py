"""Bad configs stop with a message that names the key and the mend; the schema, the docs and the code agree."""

import copy
import json

import pytest
import yaml
from conftest import ROOT

from koct.errors import KoctError
from koct.networks import ARCHS
from koct.problems import PROBLEMS
from koct.workflow.sweeps import SCHEMA, document, study

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
    "unknown arch": ({"archs": ["ko", "cnn"]}, r"sweeps\.H8\.archs\[1\] = 'cnn' must be one of ko, fc"),
    "unknown metric": ({"metric": "psnr"}, r"sweeps\.H8\.metric = 'psnr' must be one of mse"),
    "the same N twice": ({"N": [4, 4]}, r"sweeps\.H8\.N = \[4, 4\] has a value twice"),
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
def test_a_bad_entry_is_named_with_its_mend(entry, message):
    with pytest.raises(KoctError, match=message):
        study(changed(entry))


def test_missing_and_unknown_names():
    config = copy.deepcopy(CONFIG)
    del config["sweeps"]["H8"]["pool"]["val"]
    with pytest.raises(KoctError, match=r"sweeps\.H8\.pool\.val is missing"):
        study(config)
    with pytest.raises(KoctError, match="study = 'papr' is not under studies; known studies are surrogate"):
        study({**CONFIG, "study": "papr"})
    with pytest.raises(KoctError, match=r"studies\.mine has 'H9', which is not under sweeps"):
        study({**CONFIG, "studies": {**CONFIG["studies"], "mine": ["H9"]}})
    with pytest.raises(KoctError, match="letters, digits"):
        study({**CONFIG, "sweeps": {**CONFIG["sweeps"], "a/b": CONFIG["sweeps"]["H8"]}})
    with pytest.raises(KoctError, match="letters, digits"):
        study({**CONFIG, "sweeps": {**CONFIG["sweeps"], "H8\n": CONFIG["sweeps"]["H8"]}})
    with pytest.raises(KoctError, match="1 must be text"):
        study({**CONFIG, "studies": {**CONFIG["studies"], 1: ["H8"]}})
    with pytest.raises(KoctError, match="sweeps = None must be a mapping"):
        study({**CONFIG, "sweeps": None})


def test_all_mistakes_are_listed_at_once():
    with pytest.raises(KoctError) as caught:
        study(changed({"H": -8, "seeds": []}))
    assert len(str(caught.value).splitlines()) == 2
    config = changed({"one": 1, "two": 2})
    del config["sweeps"]["H8"]["N"], config["sweeps"]["H8"]["seeds"]
    with pytest.raises(KoctError) as caught:
        study(config)
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


def test_the_schema_knows_what_the_code_has():
    sweep = json.loads(SCHEMA.read_text())["properties"]["sweeps"]["additionalProperties"]["properties"]
    assert sweep["archs"]["items"]["enum"] == list(ARCHS)
    assert sweep["problem"]["enum"] == list(PROBLEMS)


def test_the_documentation_is_the_schemas():
    assert (ROOT / "docs/config.md").read_text() == document(), "run: koct config > docs/config.md"
