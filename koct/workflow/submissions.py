"""What a run will submit to a cluster: told before it starts, and tried out with `sbatch --test-only`."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from koct.errors import KoctError
from koct.workflow.cluster import SHORTEST, account_option
from koct.workflow.site import Site

GPUS = re.compile(r"gpu(?::([^:,()]+))?:([0-9]+)")  # type and number, as sinfo tells them
# What may also be said because nodes are down for a while, or the controller is busy.
TEMPORARY = re.compile(
    "not available|can ?not be satisfied|policy|contact|temporarily|timed out|not found", re.IGNORECASE
)
# Words of SLURM's errors, and the site lines that can be their cause.
FAULTS = {
    "account": "account",
    "partition": "cpu_partition or gpu_partition",
    "qos": "qos",
    "reservation": "reservation",
    "feature": "constraint",
    "generic resource": "gpu_partition or gpu_type",
    "time limit": "cpu_partition or gpu_partition",
}


class Submission(NamedTuple):
    """What a job or a group asks for; the SLURM plugin takes it for a job."""

    threads: int
    resources: Any  # Snakemake's; as if it were submitted, in a dry run too

    def get(self, name: str, default: Any = 0) -> Any:
        return self.resources.get(name) or default

    @property
    def place(self) -> tuple[str, int, int, int]:
        """partition, nodes, cores and GPUs of all nodes"""
        nodes = self.get("nodes", 1)
        return str(self.get("slurm_partition", "")), nodes, nodes * self.threads, self.get("gpu")

    @property
    def minutes(self) -> int:
        return max(SHORTEST, self.get("runtime"))


def planned(dag: Any) -> list[Submission]:
    """All of a run, as far as it is known before the first has ended."""
    from snakemake.jobs import ResourceList

    asked = [_resources(job) for job in _jobs_and_groups(dag)]
    return [Submission(found["_cores"], ResourceList(fromdict=found)) for found in asked]


def _jobs_and_groups(dag: Any) -> Iterator[Any]:
    seen = set()
    for job in dag.needrun_jobs():
        group = dag.get_job_group(job)
        if group is None and job.rule.name != "all":
            yield job
        elif group is not None and id(group) not in seen:
            seen.add(id(group))
            yield group


def _resources(job: Any) -> dict[str, Any]:
    """Of a group, Snakemake sums up in a dry run what it does not when it submits."""
    if not job.is_group():
        return dict(job.resources.items())
    from snakemake.resources import GroupResources

    return GroupResources.basic_layered(
        toposorted_jobs=job.toposorted,
        constraints=job.global_resources,
        run_local=False,
        additive_resources=["runtime"],
        sortby=["runtime"],
    )


def in_words(submissions: list[Submission], memory: bool = True) -> str:
    """'16 submissions:', and a line for each kind."""
    if not submissions:
        return "Nothing to submit."
    lines = [f"{len(submissions)} submission{'s' * (len(submissions) > 1)}:"]
    for place in sorted({submission.place for submission in submissions}):
        alike = [submission for submission in submissions if submission.place == place]
        partition, nodes, cores, gpus = place
        asked = [_count(nodes, "node")] if nodes > 1 else []
        asked += [_count(cores, "core")] + ([_count(gpus, "GPU")] if gpus else [])
        asked += [_range([found.get("mem_mb") / 1000 for found in alike], "GB", ".1f")] if memory else []
        asked += [_range([found.minutes for found in alike], "min", "d")]
        lines.append(f"  {len(alike):3d} to {partition or 'the default partition'}, each: {', '.join(asked)}")
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def _range(values: list[Any], unit: str, form: str) -> str:
    low, high = (format(value, form) for value in (min(values), max(values)))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


# Whether SLURM would take it


def check(submissions: list[Submission], settings: Any, site: Site) -> None:
    """A KoctError if SLURM will never run one of them, with what it says and the site line to look at.

    Or if they ask for GPUs that no job could use.
    """
    if any(submission.get("gpu") for submission in submissions):
        from koct.base.device import check_torch

        check_torch(site.modules)
    if shutil.which("sbatch") is None:
        return
    for call, submission in {_call(found, settings, site): found for found in submissions}.items():
        try:
            done = subprocess.run(call, shell=True, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return
        said = re.sub(r"(sbatch|allocation failure|error|fatal): *", "", done.stderr).strip().replace("\n", "; ")
        if not done.returncode:
            continue
        fixes = [fix for word, fix in FAULTS.items() if word in said.lower()]
        if TEMPORARY.search(said):
            said, fixes = _lacking(submission, site), ["the partitions or gpu_type"]
        if said:
            raise KoctError(
                f"SLURM would refuse a job of this study: {said}\n"
                f"  it asks for: {_asked(call)}\n"
                f"  there is: {_there()}\n"
                f"Fix {fixes[0] if fixes else 'the site lines'} at the top of your profile's config.yaml."
            )


def _call(submission: Submission, settings: Any, site: Site) -> str:
    """The command that would submit it, but for what it runs."""
    plugin: Any = sys.modules["snakemake_executor_plugin_slurm"]
    about = {
        "run_uuid": "koct_check",
        "slurm_logfile": "/dev/null",
        "comment_str": "check",
        "account": account_option(site),
        "partition": f" -p {shlex.quote(submission.place[0])}" if submission.place[0] else "",
        "workdir": "",
    }
    call = plugin.get_submit_command(submission, about, settings=settings)
    return f"{call}{plugin.set_gres_string(submission)} --test-only --wrap=true"


def _asked(call: str) -> str:
    """The options of a command that a site has a say in."""
    kept = r"(?:-p|-C|--mem|--account|--qos|--reservation|--gres|--time|--nodes)[= ](?:'[^']*'|\S+)"
    return " ".join(re.findall(rf"(?<=\s){kept}", call))


def _lacking(submission: Submission, site: Site) -> str:
    """Why no node of its partition will ever do, as far as their sizes tell."""
    partition, nodes, cores, gpus = submission.place
    megabytes = submission.get("mem_mb") if site.memory else 0
    kinds = [
        line.split("|") for line in _sinfo("%c|%m|%G", "--exact", *([f"--partition={partition}"] if partition else []))
    ]
    for cpus, memory, gres in kinds:
        there = [int(count) for kind, count in GPUS.findall(gres) if site.gpu_type in ("", kind)]
        sizes = int(cpus.rstrip("+")), int(memory.rstrip("+")), sum(there)
        if all(has >= asked for has, asked in zip(sizes, (cores / nodes, megabytes, gpus / nodes), strict=True)):
            return ""
    wanted = [_count(cores // nodes, "core")] + ([f"{megabytes} MB"] if megabytes else [])
    wanted += [_count(gpus // nodes, f"{site.gpu_type} GPU".strip())] if gpus else []
    return f"no node of {partition or 'the default partition'} has {', '.join(wanted)}" if kinds else ""


def _there() -> str:
    """Partitions, their longest time and GPUs."""
    return ", ".join(_sinfo("%R (%l, %G)")).replace("(null)", "no GPU")


def _sinfo(form: str, *options: str) -> list[str]:
    ask = ["sinfo", "--noheader", f"--format={form}", *options]
    try:
        return subprocess.run(ask, capture_output=True, text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []
