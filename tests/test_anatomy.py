"""Slices of a brain: they lie in other slabs for training and test, and without nilearn one is told what to install."""

import numpy as np
import pytest

from koct.contracts import Sizes
from koct.contracts.registry import problem
from koct.problems import anatomy
from koct.study.cells import checked_layers

SCAN = {"H": 16, "V": 10, "B": 16}
SIZES = Sizes(train=40, val=5, test=6)


def drawn(seed=1, **options):
    found = {}
    for part, x, y in problem("anatomy")(**SCAN, **options).pairs(seed, SIZES):
        found.setdefault(part, []).append((x, y))
    return {part: tuple(map(np.concatenate, zip(*chunks, strict=True))) for part, chunks in found.items()}


def test_ellipses_are_those_of_the_fan_beam_and_need_no_package(monkeypatch):
    monkeypatch.setattr(anatomy, "template", lambda: None)
    same = problem("fanbeam")(**SCAN, rays="exact")
    x, stored = next((x, y) for part, x, y in same.pairs(3, Sizes(train=20, val=1, test=1)) if part == "train")
    found = drawn(3, learned="ellipses", tested="ellipses")["train"]
    np.testing.assert_allclose(found[1][:20], same.decode(stored), atol=1e-6)
    np.testing.assert_allclose(found[0][:20], x, atol=1e-4)
    assert not list(problem("anatomy")(**SCAN, learned="ellipses", tested="ellipses").check((1,), SIZES))
    (sentence,) = problem("anatomy")(**SCAN, learned="ellipses").check((1,), SIZES)
    assert "pip install 'koct[anatomy]'" in sentence


@pytest.mark.skipif(not anatomy.template(), reason="nilearn is not installed: pip install 'koct[anatomy]'")
def test_slices_of_a_part_are_in_its_slabs_and_held_out_ones_stay(monkeypatch):
    pytest.importorskip("nibabel")
    made = problem("anatomy")(**SCAN, learned="anatomy")
    assert not list(made.check((1,), SIZES))
    assert len(made.files()) == 1
    one, two = drawn(1, learned="anatomy"), drawn(2, learned="anatomy")
    for part in ("val", "test"):
        np.testing.assert_array_equal(one[part][1], two[part][1])
    assert not np.array_equal(one["train"][1], two["train"][1])
    assert 0 <= one["train"][1].min() < 0.01 < 0.7 < one["train"][1].max() <= 1
    image = one["test"][1][:1]
    np.testing.assert_allclose(made.forward({})(image), one["test"][0][:1], rtol=1e-5)
    assert len(checked_layers(made, {})) == 3
    mixed = drawn(1, learned="ellipses", tested="anatomy")
    np.testing.assert_array_equal(mixed["test"][1], one["test"][1])
    heights = np.broadcast_to(np.arange(189.0), (197, 233, 189))  # every pixel says how high it lies
    monkeypatch.setattr(anatomy, "volume", lambda: heights)
    seen = {part: {anatomy.brain(np.random.default_rng(i), part, 8).max() for i in range(300)} for part in one}
    assert {len(heights) for heights in seen.values()} == {18, 36}
    closest = min(abs(a - b) for a in seen["train"] for b in seen["val"] | seen["test"])
    assert closest >= 3  # mm: two slices between them
