"""What others read of the repository: changelog, pins, the workflow catalog, and what its pages name."""

import pkgutil
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from conftest import ROOT

import koct

PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
PINS = {name.lower(): version for name, version in PINS}
ENVS = sorted((ROOT / "envs").glob("*.yaml"))


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


WITHOUT = """
import sys

sys.modules |= dict.fromkeys({packages!r})  # an import of them fails
import numpy as np
from koct import FanBeam, Projector, cli, fbp

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 4))
np.savez("pairs.npz", x=x, y=x @ rng.normal(size=(4, 2)))
g = FanBeam(16, 12, 24)
assert fbp(g)(Projector(g)(np.ones((1, 16, 16)))).shape == (1, 16, 16)
verbs = "budget {pilot} --target 0.002", "planner {pilot} --out page.html", "curve pairs.npz", "init mine", "config"
for verb in verbs:
    assert cli.main(verb.split()) == 0, verb
"""


@pytest.mark.slow
def test_planner_curve_and_operators_need_neither_snakemake_nor_torch(tmp_path):
    packages = {name.replace("-", "_") for extra in EXTRAS.values() for name in names(extra)}
    code = WITHOUT.format(packages=sorted({*packages, "pandas", "sklearn", "skimage"}), pilot=ROOT / "docs/pilot.csv")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_what_the_planner_prints(koct):
    shown = re.search(r"```text\n\$ koct (budget .*)\n([^`]*)```", (ROOT / "README.md").read_text())
    verb, _, target, error = shown[1].split()
    assert koct(verb, ROOT / "docs/pilot.csv", target, error)[1] == shown[2]


def test_the_changelog_has_this_version():
    versions = re.findall(r"^## \[(.*?)\](?: - \d{4}-\d\d-\d\d)?$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert versions[:2] == ["Unreleased", koct.__version__]


def anchors(text):
    """Of the headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\((?!https://)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text()), target


@each_page
def test_files_and_names_of_the_code_exist(page):
    text = page.read_text().partition("## [0.1.0]")[0]  # what a changelog says of older versions is history
    files = re.findall(r"`((?:koct|tests|rules|benchmarks|docs|profiles|slurm)/[\w./-]+)`", text)
    assert [path for path in files if "NAME" not in path and not (ROOT / path).exists()] == []
    for name in set(re.findall(r"`(koct(?:\.\w+)+)(?:\([^`]*\))?`", text)) - {"koct.risk"}:
        pkgutil.resolve_name(name)
    for module, imported in re.findall(r"from (koct[.\w]*) import ([\w, ]+)", text):
        for name in imported.split(","):
            pkgutil.resolve_name(f"{module}.{name.split()[0]}")


def test_every_environment_variable_is_in_the_table():
    """Those of koct, and what its code reads or sets of others."""
    files = [path for name in ("koct", "rules", "profiles", "tests/cluster") for path in (ROOT / name).rglob("*.*")]
    files = [path for path in files if path.suffix in {".py", ".smk", ".sh", ".yaml"}]
    text = "\n".join(path.read_text() for path in [*files, ROOT / "Snakefile", ROOT / "tests/test_histories.py"])
    variables = re.findall(r"""env(?:iron)?(?:\.\w+\(|\[)["']([A-Z]\w+)|^export ([A-Z]\w+)=""", text, re.M)
    variables += re.findall(r"\b((?:KOCT|NUMBA|CUDA|SLURMD?|XDG|TORCH|PYTHON)_?[A-Z]+(?:_[A-Z]+)*)(\b)", text)
    listed = (ROOT / "CONTRIBUTING.md").read_text().partition("## Environment variables")[2]
    assert {name or other for name, other in variables} <= set(re.findall(r"`([A-Z_]+)`", listed))


def test_every_requirement_is_pinned_and_conda_environments_have_these_versions():
    assert names([*PROJECT["dependencies"], *(entry for extra in EXTRAS.values() for entry in extra)]) <= set(PINS)
    for path in ENVS:
        packages = dict(entry.split() for entry in yaml.safe_load(path.read_text())["dependencies"])
        assert packages.pop("python") == PROJECT["requires-python"]
        other = {"matplotlib-base": "matplotlib", "pytorch": "torch"}
        versions = {other.get(name, name): version for name, version in packages.items()}
        assert versions == {name: f"=={PINS[name]}" for name in versions}
        extras = [entry for name in ("torch", "files", "anatomy") for entry in EXTRAS[name]]
        assert names([*PROJECT["dependencies"], *extras]) <= set(versions)


def test_rules_and_the_container_name_what_exists():
    rules = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    assert set(re.findall(r'conda:\s+"\.\./envs/([^"]+)"', rules)) == {path.name for path in ENVS}
    lines = (ROOT / "envs/Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]}
    assert {"koct", "rules", "profiles", "envs", "Snakefile", "constraints.txt"} <= copied
    assert all((ROOT / name).exists() for name in copied)
    (extras,) = re.findall(r"'\.\[(.*)\]'", "\n".join(lines))
    assert set(extras.split(",")) <= set(EXTRAS)
