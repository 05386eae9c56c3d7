"""What a run submits to a SLURM cluster: told before it starts, and tried out with `sbatch --test-only`."""

from __future__ import annotations

import contextlib
import csv
import getpass
import json
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn

from koct.base.messages import counted
from koct.errors import KoctError

VARIABLE = "KOCT_SITE"  # of the environment, so that jobs see it too
SHORTEST = 5  # minutes of a submission: the first start on a node can take long

GPUS = re.compile(r"gpu(?::([^:,()]+))?:([0-9]+)")  # type and number, as sinfo tells them
# What may also be said because nodes are down for a while, or because the controller is busy or away.
TEMPORARY = re.compile(
    "not available|can ?not be satisfied|policy|contact|temporarily|timed out|not found|failed to fetch config",
    re.IGNORECASE,
)
# The variables that a job gets: those for SLURM and modules, where programs and caches are, and what tells libraries
# how to compute. A shell may hold secrets, and a job does not need them.
NEEDED = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|LANG|TZ|TERM|KRB5CCNAME|XDG_CACHE_HOME|MPLCONFIGDIR|VIRTUAL_ENV|CONDA_PREFIX|"
    r"(LC_|KOCT|SLURM|SBATCH|PYTHON|LD_|MODULE|LOADEDMODULES|_LMFILES_|LMOD|__LMOD|BASH_FUNC_|OMP|MKL|OPENBLAS|NUMBA|"
    r"CUDA|NVIDIA|TORCH|PYTORCH|NCCL|GLOO|TP_SOCKET).*"
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


class Site(NamedTuple):
    """What profiles/slurm says of its site, and Snakemake has no option or resource for."""

    config: Mapping[str, Any]  # keys of config.yaml, unless the command line sets them
    memory: bool  # whether jobs say how much memory they need
    modules: str


def site() -> Site | None:
    """Return the site of this run, or of the run that this job belongs to; None without a cluster."""
    text = os.environ.get(VARIABLE)
    return Site(**json.loads(text)) if text else None


