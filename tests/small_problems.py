"""Every shipped problem but those that read files, small, and the pairs that it draws."""

import numpy as np

from koct.contracts import Sizes, registry

OPTIONS = {
    "fanbeam": {"H": 12, "V": 10, "B": 16, "rays": "exact"},
    "parallelbeam": {"H": 12, "V": 10, "B": 16, "photons": 1e4, "electronic": 3.0, "truncation": 0.25},
    "misaligned": {"H": 8, "V": 6, "B": 8, "gain": 10.0},
    "ellipses50": {"H": 8, "V": 6, "B": 12},
    "scan": {"data": "ellipses", "field": 200.0, "H": 8, "V": 6, "B": 12, "photons": 1e4},
    "anatomy": {"H": 8, "V": 6, "B": 8, "images": "ellipses"},  # which needs no package
    "surrogate": {"H": 8, "V": 10, "B": 8, "tikhonov": 0.1},
    "mri": {"H": 8, "spokes": 5, "samples": 8, "noise": 0.01},
    "mri with a phase": {"H": 8, "spokes": 5, "samples": 8, "noise": 0.01, "phase": 1.0},
    "deblur": {"H": 16, "blur": 0.8, "noise": 0.01, "vignetting": 0.3},
}


def small(name, **options):
    return registry.problem(name.split()[0])(**{**OPTIONS[name], **options})


def drawn(problem, seed=1, train=70, val=5, test=6):
    """All pairs of a pool: {part: (measurements, images)}."""
    found = {}
    for part, x, y in problem.pairs(seed, Sizes(train=train, val=val, test=test)):
        found.setdefault(part, []).append((x, problem.decode(y)))
    return {part: tuple(map(np.concatenate, zip(*chunks, strict=True))) for part, chunks in found.items()}
