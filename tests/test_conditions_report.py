"""Where one curve overtakes another; the table of conditions is compared with that of the reference (test_products)."""

import numpy as np
import pytest

from koct.forecast.crossing import overtaken

SIZES = np.array([4, 16, 64, 256])


@pytest.mark.parametrize("crossing", [5.0, 16.0, 23.0, 200.0])
def test_power_laws_cross_where_they_cross(crossing):
    flat, steep = SIZES**-0.1, SIZES**-0.6
    steep = steep * crossing**0.5
    assert overtaken(SIZES, flat, steep) == pytest.approx(crossing)
    assert overtaken(SIZES[::-1], flat[::-1], steep[::-1]) == pytest.approx(crossing)  # in any order of N
    assert overtaken(SIZES, steep, flat) is None  # below at first, and not at the end


@pytest.mark.parametrize(
    ("error", "other", "expected"),
    [
        ([2, 2, 2, 2], [1, 1, 1, 1], 4),  # always below
        ([1, 1, 1, 1], [2, 1, 1, 1], None),  # equal is not below
        ([2, 1, 2, 2], [1, 2, 2, 1], 64),  # below, above, equal, below: from where it stays below
        ([2, 2, 2, 2], [3, 3, 3, 0], 256),  # no logarithm of zero
    ],
)
def test_what_counts_is_the_last_change(error, other, expected):
    assert overtaken(SIZES, error, other) == expected
