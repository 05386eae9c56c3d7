"""A sweep of the study."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from koct.base import FRESH
from koct.contracts import Architecture, Cost, Part, Problem, Sizes, Workload, option
from koct.contracts.options import Configured, options

FIRST_THEORY_SEED = 101
ENOUGH_THEORY_PAIRS = 2048
MOST_THEORY_PAIRS = 4096  # an eigendecomposition of that size takes a core half a minute
SEARCHED = 9  # strengths λ that a search takes, about
SIGNAL = 16  # samples of a signal to look at


class Grid(Configured):
    """The keys of every sweep beside its problem and its architectures: each is declared here alone."""

    pool: Sizes = option("pairs drawn per seed")
    N: tuple[int, ...] = option(
        "two or more training-set sizes up to `pool.train`; `fresh`: new pairs in every training step, or all"
        " of the pool without steps",
        items=2,
        minimum=2,
        words={"fresh": FRESH},
    )
    seeds: tuple[int, ...] = option(
        "seeds of the pools, over which errors are averaged", items=1, minimum=0, maximum=2**31 - 1
    )
    lambdas: tuple[float, ...] = option(
        "regularisation strengths to try; by default λ is searched to half a power of ten",
        default=(),
        above=0,
    )
    metric: str = option("error of curves, calibration and figures")
    targets: tuple[float, ...] = option("target errors for `budget.parquet`", default=(), above=0)
    tested_on: tuple[str, ...] = option(
        "other sweeps of the study whose test pairs also test these networks: `transfer.parquet`; if "
        "measurements differ in shape, only networks that can take other operators",
        default=(),
    )
    theory: bool = option(
        "predict curves before any fit, from a pool of another seed",
        default=True,
    )


class Sweep(Grid):
    """One sweep: a problem with its options, and the grid of cells on it.

    `archs` are those of the grid, `required` those whose cells they read.
    """

    name: str
    problem: Problem
    archs: tuple[Architecture, ...]
    required: tuple[Architecture, ...]

    @property
    def fit_keys(self) -> dict[str, Any]:
        """The keys that fits are given, beside lambdas."""
        declared = {name: key for name, key in options(Grid).items() if key.fit}
        return {name: getattr(self, name) for name, key in declared.items() if key.told(getattr(self, name))}

    @property
    def networks(self) -> tuple[Architecture, ...]:
        """The architectures that are trained: those with a curve."""
        return tuple(arch for arch in self.archs if arch.trained)

    @property
    def pictured(self) -> bool:
        """Whether a figure shows its reconstructions: images, or signals of more than a few samples."""
        shape = self.problem.y_shape
        return self.problem.pictured and (len(shape) == 2 or (len(shape) == 1 and shape[0] >= SIGNAL))

    @property
    def contained(self) -> list[tuple[str, str]]:
        """The names (container, contained) of architectures of which one contains the other, fitted in the same way."""
        archs = itertools.permutations(self.archs, 2)
        return [(arch.name, other.name) for arch, other in archs if arch.contains(other)]

    @property
    def theory_seed(self) -> int:
        """Return the seed of the pool that curves are predicted from: one that no cell uses."""
        return next(seed for seed in itertools.count(FIRST_THEORY_SEED) if seed not in self.seeds)

    @property
    def predicted(self) -> tuple[Architecture, ...]:
        """The architectures whose curves are predicted."""
        wanted = self.theory and not self.no_theory_pool
        alone = [arch for arch in self.networks if arch.launch == "process" and not arch.requires_cell]
        return tuple(arch for arch in alone if wanted and arch.predicted)

    @property
    def no_theory_pool(self) -> str:
        """Why the problem draws no pool that curves could be predicted from; empty if it does."""
        if self.groups:
            return "N counts groups, and predictions are about single pairs"
        if self.problem.field_of_view() is not None:
            return "images are compared in the field of view, and predictions are about whole images"
        return "; ".join(self.problem.check((self.theory_seed,), self.pool))

    @property
    def theory_pairs(self) -> int:
        """What predictions are made from."""
        return min(self.pool.total, max(*self.N, ENOUGH_THEORY_PAIRS), MOST_THEORY_PAIRS)

    def predicted_at(self, arch: Architecture) -> tuple[int, ...]:
        """The N of predictions: those of the grid and, where that needs no fits, octaves up to the pairs at hand."""
        more = [max(self.sizes_of(arch)) * factor for factor in (2, 4, 8)] if arch.predicted != "subsets" else []
        sizes = [N for N in self.sizes_of(arch) if N != FRESH]
        return (*sizes, *(N for N in more if self.theory_pairs >= N))

    @cached_property
    def groups(self) -> list[Mapping[Part, Sequence[int]]]:
        """How many pairs each group, such as a patient, of every seed's pool has; empty if N counts pairs."""
        each = (self.problem.groups(seed, self.pool) for seed in self.seeds)
        return [groups for groups in each if groups is not None]

    def pairs_of(self, N: int) -> int:
        """The pairs of N training samples: N, or as many as the first N groups of a seed have at most.

        Where they are fresh, those of the pool, which linear networks get.
        """
        if N == FRESH:
            return self.sizes_in_pairs.train
        return max((sum(groups["train"][:N]) for groups in self.groups), default=N)

    @cached_property
    def sizes_in_pairs(self) -> Sizes:
        """Return the sizes of the largest pool of a seed."""
        if not self.groups:
            return self.pool
        parts: tuple[Part, ...] = ("train", "val", "test")
        return Sizes(**{part: max(sum(groups[part]) for groups in self.groups) for part in parts})

    def arch(self, name: str) -> Architecture:
        """The architecture of a name, or of what config.yaml calls it."""
        return next(arch for arch in self.archs + self.required if name in (arch.name, arch.source))

    def sizes_of(self, arch: Architecture) -> tuple[int, ...]:
        """The N of an architecture's cells: 0 for what needs no sample."""
        if not arch.trained:
            return (0,)
        return self.N if arch.N is None else arch.N

    def most_of(self, arch: Architecture) -> int:
        """Return the N of the cell with the most samples; fresh ones are more than any."""
        sizes = self.sizes_of(arch)
        return FRESH if FRESH in sizes else max(sizes)

    def seeds_of(self, arch: Architecture) -> tuple[int, ...]:
        """The seeds of an architecture's cells: one, if nothing of what it sees depends on the seed."""
        return self.seeds[:1] if not arch.trained and self.problem.same_held_out else self.seeds

    def grid(self) -> Iterator[dict[str, Any]]:
        """sweep, arch, N and seed of every cell, as wildcard values."""
        for arch in self.archs:
            for N, seed in itertools.product(self.sizes_of(arch), self.seeds_of(arch)):
                yield {"sweep": self.name, "arch": arch.name, "N": N, "seed": seed}

    def test_seed(self, seed: int) -> int:
        """Return the seed of its pool that tests a network of another sweep and this seed."""
        return seed if seed in self.seeds and not self.problem.same_held_out else self.seeds[0]

    def transfers(self, study: Mapping[str, Sweep]) -> Iterator[dict[str, Any]]:
        """The wildcard values of `grid`, and the sweep whose test pairs are taken, of every network that takes them."""
        for other, cell in itertools.product(self.tested_on, self.grid()):
            same = study[other].problem.x_shape == self.problem.x_shape
            if cell["N"] and (same or self.arch(cell["arch"]).moves):
                yield {**cell, "other": other}

    def workload(self, arch: Architecture, N: int) -> Workload:
        problem, count = self.problem, (len(self.lambdas) or SEARCHED) if arch.uses_lambdas else 1
        layers = problem.cost("layers", self.pool) or Cost(problem.x_size * problem.y_size)
        return Workload(problem.x_size, problem.y_size, self.pairs_of(N), self.sizes_in_pairs, count, layers)
