"""Checkpoints of a fit by several ranks, which any number of ranks can continue from."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from koct.base.files import write_text
from koct.networks.ranks import Agreed, Ranks


class Checkpoints:
    """A folder with the last state of a fit: `after-120`, written beside it and renamed when it is complete.

    It holds sharded tensors, which any number of ranks can read, and `fit.json`, which says what they belong to.
    """

    def __init__(self, folder: str | Path, fitted: dict[str, Any], ranks: Ranks, seconds: float):
        self.folder, self.ranks, self.seconds = Path(folder), ranks, seconds
        self.fitted = json.loads(json.dumps(fitted))
        self.saved = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for one, by the clock of rank 0."""
        return self.ranks.rank == 0 and time.monotonic() - self.saved >= self.seconds

    def save(self, tensors: dict[str, Any], iteration: int, seconds: float) -> None:
        import torch.distributed.checkpoint as dcp

        temporary, name = self.folder / ".unfinished", f"after-{iteration}"
        with self.ranks.together():
            if self.ranks.rank == 0:
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
        dcp.save(tensors, checkpoint_id=temporary)
        with self.ranks.together():
            if self.ranks.rank == 0:
                about = {"fit": self.fitted, "iteration": iteration, "seconds": seconds}
                write_text(temporary / "fit.json", json.dumps(about, indent=1))
                old = [path for path in self.folder.iterdir() if path != temporary]
                temporary.rename(self.folder / name)
                for path in old:
                    shutil.rmtree(path)
        self.saved = time.monotonic()

    def resume(self, tensors: dict[str, Any]) -> tuple[int, float]:
        """(iteration, seconds of training) of the last checkpoint of this fit, read into `tensors`; (0, 0) without."""
        import torch.distributed.checkpoint as dcp

        found = None
        with self.ranks.together():
            found = self.last() if self.ranks.rank == 0 else None
        found = self.ranks.gather(found)[0]
        if found is None:
            return 0, 0.0
        path, about = found
        try:
            dcp.load(tensors, checkpoint_id=path)
        except (dcp.CheckpointException, OSError, ValueError, KeyError) as error:
            raise Agreed(
                f"the checkpoint {path} cannot be read ({type(error).__name__}): delete it and run again"
            ) from None
        print(f"resumed after iteration {about['iteration']}", flush=True)
        return about["iteration"], about["seconds"]

    def last(self) -> tuple[str, dict[str, Any]] | None:
        """(path, what it says) of the newest checkpoint of this fit, or None."""
        numbered = [path for path in self.folder.glob("after-*") if path.name.removeprefix("after-").isdigit()]
        paths = sorted(numbered, key=lambda path: int(path.name.removeprefix("after-")))
        for path in reversed(paths):
            try:
                about = json.loads((path / "fit.json").read_text(encoding="utf-8"))
                if about["fit"] == self.fitted:
                    return str(path), {"iteration": int(about["iteration"]), "seconds": float(about["seconds"])}
            except (OSError, ValueError, KeyError, TypeError):
                print(f"the checkpoint {path} is damaged and is not used", flush=True)
                continue
            print(f"the checkpoint {path} is of another fit and is not used", flush=True)
        return None
