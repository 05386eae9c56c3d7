"""What the profile of a cluster says about its site. The profile hands it on in the environment, so jobs see it too."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

VARIABLE = "KOCT_SITE"


class Site(NamedTuple):
    """Site lines of profiles/slurm: what Snakemake has no option for, or none that a dry run sees."""

    config: Mapping[str, Any]  # keys of config.yaml, unless the command line sets them
    account: str
    qos: str
    reservation: str
    gpu_type: str
    memory: bool  # whether jobs say how much memory they need
    modules: str
    requeue: bool  # whether SLURM starts preempted jobs again


def read() -> Site | None:
    """The site of this run, or of the run that this job belongs to; None without a cluster."""
    text = os.environ.get(VARIABLE)
    return Site(**json.loads(text)) if text else None


def complete(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Lay the profile over config.yaml, and below `given`, what --configfile and --config say."""
    site = read()
    if site:
        config.update({key: value for key, value in site.config.items() if key not in given})
