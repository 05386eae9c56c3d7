"""What happens at an event of Snakemake for which it has no hook, told by the records that it logs.

Snakemake 9 makes its settings known behind the Snakefile, and reads them when a run has started. They are plain
dataclasses of its public interface.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from koct.errors import KoctError
from koct.workflow import stale

LIMIT = (100, 1)  # jobs in so many seconds: Snakemake's default


def at_start(workflow: Any, logger: logging.Logger) -> None:
    """Adjust Snakemake's settings when a run starts, before its jobs are determined."""
    if workflow.is_main_process:  # and not one of those that it starts for jobs
        logger.addHandler(Once("WORKFLOW_STARTED", lambda: _adjust(workflow, logger)))


def in_dry_run(workflow: Any, logger: logging.Logger, function: Callable[[], str | None]) -> None:
    """Call a function when a dry run knows its jobs, and print what it returned at the end.

    What it complains of ends the dry run.
    """
    told: list[str | None] = []

    def announce() -> None:
        try:
            told.append(function())
        except KoctError as error:
            logger.error(str(error))
            raise SystemExit(1) from None

    def tell() -> None:
        for line in filter(None, told):
            logger.info(line)

    if workflow.is_main_process and workflow.output_settings.dryrun:
        logger.addHandler(Once("RUN_INFO", announce))
        logger.addHandler(Once("This was a dry-run", tell))


class Once(logging.Handler):
    """Calls a function at the first record of an event, or whose text begins so."""

    def __init__(self, event: str, function: Callable[[], None]):
        super().__init__()
        self.event, self.function = event, function

    def emit(self, record: Any) -> None:
        name = getattr(getattr(record, "event", None), "name", None)
        if self.event and (name == self.event or str(record.msg).startswith(self.event)):
            self.event = ""
            self.function()


def _adjust(workflow: Any, logger: Any) -> None:
    """Set what no key of a profile can.

    To keep its default limit of 100 jobs per second, Snakemake 9 starts a one-second timer at every scheduling step,
    and each timer makes one more step: hundreds of small jobs then wait for the scheduler. No limit, no timers.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if limit is not None and (limit.max_jobs, limit.timespan) == LIMIT:
        workflow.scheduling_settings.max_jobs_per_timespan = None
    components = workflow.group_settings.group_components
    if "large" in components:
        workflow.group_settings.group_components = Components(components)
    if not workflow.dag_settings.forceall:
        try:
            outdated = stale.outdated(workflow, logger)
        except KoctError as error:
            logger.error(str(error))
            raise SystemExit(1) from None
        workflow.dag_settings.forcerun = {*workflow.dag_settings.forcerun, *outdated}


class Components(dict[str, int]):
    """How many parts of a group travel together. Groups of large jobs have many names, and one entry: `large`."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, self["large"])
