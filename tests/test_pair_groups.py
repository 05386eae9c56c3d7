"""Pairs that belong to groups: how groups are drawn, counted and costed, and those of a problem of one's own."""

import numpy as np
import pytest
from pair_files import PAIRS, SIZES, SWEEP, arrays

from koct.config import study_file as config
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.problems import pools
from koct.study import cells


def parts_by_group(problem, seed, sizes, content):
    place = {row.tobytes(): i for i, row in enumerate(content["x"])}
    found = {part: [] for part in pools.PARTS}
    for part, x, _ in problem.pairs(seed, sizes):
        found[part] += [int(content["group"][place[row.tobytes()]]) for row in x]
    return found


def test_no_group_is_divided_and_seeds_draw_groups(folder):
    content = arrays(40)
    np.savez("d.npz", **content)
    problem, sizes = PAIRS(data="d.npz", group="group"), Sizes(train=12, val=4, test=6)
    one, two = (parts_by_group(problem, seed, sizes, content) for seed in (1, 2))
    count = np.bincount(content["group"])
    for found in (one, two):
        for part, groups in found.items():
            distinct = list(dict.fromkeys(groups))
            assert len(distinct) == getattr(sizes, part)
            assert groups == [group for group in distinct for _ in range(count[group])]  # whole, and side by side
        assert len(set().union(*found.values())) == sizes.total
    assert (one["val"], one["test"]) == (two["val"], two["test"])
    assert set(one["train"]) != set(two["train"])
    larger = parts_by_group(problem, 1, Sizes(train=20, val=4, test=6), content)
    assert larger["train"][: len(one["train"])] == one["train"]  # pools are nested
    other = parts_by_group(PAIRS(data="d.npz", group="group", split=1), 1, sizes, content)
    assert other["test"] != one["test"]


def test_a_cell_takes_all_pairs_of_its_first_groups(folder):
    content = arrays()
    np.savez("d.npz", **content)
    problem = PAIRS(data="d.npz", group="group")
    pools.make(problem, 3, SIZES, "pool.npy")
    sizes = problem.groups(3, SIZES)["train"]
    pool = pools.Pool("pool.npy", problem, 3)
    assert pool.groups == problem.groups(3, SIZES)
    for N in (1, 4, 6):
        data = cells.Data(Cell("mine", problem, registry.architecture("fc")(), N, 3, (1.0,)), {"pool": "pool.npy"})
        assert data.N == len(data.x) == sum(sizes[:N])
    _, network = cells.fit(data)
    assert data.predict(network, "test").shape == (sum(pool.groups["test"]), 6)
    with pytest.raises(KoctError, match="holds 6 train groups and 7 were asked for: make the pool larger"):
        pool.pairs_of("train", 7)


def test_costs_count_pairs_and_no_curve_of_groups_is_predicted(folder):
    np.savez("d.npz", **arrays())
    sweep = config.build("mine", {**SWEEP, "data": "d.npz", "group": "group"})
    most = max(sum(sweep.problem.groups(seed, SIZES)["train"][:6]) for seed in (1, 2))
    work = sweep.workload(sweep.archs[0], 6)
    assert work.N == sweep.pairs_of(6) == most > 6
    assert work.sizes.test == sum(sweep.problem.groups(1, SIZES)["test"])
    assert not sweep.predicted
    assert "N counts groups" in sweep.no_theory_pool
    plain = config.build("mine", {**SWEEP, "data": "d.npz"})
    assert plain.workload(plain.archs[0], 6).sizes is plain.sizes
    assert plain.predicted


GROUPED = """
import numpy as np

from koct.contracts import Problem


class Own(Problem):
    x_shape = (2,)
    y_shape = (3,)

    def groups(self, seed, sizes):
        return {groups}

    def pairs(self, seed, sizes):
        x = np.arange(20.0).reshape(10, 2)
        yield "train", x[:5], np.ones((5, 3)) * x[:5, :1]
        yield "val", x[5:7], np.ones((2, 3)) * x[5:7, :1]
        yield "test", x[7:], np.ones((3, 3)) * x[7:, :1]
"""


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("{'train': [2, 3], 'val': [2], 'test': [1, 2]}", None),
        ("{'train': [5], 'val': [2], 'test': [1, 2]}", "groups gave 1 train groups and pool.train asks for 2"),
        ("{'train': [5, 0], 'val': [2], 'test': [1, 2]}", "groups gave a train group without pairs"),
        ("{'train': [2, 2], 'val': [2], 'test': [1, 2]}", "pairs gave 5 train pairs and its groups have 4"),
    ],
)
def test_groups_of_a_problem_of_ones_own(folder, groups, message):
    (folder / "own.py").write_text(GROUPED.replace("{groups}", groups))
    problem, sizes = registry.problem(str(folder / "own.py"))(), Sizes(train=2, val=1, test=2)
    if message is None:
        pools.make(problem, 1, sizes, "pool.npy")
        assert pools.Pool("pool.npy", problem).pairs_of("train", 1) == 2
        return
    with pytest.raises(KoctError, match=r"own\.py, line \d+: .*" + message):
        pools.make(problem, 1, sizes, "pool.npy")
