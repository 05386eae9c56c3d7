"""Describe the results of a study as an RO-Crate: which files they are, what made them, and with which parameters.

It follows the profile Process Run Crate (https://w3id.org/ro/wfrun/process/0.5) of RO-Crate 1.1: the run is an action
of koct, its objects are parameters and input files, its results the files of the folder.
"""

import datetime
import hashlib
import mimetypes
import os
import platform
from pathlib import Path
from urllib.parse import quote

import koct
from koct.base.files import write_json
from koct.base.stamps import Stamp, made_from
from koct.study.results import commit

CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
CRATE, PROFILE = "https://w3id.org/ro/crate/1.1", "https://w3id.org/ro/wfrun/process/0.5"
LICENCE = "https://spdx.org/licenses/MIT"
PAPER = "https://github.com/akmaier/KnownOperatorCT"
FORMATS = {  # those that Python does not know everywhere
    ".parquet": "application/vnd.apache.parquet",
    ".tex": "application/x-tex",
    ".md": "text/markdown",
}


def write(paths, out, spec):
    """Describe the files `paths`, which lie in or below the folder of `out`.

    `spec` has the `study`, its `parameters` and the checksums of the users' `files`.
    """
    study, folder = spec["study"], Path(out).parent
    parts = [_file(path, folder) for path in paths]
    objects = {"study": study, **spec["parameters"]}
    objects |= {f"input file {path}": checksum for path, checksum in sorted(spec["files"].items())}
    objects = [_entity(f"#{quote(name)}", "PropertyValue", name, value=value) for name, value in objects.items()]
    newest = max(os.stat(path).st_mtime for path in paths)  # the same files then have the same description
    finished = datetime.datetime.fromtimestamp(newest, datetime.UTC).isoformat(timespec="seconds")
    about = {
        "description": "Test errors of networks with known and learned layers over the number of training samples, "
        "the risk bound fitted to them, and how many samples reach a target error.",
        "datePublished": finished,
        "license": {"@id": LICENCE},
        "conformsTo": {"@id": PROFILE},
        "hasPart": _references(parts),
        "mentions": {"@id": "#run"},
    }
    software = {
        "description": f"A Snakemake workflow; commit {commit()}.",
        "citation": {"@id": PAPER},
        "softwareVersion": f"{koct.__version__}, commit {commit()}",
        "softwareRequirements": f"Python {platform.python_version()}",
    }
    run = {
        "description": "The run that made these files; logs and times of its jobs are in logs/ and benchmarks/.",
        "endTime": finished,
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "instrument": {"@id": "#koct"},
        "object": _references(objects),
        "result": _references(parts),
    }
    file = {"@id": "ro-crate-metadata.json", "@type": "CreativeWork"}
    graph = [
        {**file, "about": {"@id": "./"}, "conformsTo": {"@id": CRATE}},
        _entity("./", "Dataset", f"koct: results of the study {study}", **about),
        _entity(PROFILE, "CreativeWork", "Process Run Crate", version="0.5"),
        _entity(PAPER, "ScholarlyArticle", "A Deep Risk Estimator for Known Operator Learning"),
        _entity(LICENCE, "CreativeWork", "MIT License", identifier=LICENCE),
        _entity("#koct", "SoftwareApplication", "koct", **software),
        _entity("#run", "CreateAction", f"snakemake --config study={study}", **run),
        *objects,
        *parts,
    ]
    write_json(out, {"@context": CONTEXT, "@graph": graph}, Stamp(spec, made_from(*paths)))


def _entity(at, kind, name, **more):
    return {"@id": at, "@type": kind, "name": name, **more}


def _references(entities):
    return [{"@id": entity["@id"]} for entity in entities]


def _file(path, folder):
    content = Path(path).read_bytes()
    about = {
        "encodingFormat": FORMATS.get(Path(path).suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream",
        "contentSize": str(len(content)),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    return _entity(quote(os.path.relpath(path, folder)), "File", Path(path).name, **about)
