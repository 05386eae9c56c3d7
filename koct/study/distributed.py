"""One cell fitted by several processes, which torchrun starts: every rank fits, rank 0 alone prints and writes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from typing import Any

from koct.base.device import failures_explained
from koct.contracts.blame import blamed
from koct.errors import KoctError
from koct.networks.ranks import Agreed, Interrupted, Ranks
from koct.study import cells, fitting

INTERRUPTED = 75  # exit status (EX_TEMPFAIL) of a job that a signal ended after a checkpoint


def fit(data: cells.Data, fit_path: str, spec: Mapping[str, Any]) -> int:
    """Fit a cell with all ranks and write it; returns the exit status."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise KoctError(f"{data.cell.arch.name} needs torch: pip install 'koct[torch]'") from None
    data.ranks = ranks = Ranks()
    if ranks.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # until the process ends
    try:
        with failures_explained(), blamed(data.cell.problem.source, data.cell.arch.source):
            started = time.perf_counter()
            ((lam, network),) = fitting.fits(data)
            about = fitting.describe(data, lam, network, time.perf_counter() - started)
            if ranks.size > 1:
                about["device"] += f" × {ranks.size}"
            cells.write_fit(fit_path, data.stamp(spec, about), network, write=ranks.rank == 0)
            ranks.gather(None)  # nobody leaves before rank 0 has written
            if ranks.rank == 0 and data.checkpoints:
                shutil.rmtree(data.checkpoints, ignore_errors=True)
    except Interrupted:
        ranks.end()
        return INTERRUPTED
    except Agreed:
        ranks.end()
        if not ranks.rank:
            raise
        return 2
    ranks.end()
    return 0
