"""Which results do not belong to the study that is asked for, told by their stamps.

Snakemake looks at times, and at what it wrote down in .snakemake when a job ended. Both can be lost or wrong: after a
crash, in a copy, in another clone. A stamp is part of its file. So a result is used if its stamp names what is asked
for, the inputs that are there and its own checksum, and made again if not, whatever its age. Since every file is
written atomically, what a crash left is complete too.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable
from typing import Any

from koct.base import stamps
from koct.base.stamps import SMALL, Stamp
from koct.errors import KoctError

RESULTS = "results" + os.sep
SHOWN = 5  # reasons that are printed
IN_WORDS = {"code": "its code has changed", "evaluation": "the code of the errors has changed"}
IN_WORDS |= {"pool": "its pairs have changed"}
IN_WORDS |= dict.fromkeys(("config", "sweeps"), "the study has changed")


class Stale:
    """Finds outdated outputs of jobs; says so, once for each reason."""

    def __init__(self, logger: Any):
        self.logger = logger
        self.stamps: dict[str, Stamp | str] = {}  # the stamp of a file, or what is wrong with it
        self.reasons: dict[str, int] = {}  # with the number of files each applies to

    def stamp(self, path: str) -> Stamp | str | None:
        """The stamp of a file, what is wrong with it, or None if there is no file.

        Files are checked whole, except large arrays: the jobs that use them do so when they read them.
        """
        if path not in self.stamps:
            try:
                large = path.endswith(".npy") and os.path.getsize(path) > SMALL
                found: Stamp | str = stamps.read(path) if large else stamps.check(path)
            except FileNotFoundError:
                return None
            except stamps.Unstamped:
                found = "it is not of this version of koct"
            except stamps.Damaged:
                found = "it is damaged"
            except (OSError, ValueError, KoctError):
                found = "it cannot be read"
            self.stamps[path] = found
        return self.stamps[path]

    def outputs(self, job: Any) -> list[Any]:
        """The outputs of a job that are there and have to be made again."""
        spec = job.params.get("spec")
        if spec is None:
            return []
        found = [path for path in job.output if os.path.lexists(path)]
        if not found:
            return []
        for path in found:
            _refuse_what_is_no_file(path)
        inputs = self.inputs(job.input)
        stale = []
        for path in found:
            reason = self.reason(path, json.loads(spec), inputs)
            if reason:
                stale.append(path)
                self.tell(path, reason)
        return stale

    def complete(self, job: Any) -> bool:
        """Whether all outputs of a job are there, and are what is asked for."""
        spec, inputs = job.params.get("spec"), self.inputs(job.input)
        if spec is None or inputs is None or not all(map(os.path.isfile, job.output)):
            return False
        return not any(self.reason(path, json.loads(spec), inputs) for path in job.output)

    def inputs(self, paths: Iterable[str]) -> str | None:
        """What a stamp says of these inputs; None if one is missing, or is to be made again itself."""
        found = [self.stamp(path) for path in paths if path.startswith(RESULTS)]
        if all(isinstance(stamp, Stamp) for stamp in found):
            return stamps.combined(stamp.content for stamp in found if isinstance(stamp, Stamp))
        return None

    def reason(self, path: str, spec: dict[str, Any], inputs: str | None) -> str:
        """Why a file has to be made again; empty if it need not be."""
        stamp = self.stamp(path)
        if not isinstance(stamp, Stamp):
            return stamp or "it cannot be read"
        keys = stamps.difference(stamp.spec, spec)
        if {"N", "seed", "sweep", "seeds"} & set(keys):
            return "it is another cell's"
        if keys:
            others = [key.removeprefix("problem.options.") for key in keys if key not in IN_WORDS]
            words = [f"{', '.join(others)} changed"] if others else []
            return " and ".join([*words, *dict.fromkeys(IN_WORDS[key] for key in keys if key in IN_WORDS)])
        if inputs is not None and stamp.inputs != inputs:
            return "it was made from other inputs"
        return ""

    def tell(self, path: str, reason: str) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if self.reasons[reason] == 1 and len(self.reasons) <= SHOWN:
            self.logger.info(f"{path} is made again: {reason}.")


def _refuse_what_is_no_file(path: str) -> None:
    """Nobody but its owner removes a folder, a pipe, or a link that leads nowhere."""
    if not os.path.isfile(path):
        what = "a pipe or a device" if os.path.exists(path) else "a link that leads nowhere"
        what, command = ("a folder", "rm -r") if os.path.isdir(path) else (what, "rm")
        raise KoctError(f"{path} is {what}, and a result belongs there; `{command} {path} && snakemake` makes it")


def watch(workflow: Any, logger: Any) -> None:
    """Let stamps, and not times or notes, say which results Snakemake uses.

    Two methods of Snakemake 9 are replaced: the one that names incomplete outputs, and the one that tells whether an
    input is newer. A Snakemake that is built otherwise would use outdated results, so it is refused.
    """
    if not workflow.is_main_process:  # and not one of those that it starts for jobs
        return
    import snakemake
    from snakemake.exceptions import WorkflowError

    try:
        from snakemake.io import _IOFile
        from snakemake.persistence import PersistenceBase

        is_newer, replaced = _IOFile.is_newer, (_IOFile.is_newer, PersistenceBase.incomplete)
        known = snakemake.__version__.startswith("9.") and all(map(inspect.iscoroutinefunction, replaced))
    except (ImportError, AttributeError):
        known = False
    if not known:
        raise KoctError(
            f"Snakemake {snakemake.__version__} is built otherwise than those that koct knows, and would not notice "
            "outdated results; `make setup` installs one of version 9 that does"
        )
    stale = Stale(logger)

    async def incomplete(self: Any, job: Any) -> list[Any]:
        self.dag.workflow.dag_settings.force_incomplete = True  # make them again, instead of stopping
        try:
            return stale.outputs(job)
        except KoctError as error:
            raise WorkflowError(str(error)) from None

    async def newer(self: Any, time: float) -> bool:
        return not self.startswith(RESULTS) and await is_newer(self, time)

    PersistenceBase.incomplete = incomplete
    _IOFile.is_newer = newer