def complete(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Lay the profile over config.yaml, and below `given`, what --configfile and --config say."""
    if profile := site():
        config.update({key: value for key, value in profile.config.items() if key not in given})


def submit_command(job: Any, settings: Any = None, larger: Mapping[str, int] | None = None, **about: Any) -> str:
    """Return the plugin's sbatch command for a job or group, less what it runs; of a repeated option the last counts.

    GPUs are asked for per node, since `--gpus=4 --nodes=2` may be split 3 + 1, and of any type: the plugin knows none
    with a hyphen. Without `slurm_account` there is no account: the plugin guesses one. `larger` says how often a job
    ended for want of a resource: it asks for that much more of it, as far as SLURM allows.
    """
    from snakemake.jobs import ResourceList
    from snakemake_executor_plugin_slurm.submit_string import get_submit_command

    request, most = dict(job.resources.items()), allowed(job.resources) if larger else {}
    if request.get("runtime"):
        request["runtime"] = max(SHORTEST, int(request["runtime"]))
    for name, often in (larger or {}).items():
        request[name] = int(min(request[name] * (1 + often), most.get(name, math.inf)))
    about = {"job_name": "koct_check", "slurm_logfile": "/dev/null", "comment_str": "check", "workdir": "", **about}
    for option, key in (("account", "slurm_account"), ("partition", "slurm_partition")):
        about[option] = f"--{option}={shlex.quote(str(request.get(key)))}" if request.get(key) else ""
    about["run_uuid"] = about.pop("job_name")  # which the plugin takes for a name
    call = get_submit_command(Submission(job.threads, ResourceList(fromdict=request)), about, settings=settings)
    if gpus := request.get("gpu"):
        per_node = str(-(-gpus // (request.get("nodes") or 1)))
        call += " --gres=" + shlex.quote(":".join(filter(None, ["gpu", request.get("gpu_model"), per_node])))
    profile = site()
    return re.sub(r" --mem(-per-cpu)? \S+", "", call) if profile and not profile.memory else call


# What will be submitted


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

    @property
    def amounts(self) -> dict[str, tuple[int, str]]:
        """what is asked for in all, and its unit, by names as in `allowed`"""
        _, nodes, cores, gpus = self.place
        profile = site()
        megabytes = nodes * self.get("mem_mb") if profile is None or profile.memory else 0
        asked = {"runtime": (self.minutes, "min"), "cores": (cores, "cores"), "mem_mb": (megabytes, "MB")}
        return {**asked, "nodes": (nodes, "nodes"), "gpu": (gpus, "GPUs")}


def planned(dag: Any) -> list[Submission]:
    """Return all submissions of a run, as far as they are known before the first has ended."""
    from snakemake.jobs import ResourceList

    jobs = [(job, dag.get_job_group(job)) for job in dag.needrun_jobs()]
    submitted = [job if group is None else group for job, group in jobs if group is not None or not job.is_local]
    requests = [_resources(job) for job in {id(job): job for job in submitted}.values()]
    return [Submission(request["_cores"], ResourceList(fromdict=request)) for request in requests]


def _resources(job: Any) -> dict[str, Any]:
    """Return what a job or a group asks for when it is submitted; in a dry run Snakemake sums up more of a group.

    Jobs of a group run one after the other (`serial` in the profile): it takes the time of all and the rest of one.
    """
    if not job.is_group():
        return dict(job.resources.items())
    members = [dict(member.resources.items()) for member in job.jobs]
    request = {name: value for member in members for name, value in member.items()}
    for name in (name for name, value in request.items() if isinstance(value, int)):
        values = [int(member.get(name) or 0) for member in members]
        request[name] = sum(values) if name == "runtime" else max(values)
    return request


def in_words(submissions: list[Submission]) -> str:
    """Return '16 submissions:', and a line for each kind."""
    if not submissions:
        return "Nothing to submit."
    lines = [f"{counted(len(submissions), 'submission')}:"]
    for place in sorted({submission.place for submission in submissions}):
        alike = [submission for submission in submissions if submission.place == place]
        partition, nodes, cores, gpus = place
        asked = [counted(nodes, "node")] if nodes > 1 else []
        asked += [counted(cores, "core")] + ([counted(gpus, "GPU")] if gpus else [])
        if (profile := site()) is None or profile.memory:
            asked.append(_range([submission.get("mem_mb") / 1000 for submission in alike], "GB", ".1f"))
        asked.append(_range([submission.minutes for submission in alike], "min", "d"))
        lines.append(f"  {len(alike):3d} to {partition or 'the default partition'}, each: {', '.join(asked)}")
    return "\n".join(lines)


def _range(values: list[Any], unit: str, form: str) -> str:
    low, high = (format(value, form) for value in (min(values), max(values)))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def used(jobs: list[Any]) -> str:
    """Return a table of what finished jobs asked for and took at most, by rule, from Snakemake's benchmarks."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    for job in jobs:
        name = job.rule.name if hasattr(job.wildcards, "sweep") else "tables and figures"
        with contextlib.suppress(OSError, TypeError, ValueError, StopIteration), open(job.benchmark) as file:
            took = next(csv.DictReader(file, delimiter="\t"))
            row = job.resources.mem_mb, float(took["max_rss"]), job.resources.runtime, float(took["s"]) / 60
            rows.setdefault(name, []).append(row)
    lines = ["Asked for and used, at most:"] if rows else []
    for name, found in sorted(rows.items()):
        most = map(max, zip(*found, strict=True))
        text = "{:7.0f} MB, used {:6.0f}; {:5.0f} min, used {:6.1f}".format(*most)
        lines.append(f"  {f'{name} ({len(found)})':24} {text}")
    return "\n".join(lines)


# Whether SLURM would take it


def check(submissions: list[Submission], settings: Any, deployed: bool = False) -> None:
    """Raise a KoctError if SLURM will never run one of them, with what it says and the site line to look at.

    Also if they ask for GPUs that no job could use; `deployed` jobs have packages that are not seen here.
    """
    profile = site()
    if profile and not deployed and any(submission.get("gpu") for submission in submissions):
        from koct.base.device import check_torch

        check_torch(profile.modules)
    if shutil.which("sbatch") is None:
        return
    for call, submission in {submit_command(kind, settings): kind for kind in submissions}.items():
        most = allowed(submission.resources)
        for name, (asks, unit) in submission.amounts.items():
            if asks > most.get(name, math.inf):
                said = f"a job there may take {most[name]:g} {unit} at most, and one of this study asks for {asks:g}"
                _refuse(call, said, "cpu_partition, gpu_partition, account or qos")
        try:
            done = subprocess.run(
                f"{call} --test-only --wrap=true", shell=True, capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return
        if not done.returncode:
            continue
        said = re.sub(r"(sbatch|allocation failure|error|fatal): *", "", done.stderr).strip().replace("\n", "; ")
        fixes = [fix for word, fix in FAULTS.items() if word in said.lower()]
        if TEMPORARY.search(said):
            said, fixes = _lacking(submission), ["the partitions or gpu_type"]
        if said:
            _refuse(call, said, fixes[0] if fixes else "the site lines")


def _refuse(call: str, said: str, fix: str) -> NoReturn:
    there = ", ".join(ask("sinfo", "--noheader", "--format=%R (%l, %G)")).replace("(null)", "no GPU")
    raise KoctError(
        f"SLURM would refuse a job of this study: {said}\n"
        f"  it asks for: {asked(call)}\n"
        f"  there is: {there}\n"
        f"Fix {fix} at the top of your profile's config.yaml."
    )


TRES = {"cpu": "cores", "mem": "mem_mb", "node": "nodes", "gres/gpu": "gpu"}  # SLURM's names of what a job takes


def allowed(request: Any) -> dict[str, float]:
    """Return what SLURM lets a job take: minutes, cores, MB, nodes and GPUs, by the names of resources in a request.

    Of a partition's QOS, the job's QOS and the user's association, the first that says something counts. A QOS may
    change their order, and may lift the time limit of a partition.
    """
    partition, user = _partition(request), _association(request)
    kinds = {row["Name"]: row for row in _accounting("qos", "Name", "Flags", "MaxWall", "MaxTRES")}
    of_job = kinds.get(str(request.get("qos") or user.get("DefaultQOS") or "normal"), {})
    of_partition = kinds.get(partition["QoS"], {})
    over = "OverPartQOS" in of_job.get("Flags", "")
    rows = [user, of_partition, of_job] if over else [user, of_job, of_partition]
    limits: dict[str, float] = {}
    for row in rows:
        limits |= _limits(row)
    if not any("PartitionTimeLimit" in row.get("Flags", "") for row in rows):
        limits["runtime"] = min(limits.get("runtime", math.inf), minutes(partition["MaxTime"]))
    return limits


def _partition(request: Any) -> dict[str, str]:
    """Return the partition that a request names, or the default one."""
    named = str(request.get("slurm_partition") or "")
    for row in _partitions():
        if row["PartitionName"] == named or (not named and row["Default"] == "YES"):
            return row
    return {"MaxTime": "", "QoS": ""}


def _association(request: Any) -> dict[str, str]:
    """Return what accounting says of this user in the account of a request, and best in its partition."""
    rows = _accounting("user", "DefaultAccount", "Account", "Partition", "DefaultQOS", "MaxWall", "MaxTRES")
    for partition in (str(request.get("slurm_partition") or ""), ""):
        for row in rows:
            if (
                row["Account"] == (request.get("slurm_account") or row["DefaultAccount"])
                and row["Partition"] == partition
            ):
                return row
    return {}


def _limits(row: dict[str, str]) -> dict[str, float]:
    """Return the limits in a row of accounting."""
    limits = {"runtime": minutes(row["MaxWall"])} if row.get("MaxWall") else {}
    for pair in row.get("MaxTRES", "").split(","):
        name, _, amount = pair.partition("=")
        if name in TRES:
            limits[TRES[name]] = _number(amount)
    return limits


@cache
def _partitions() -> list[dict[str, str]]:
    return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in ask("scontrol", "-o", "show", "partition")]


@cache
def _accounting(kind: str, *fields: str) -> list[dict[str, str]]:
    """Return rows of SLURM's accounting for this user and cluster, if it enforces limits."""
    config = dict(re.findall(r"^(\w+) *= (\S+)", "\n".join(ask("scontrol", "show", "config")), re.M))
    if not re.search("limits|safe", config.get("AccountingStorageEnforce", "")):
        return []
    of_user = [getpass.getuser(), "withassoc", f"cluster={config['ClusterName']}"] if kind == "user" else []
    lines = ask("sacctmgr", "-nP", "show", kind, *of_user, f"format={','.join(fields)}")
    return [dict(zip(fields, line.split("|"), strict=True)) for line in lines]


def minutes(limit: str) -> float:
    """Return minutes from what SLURM writes: 30:00, 2:00:00 or 1-00:00:00."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if match is None:  # infinite
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 1440 * days + 60 * hours + minutes + seconds / 60


def _number(amount: str) -> float:
    """Return a count, or MB from what SLURM writes of memory: 500M, 8G or 1.50T."""
    return float(amount.rstrip("MGTP")) * {"G": 1024, "T": 1024**2, "P": 1024**3}.get(amount[-1], 1)


def asked(call: str) -> str:
    """Return the options of a command that a site has a say in."""
    kept = r"(?:--partition|-C|-t|--mem|--account|--qos|--reservation|--gres|--nodes)[= ](?:'[^']*'|\S+)"
    return " ".join(re.findall(rf"(?<=\s){kept}", call))


def _lacking(submission: Submission) -> str:
    """Return why no node of its partition will ever do, as far as their sizes tell."""
    partition, nodes, cores, gpus = submission.place
    gpu_type, megabytes = submission.get("gpu_model", ""), submission.amounts["mem_mb"][0] // nodes
    where = ["--exact", *([f"--partition={partition}"] if partition else [])]
    kinds = [line.split("|") for line in ask("sinfo", "--noheader", "--format=%c|%m|%G", *where)]
    for cpus, memory, gres in kinds:
        there = [int(count) for kind, count in GPUS.findall(gres) if gpu_type in ("", kind)]
        sizes = int(cpus.rstrip("+")), int(memory.rstrip("+")), sum(there)
        if all(has >= asked for has, asked in zip(sizes, (cores / nodes, megabytes, gpus / nodes), strict=True)):
            return ""
    wanted = [counted(cores // nodes, "core")] + ([f"{megabytes} MB"] if megabytes else [])
    wanted += [counted(gpus // nodes, f"{gpu_type} GPU".strip())] if gpus else []
    return f"no node of {partition or 'the default partition'} has {', '.join(wanted)}" if kinds else ""


def ask(*command: str) -> list[str]:
    """Return the lines that a command prints; none if it is not there or fails."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return [] if done.returncode else done.stdout.splitlines()
    return []
