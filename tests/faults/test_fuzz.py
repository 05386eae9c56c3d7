"""A few hundred damaged inputs for every reader. `python -m tests.faults.fuzz` throws as many as one likes."""

import pytest

from tests.faults.fuzz import READERS, fuzz

INPUTS = 150  # for each reader, and fewer for a slow one


@pytest.mark.parametrize("name", READERS)
def test_an_input_is_read_or_refused_with_a_sentence(name, tmp_path):
    count = round(INPUTS * min(1, READERS[name].share))
    tally = fuzz(name, count, 1, tmp_path / "fuzz")
    assert [text for text, _ in tally.others] == []
    assert tally.inputs == tally.accepted + tally.refused == count
    assert tally.refused > 0
