"""Files of pairs for tests: arrays with groups, and CT slices of patients made from the one that pydicom ships."""

from dataclasses import asdict

import numpy as np
import pytest

from koct.config import study_file as config
from koct.contracts import Sizes, registry
from koct.errors import KoctError

pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed: pip install 'koct[files]'")
from pydicom.data import get_testdata_file  # noqa: E402

PAIRS = registry.problem("pairs")
SIZES = Sizes(train=6, val=2, test=3)
SWEEP = {"problem": "pairs", "pool": asdict(SIZES), "N": [2, 6], "seeds": [1, 2], "archs": ["fc"], "lambdas": [1.0]}
SWEEP["metric"] = "mse"


def arrays(groups=14):
    """Groups of one to three pairs, in no order."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(groups), 1 + np.arange(groups) % 3))
    return {"x": rng.standard_normal((len(group), 5)), "y": rng.standard_normal((len(group), 3, 2)), "group": group}


def ct(path, patient, pixels=None, **changes):
    """A slice like pydicom's CT_small.dcm, with other pixels."""
    dataset = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False))
    if pixels is not None:
        dataset.PixelData = np.asarray(pixels, np.int16).tobytes()
        dataset.Rows, dataset.Columns = pixels.shape
    dataset.PatientID = patient
    for name, value in changes.items():
        setattr(dataset, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(path)


def patients(folder, count=11, each=2, size=16):
    """Squares of the one real slice, as if each came from another patient."""
    whole = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False)).pixel_array
    for i in range(count * each):
        top, left = divmod(9 * i, 100)
        square = whole[8 * top : 8 * top + size, left:][:, :size]
        ct(folder / f"p{i // each}" / f"{i % each}.dcm", f"p{i // each}", square, SOPInstanceUID=f"1.2.{i}")


def said(**changes):
    """What a config says about a sweep."""
    entry = {**SWEEP, **changes}
    with pytest.raises(KoctError) as caught:
        config.read({"study": "s", "studies": {"s": ["mine"]}, "sweeps": {"mine": entry}})
    assert "\n" not in str(caught.value)
    return str(caught.value)
