"""One list of pins: whatever names a version names the one in constraints.txt."""

import re
import tomllib

import pytest
import yaml
from conftest import ROOT

PINS = {
    name.lower(): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"matplotlib-base": "matplotlib"}
ENVS = sorted((ROOT / "envs").glob("*.yaml"))


@pytest.mark.parametrize("path", ENVS, ids=lambda path: path.name)
def test_conda_environments_have_the_pinned_versions(path):
    packages = [entry.split() for entry in yaml.safe_load(path.read_text())["dependencies"]]
    versions = {CONDA_NAMES.get(name, name): version for name, version in packages if name != "python"}
    assert versions == {name: f"=={PINS[name]}" for name in versions}
    needed = {re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert needed <= set(versions)
    assert ["python", PROJECT["requires-python"]] in packages


def test_rules_name_environments_that_exist():
    named = set()
    for path in (ROOT / "rules").glob("*.smk"):
        named |= set(re.findall(r'conda:\s+"\.\./envs/([^"]+)"', path.read_text()))
    assert named == {path.name for path in ENVS}


def test_every_requirement_is_pinned():
    extras = PROJECT["optional-dependencies"].values()
    requirements = PROJECT["dependencies"] + [entry for extra in extras for entry in extra]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}
    assert names <= set(PINS)


def test_the_container_copies_what_there_is_and_installs_extras_that_exist():
    lines = (ROOT / "envs/Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]}
    assert {"koct", "rules", "profiles", "envs", "Snakefile", "constraints.txt"} <= copied
    assert all((ROOT / name).exists() for name in copied)
    (extras,) = re.findall(r"'\.\[(.*)\]'", "\n".join(lines))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
