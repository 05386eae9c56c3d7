"""Describe the results of a study as an RO-Crate: which files they are, what made them, and with which parameters.

It follows the profile Process Run Crate (https://w3id.org/ro/wfrun/process/0.5) of RO-Crate 1.1: the run is an action
of koct, its objects are parameters and input files, its results the files of the folder.
"""

import datetime
import hashlib
import os
import platform
from pathlib import Path
from urllib.parse import quote

import koct
from koct.base.files import write_json
from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.study.results import commit

CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
CRATE, PROFILE = "https://w3id.org/ro/crate/1.1", "https://w3id.org/ro/wfrun/process/0.5"
LICENCE = "https://spdx.org/licenses/MIT"
PAPER = "https://github.com/akmaier/KnownOperatorCT"
FORMATS = {
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".tex": "application/x-tex",
    ".md": "text/markdown",
    ".html": "text/html",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
}


def write(paths, out, spec):
    """Describe the files `paths`, which lie in or below the folder of `out`.

    `spec` has the `study`, its `parameters` and the checksums of the users' `files`.
    """
    folder = Path(out).parent
    parts = [_file(path, folder) for path in paths]
    parameters = [_parameter(name, value) for name, value in {"study": spec["study"], **spec["parameters"]}.items()]
    inputs = [_parameter(f"input file {path}", checksum) for path, checksum in sorted(spec["files"].items())]
    finished = _finished(paths)
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": CRATE},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"koct: results of the study {spec['study']}",
            "description": "Test errors of networks with known and learned layers over the number of training samples, "
            "the risk bound fitted to them, and how many samples reach a target error.",
            "datePublished": finished,
            "license": {"@id": LICENCE},
            "conformsTo": {"@id": PROFILE},
            "hasPart": _references(parts),
            "mentions": {"@id": "#run"},
        },
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        {"@id": PAPER, "@type": "ScholarlyArticle", "name": "A Deep Risk Estimator for Known Operator Learning"},
        {"@id": LICENCE, "@type": "CreativeWork", "name": "MIT License", "identifier": LICENCE},
        {
            "@id": "#koct",
            "@type": "SoftwareApplication",
            "name": "koct",
            "description": f"A Snakemake workflow; commit {commit()}.",
            "citation": {"@id": PAPER},
            "softwareVersion": f"{koct.__version__}, commit {commit()}",
            "softwareRequirements": f"Python {platform.python_version()}",
        },
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": f"snakemake --config study={spec['study']}",
            "description": "The run that made these files; logs and times of its jobs are in logs/ and benchmarks/.",
            "endTime": finished,
            "actionStatus": "http://schema.org/CompletedActionStatus",
            "instrument": {"@id": "#koct"},
            "object": _references([*parameters, *inputs]),
            "result": _references(parts),
        },
        *parameters,
        *inputs,
        *parts,
    ]
    write_json(out, {"@context": CONTEXT, "@graph": graph}, Stamp(spec, made_from(*paths)))


def _finished(paths):
    """Return when the last of the files was written: the same files then have the same description."""
    newest = max(os.stat(path).st_mtime for path in paths)
    return datetime.datetime.fromtimestamp(newest, datetime.UTC).isoformat(timespec="seconds")


def _file(path, folder):
    try:
        content = Path(path).read_bytes()
    except OSError:
        raise KoctError(f"{path} cannot be read; `snakemake {path}` makes it") from None
    place = os.path.relpath(path, folder)
    if place.startswith(".."):
        raise KoctError(f"{path} is not below {folder}, and a crate holds what is in its folder; leave it out")
    return {
        "@id": quote(place),
        "@type": "File",
        "name": Path(path).name,
        "encodingFormat": FORMATS.get(Path(path).suffix, "application/octet-stream"),
        "contentSize": str(len(content)),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _parameter(name, value):
    return {"@id": f"#{quote(name)}", "@type": "PropertyValue", "name": name, "value": value}


def _references(entities):
    return [{"@id": entity["@id"]} for entity in entities]
