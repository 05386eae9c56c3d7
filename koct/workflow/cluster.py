"""What a run submits to a SLURM cluster: printed before it starts, and tried with `sbatch --test-only`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from koct.base.messages import counted
from koct.errors import KoctError

VARIABLE = "KOCT_SITE"  # of the environment, so that jobs see it too
SHORTEST = 5  # minutes of a submission: the first start on a node can take long

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


def submit_command(job: Any, settings: Any = None, **about: Any) -> str:
    """Return the plugin's sbatch command for a job or group, less what it runs; of a repeated option the last counts.

    GPUs are asked for per node, since `--gpus=4 --nodes=2` may be split 3 + 1, and of any type: the plugin knows none
    with a hyphen. Without `slurm_account` there is no account: the plugin guesses one. A second attempt asks for twice
    the memory and time, and so on.
    """
    from snakemake.jobs import ResourceList
    from snakemake_executor_plugin_slurm.submit_string import get_submit_command

    request = dict(job.resources.items())
    request["runtime"] = job.attempt * max(SHORTEST, int(request.get("runtime") or 0))
    if request.get("mem_mb"):
        request["mem_mb"] *= job.attempt
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
    attempt: int = 1

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
    """Return all submissions of a run, as far as they are known before the first has ended."""
    from snakemake.jobs import ResourceList

    jobs = [job for job in dag.needrun_jobs() if job.output]  # all but the rule `all`
    submitted = [dag.get_job_group(job) or job for job in jobs]
    requests = [_resources(job) for job in {id(job): job for job in submitted}.values()]
    return [Submission(_threads(request), ResourceList(fromdict=request)) for request in requests]


def _threads(request: dict[str, Any]) -> int:
    """Return the cores of a job on a node: one for each rank of torchrun. A dry run would count one in all."""
    return request["ranks"] // request["nodes"] if "ranks" in request else request["_cores"]


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
        request = [counted(nodes, "node")] if nodes > 1 else []
        request += [counted(cores, "core")] + ([counted(gpus, "GPU")] if gpus else [])
        if (profile := site()) is None or profile.memory:
            request.append(_range([submission.get("mem_mb") / 1000 for submission in alike], "GB", ".1f"))
        request.append(_range([submission.minutes for submission in alike], "min", "d"))
        lines.append(f"  {len(alike):3d} to {partition or 'the default partition'}, each: {', '.join(request)}")
    return "\n".join(lines)


def _range(values: list[Any], unit: str, form: str) -> str:
    low, high = (format(value, form) for value in (min(values), max(values)))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


# Whether SLURM would take it


def check(submissions: list[Submission], settings: Any, logger: Any, deployed: bool = False) -> None:
    """Raise a KoctError if SLURM refuses one of them, with what it says and the site line to look at.

    Also if they ask for GPUs that no job could use; `deployed` jobs have packages that are not seen here. What may pass
    by itself is a warning.
    """
    profile = site()
    if profile and not deployed and any(submission.get("gpu") for submission in submissions):
        from koct.base.device import check_torch

        check_torch(profile.modules)
    if shutil.which("sbatch") is None:
        return
    for call in dict.fromkeys(submit_command(kind, settings) for kind in submissions):
        try:
            done = subprocess.run(
                f"{call} --test-only --wrap=true", shell=True, capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return
        complaint = re.sub(r"(sbatch|allocation failure|error|fatal): *", "", done.stderr).strip().replace("\n", "; ")
        if done.returncode and complaint:
            words = _refused(call, complaint)
            if not TEMPORARY.search(complaint):
                raise KoctError(words)
            logger.warning(words)


def _refused(call: str, complaint: str) -> str:
    """Return what SLURM says of a submission, what that asks for, and which partitions there are."""
    partitions = ", ".join(ask("sinfo", "--noheader", "--format=%R (%l, %G)")).replace("(null)", "no GPU")
    return (
        f"SLURM would refuse a job of this study: {complaint}\n"
        f"  it asks for: {site_options(call)}\n"
        f"  there is: {partitions}\n"
        "Fix the site lines at the top of your profile's config.yaml."
    )


def site_options(call: str) -> str:
    """Return the options of a command that a site has a say in."""
    options = r"(?:--partition|-C|-t|--mem|--account|--qos|--reservation|--gres|--nodes)[= ](?:'[^']*'|\S+)"
    return " ".join(re.findall(rf"(?<=\s){options}", call))


def ask(*command: str) -> list[str]:
    """Return the lines that a command prints; none if it is not there or fails."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return [] if done.returncode else done.stdout.splitlines()
    return []
