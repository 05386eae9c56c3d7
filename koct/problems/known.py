"""What the operator-aware network knows, and its file: computed once, read by every cell that needs it."""

import importlib
from dataclasses import dataclass
from typing import Any

from koct.files import map_array, write_array, write_record
from koct.operators.algebra import Operator
from koct.problems import PROBLEMS


@dataclass(frozen=True)
class Known:
    """The network is operator(w ∘ x), cut off below zero if images are `nonnegative`.

    `weights` are the w that theory gives (flat), `gram` is the dense RᵀR of the operator R where a fit needs it.
    """

    operator: Operator
    weights: Any
    gram: Any = None
    nonnegative: bool = False

    def reconstruct(self, x):
        """Flat images from flat, weighted sinograms."""
        image = self.operator(x.reshape(-1, *self.operator.domain)).reshape(len(x), -1)
        return image.clip(min=0) if self.nonnegative else image

    def adjoint(self, y):
        """Rᵀ of flat images, flat; nothing is cut off."""
        return self.operator.T(y.reshape(-1, *self.operator.range)).reshape(len(y), -1)


def make(spec, path):
    """Write what the problem's known operator has that is worth keeping: its Gram matrix, and R itself if small."""
    fields = importlib.import_module(PROBLEMS[spec["problem"]]).gram(spec)
    if list(fields) == ["gram"]:
        write_array(path, fields["gram"])  # may be larger than a record can be
    else:
        write_record(path, **fields)


def load(spec, path, where):
    """The known operator of a problem on a device; `path` is its file, or None where the fit does without."""
    record = None
    if path:
        mapped = map_array(path)
        record = {name: mapped[name] for name in mapped.dtype.names} if mapped.dtype.names else {"gram": mapped}
    return importlib.import_module(PROBLEMS[spec["problem"]]).known(spec, record, where)
