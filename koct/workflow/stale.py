"""Which results do not belong to the study that is asked for, by their stamps.

Snakemake looks at times, and at what it wrote down in .snakemake when a job ended. Both can be lost or wrong: after a
crash, in a copy, in another clone. A stamp is part of its file. So a result is used if its stamp names what is asked
for, the inputs that are there and its own checksum, and made again if not, whatever its age. Since every file is
written atomically, what a crash left is complete too.

This is decided once, when a run starts: results that the targets need and that are outdated are forced, and those that
are right but older than their inputs get the time of these, as from `snakemake --touch`; in a dry run, until it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from koct.base import stamps
from koct.base.messages import listed
from koct.base.stamps import SMALL, Stamp
from koct.contracts.spec import of_fit
from koct.errors import KoctError

RESULTS = "results" + os.sep
FITS = os.path.join(RESULTS, "fits", "")
SHOWN = 5  # reasons that are printed
IN_WORDS = {"code": "its code has changed", "evaluation": "the code of the errors has changed"}
IN_WORDS |= {"pool": "its pairs have changed"} | dict.fromkeys(("config", "sweeps"), "the study has changed")


def wanted(path: str, spec: str) -> dict[str, Any]:
    """Return what the stamp of an output has to name: the spec of its job, for a fit without what evaluates."""
    of_job = json.loads(spec)
    return of_fit(of_job) if path.startswith(FITS) else of_job


class Stale:
    """Finds outdated outputs of jobs; says so, once for each reason."""

    def __init__(self, logger: Any):
        self.logger = logger
        self.stamps: dict[str, Stamp | str] = {}  # the stamp of a file, or what is wrong with it
        self.reasons: dict[str, int] = {}  # with the number of files each applies to

    def stamp(self, path: str) -> Stamp | str | None:
        """Return the stamp of a file, what is wrong with it, or None if there is no file.

        Files are checked whole, except large arrays: the jobs that use them do so when they read them.
        """
        if path not in self.stamps:
            try:
                large = path.endswith(".npy") and os.path.getsize(path) > SMALL
                result: Stamp | str = stamps.read(path) if large else stamps.check(path)
            except FileNotFoundError:
                return None
            except stamps.Unstamped:
                result = "it is not of this version of koct"
            except stamps.Damaged:
                result = "it is damaged"
            except (OSError, ValueError, KoctError):
                result = "it cannot be read"
            self.stamps[path] = result
        return self.stamps[path]

    def outputs(self, job: Any) -> list[Any]:
        """Return the outputs of a job that are there and have to be made again."""
        spec = job.params.get("spec")
        present = [path for path in job.output if os.path.lexists(path)]
        if spec is None or not present:
            return []
        for path in present:
            if not os.path.isfile(path):  # nobody but its owner removes a folder, a pipe, or a link that leads nowhere
                what = "a pipe or a device" if os.path.exists(path) else "a link that leads nowhere"
                what, command = ("a folder", "rm -r") if os.path.isdir(path) else (what, "rm")
                fix = f"`{command} {path} && snakemake` makes it"
                raise KoctError(f"{path} is {what}, and a result belongs there; {fix}")
        outdated = []
        for path in present:
            if reason := self.reason(path, wanted(path, spec), job.input):
                outdated.append(path)
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
                if self.reasons[reason] == 1 and len(self.reasons) <= SHOWN:
                    self.logger.info(f"{path} is made again: {reason}.")
        return outdated

    def inputs(self, paths: Iterable[str], timed: bool = False) -> str | None:
        """Return what a stamp says of these inputs; None if one is missing, or is to be made again itself.

        `timed` is for the stamp of a file that tells the times in its inputs.
        """
        contents = []
        for path in paths:
            if path.startswith(RESULTS):
                stamp = self.stamp(path)
                if not isinstance(stamp, Stamp):
                    return None
                contents.append(stamps.as_input(stamp, timed))
        return stamps.combined(contents)

    def reason(self, path: str, spec: dict[str, Any], inputs: Iterable[str]) -> str:
        """Return why a file has to be made again; empty if it need not be."""
        stamp = self.stamp(path)
        if not isinstance(stamp, Stamp):
            return stamp or "it cannot be read"
        keys = stamps.difference(stamp.spec, spec)
        if {"N", "seed", "sweep", "seeds"} & set(keys):
            return "it is another cell's"
        keys = [key for key in keys if not key.startswith("origin")] or ["code"] * bool(keys)  # the rest tells it
        if "archs" in keys:  # whose code is that of other networks
            keys = [key for key in keys if key != "code"]
        if keys:
            others = [key.removeprefix("problem.options.") for key in keys if key not in IN_WORDS]
            words = [f"{listed(others)} changed"] if others else []
            return " and ".join([*words, *dict.fromkeys(IN_WORDS[key] for key in keys if key in IN_WORDS)])
        if stamp.about.get("file", name := os.path.basename(path)) != name:
            return "it is another output of its job"
        made_from = self.inputs(inputs, stamp.about.get("timed", False))
        if made_from is not None and stamp.inputs != made_from:
            return "it was made from other inputs"
        return ""


def outdated(workflow: Any, logger: Any) -> list[str]:
    """Return the results that the targets of a run need and that have to be made again."""
    needed = Needed(workflow, Stale(logger))
    for target in workflow.dag_settings.targets or {workflow.default_target}:
        if not workflow.is_rule(target):
            needed.visit_file(os.path.relpath(target))
        elif not workflow.get_rule(target).has_wildcards():
            needed.visit_job(workflow.get_rule(target), {})
    return needed.outdated


class Needed:
    """The jobs that the targets of a run need, as far as stamps are concerned: their outputs, inputs and specs."""

    def __init__(self, workflow: Any, stale: Stale):
        from snakemake.io import strip_wildcard_constraints

        self.stale, self.outdated, self.dry = stale, list[str](), workflow.output_settings.dryrun
        self.seen: set[tuple[str, ...]] = set()
        self.patterns: dict[str, list[tuple[Any, Any]]] = defaultdict(list)  # by folder: outputs, with their rules
        self.products: dict[str, list[str]] = {}  # outputs of a rule and its benchmark, with wildcards in braces
        for rule in workflow.rules:
            products = [*rule.output, *filter(None, [rule.benchmark])]
            self.products[rule.name] = [strip_wildcard_constraints(str(path)) for path in products]
            for path in rule.output:
                self.patterns[_folder(path)].append((path.regex(), rule))

    def visit_file(self, path: str) -> None:
        for regex, rule in self.patterns.get(_folder(path), ()):
            if match := regex.match(path):
                self.visit_job(rule, match.groupdict())
                return

    def visit_job(self, rule: Any, wildcards: Mapping[str, str]) -> None:
        """Look at what a job reads, and then at what it has made."""
        key = (rule.name, *wildcards.values())
        if key in self.seen:
            return
        self.seen.add(key)
        of_job = SimpleNamespace(**wildcards)
        inputs = list(_paths(rule.input, of_job))
        for path in inputs:
            self.visit_file(path)
        products = [path.format(**wildcards) for path in self.products[rule.name]]
        outputs = products[: len(rule.output)]
        spec = rule.params.get("spec")
        if spec is None or not any(map(os.path.lexists, outputs)):
            return
        job = SimpleNamespace(params={"spec": spec(of_job) if callable(spec) else spec}, input=inputs, output=outputs)
        outdated = self.stale.outputs(job)
        self.outdated += outdated
        if not outdated and all(map(os.path.isfile, outputs)) and self.stale.inputs(inputs) is not None:
            self.make_no_older(products, inputs)

    def make_no_older(self, products: list[str], inputs: list[str]) -> None:
        """Give products the time of the newest input if they are older: Snakemake 9.27 compares times in any case."""
        with contextlib.suppress(OSError):  # it would make them again, or ask for a missing input
            newest = max((max(os.stat(path).st_mtime_ns, os.lstat(path).st_mtime_ns) for path in inputs), default=0)
            for path in filter(os.path.lexists, products):
                about = os.lstat(path)
                if about.st_mtime_ns < newest:
                    _set_time(path, about.st_atime_ns, newest)
                    if self.dry:
                        atexit.register(_set_time, path, about.st_atime_ns, about.st_mtime_ns)


def _folder(path: str) -> str:
    return "/".join(path.split("/")[:2]) if path.count("/") > 1 else os.path.dirname(path)


def _paths(inputs: Iterable[Any], wildcards: SimpleNamespace) -> Iterable[str]:
    """Return the inputs of a job: a rule has patterns, and functions that give one or several."""
    for item in inputs:
        value = item(wildcards) if callable(item) else item
        for pattern in [value] if isinstance(value, str) else value:
            yield str(pattern).format(**vars(wildcards))


def _set_time(path: str, accessed: int, modified: int) -> None:
    os.utime(path, ns=(accessed, modified), follow_symlinks=False)
