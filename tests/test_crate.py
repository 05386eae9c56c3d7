"""The RO-Crate of a run: every reference resolves, every file is there, and the same files give the same bytes."""

import hashlib
import json
import os
from urllib.parse import unquote

from conftest import ROOT, TINY

from koct.base import stamps
from koct.config import study_file as config
from koct.report.crate import CRATE, PROFILE
from koct.study.results import commit

NAME = "ro-crate-metadata.json"
ODD = "fig a&b #1 50% ü.png"
SPEC = {
    "study": "small & <b>",
    "parameters": {"H8.N": "[4, 8]", "my own.λ": "0.5"},
    "files": {"data/my scan.npy": "1a2b3c4d", "data/my-scan.npy": "00000000"},
}


def references(value):
    """All @id that an entity points to."""
    if isinstance(value, list):
        return [each for item in value for each in references(item)]
    if isinstance(value, dict):
        return [value["@id"]] if set(value) == {"@id"} else references(list(value.values()))
    return []


def check(path):
    """What any RO-Crate 1.1 has, and what this one says of its files."""
    listed = json.loads(path.read_text())["@graph"]
    graph = {entity["@id"]: entity for entity in listed}
    assert len(graph) == len(listed)  # no @id is there twice
    assert (graph[NAME]["about"], graph[NAME]["conformsTo"]) == ({"@id": "./"}, {"@id": CRATE})
    root = graph["./"]
    assert (root["@type"], root["conformsTo"]) == ("Dataset", {"@id": PROFILE})
    assert all(root[key] for key in ("name", "description", "license", "datePublished"))
    for entity in graph.values():
        assert entity["@type"]
        assert {at for at in references(list(entity.values())) if at not in graph} <= {CRATE}  # the standard itself
    for at in references(root["hasPart"]):
        content = (path.parent / unquote(at)).read_bytes()
        assert graph[at]["contentSize"] == str(len(content))
        assert graph[at]["sha256"] == hashlib.sha256(content).hexdigest()
    assert references(graph["#run"]["result"]) == references(root["hasPart"])
    stamps.check(path)
    return graph


def test_a_crate_names_inputs_outputs_code_and_parameters_in_the_same_bytes_each_time(tmp_path, koct):
    """Of three files, one of them with an odd name and all without a stamp."""
    (tmp_path / "results/report").mkdir(parents=True)
    files = [f"results/{name}" for name in ("cells.parquet", ODD, "report/table.html")]
    for place, name in enumerate(files):
        (tmp_path / name).write_text(f"text {place}")
        os.utime(name, (1.6e9 + place, 1.6e9 + place))
    path, texts = tmp_path / "results" / NAME, []
    for _ in range(2):
        path.unlink(missing_ok=True)
        assert koct("crate", "--spec", json.dumps(SPEC), "--inputs", *files, "--outputs", f"results/{NAME}")[0] == 0
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    assert '"2020-09-13T12:26:42+00:00"' in texts[0]  # when the last of them was written
    assert not any(place in texts[0] for place in (str(ROOT), "/tmp", os.path.expanduser("~")))
    graph = check(path)
    assert "fig%20a%26b%20%231%2050%25%20%C3%BC.png" in graph
    assert graph["#run"]["@type"] == "CreateAction"
    (software,) = references(graph["#run"]["instrument"])
    assert commit() in graph[software]["softwareVersion"]
    objects = {graph[at]["name"]: graph[at]["value"] for at in references(graph["#run"]["object"])}
    inputs = {f"input file {path}": checksum for path, checksum in SPEC["files"].items()}
    assert objects == {"study": SPEC["study"], **SPEC["parameters"], **inputs}
    assert graph["cells.parquet"]["encodingFormat"] == "application/vnd.apache.parquet"


def test_parameters_are_those_of_the_config():
    sweeps = [config.build(name, entry) for name, entry in TINY["sweeps"].items()]
    values = {key: json.loads(value) for key, value in config.parameters(sweeps).items()}
    wanted = {f"T4.{key}": value for key, value in TINY["sweeps"]["T4"].items()}
    chosen = {f"T4.{arch}.validation": "none" for arch in ("untrained", "ko", "fc")}
    assert values == {**wanted, **chosen, "T4.tested_on": [], "T4.theory": True, "T4.ko.solver": "ridge"}


def test_the_crate_of_a_study_has_all_of_its_results(study):
    graph = check(study.path(f"results/{NAME}"))
    assert graph["./"]["name"] == "koct: results of the study surrogate"
    made = {path.relative_to(study.path("results")).as_posix() for path in study.path("results").rglob("*.*")}
    made = {name for name in made if not name.startswith(("reference/", "report/", "."))}
    wanted = {name for name in made if "/" not in name} - {NAME}
    assert wanted <= {unquote(at) for at in references(graph["./"]["hasPart"])}
