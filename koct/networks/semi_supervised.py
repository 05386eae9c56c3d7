"""Semi-supervised: the learned primal–dual network, learned from N pairs and from further scans without images.

A step takes a batch of either. The loss is that of `lpd` for the pairs, plus that of `equivariant` for the scans.
"""

from __future__ import annotations

from typing import Any

from koct.contracts import Cost, Workload, option
from koct.networks.equivariant import EquivariantArchitecture


class SemiSupervised(EquivariantArchitecture):
    colour = "#689f38"
    marker = "H"

    more_scans: int = option(  # type: ignore[misc]
        "scans without images, which N does not count: of the training samples behind the N pairs", minimum=1
    )
    # of 0.1, 0.3, 1, 3 and 10 the best with 4 and with 16 pairs, and 64 more scans, of ellipses at H = 16
    share: float = option("weight of the loss of scans, beside that of pairs", default=3.0, above=0)

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"pairs + {self.more_scans:,} scans"

    def scan_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        return self.share * super().scan_losses(module, inputs, targets)

    def multiplications(self, work: Workload) -> float:
        return 4 * super().multiplications(work)

    def cost(self, work: Workload) -> Cost:
        fitted, further = super().cost(work) or Cost(), 16.0 * (work.sizes.train - work.N) * work.x_size  # at most
        return fitted._replace(host_bytes=fitted.host_bytes + further, gpu_bytes=fitted.gpu_bytes + further)
