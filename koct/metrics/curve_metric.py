"""The metric of a curve: how a metric is averaged over seeds, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from koct.errors import KoctError
from koct.metrics import column, load


@dataclass(frozen=True)
class CurveMetric:
    """What a curve shows: a metric's mean over seeds, or with a 2 behind the name the square of that mean."""

    name: str

    @property
    def column(self) -> str:
        return column(self.name)

    @property
    def squared(self) -> bool:
        return self.column != self.name

    @property
    def label(self) -> str:
        """Return the name in LaTeX."""
        metric = load(self.column)
        above, below = "^2" if self.squared else "", getattr(metric, "SUBSCRIPT", "")
        marks = above + (rf"_{{\mathrm{{{below}}}}}" if below else "")
        return metric.SYMBOL + (f"${marks}$" if marks else "")

    def of(self, row: dict[str, Any]) -> float:
        """Return the metric of one cell."""
        return self.mean([row])

    def mean(self, rows: Sequence[dict[str, Any]]) -> float:
        """Return the mean over cells; a relative error is averaged first and squared then, as the paper does."""
        values: list[Any] = [row.get(self.column) for row in rows]
        if None in values:
            of = " ".join(str(rows[0][key]) for key in ("sweep", "arch") if key in rows[0])
            raise KoctError(f"cells of {of} were made without {self.column}; run their study again for this metric")
        mean = float(np.mean(values))
        return mean**2 if self.squared else mean
