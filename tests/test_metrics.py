"""The metrics, and those of every test image."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import TINY

from koct import metrics
from koct.base.stamps import Stamp
from koct.config import study_file
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.study import results

SHAPES = [(7, 7), (8, 32), (33, 20), (150, 140), (9, 8, 10), (30,), (16, 12, 2)]


def pairs(shape, n=3, seed=0):
    """(predicted, y), flat: noise on smooth images."""
    rng = np.random.default_rng(seed)
    y = rng.random((n, math.prod(shape))).cumsum(axis=1) % 2 - 0.3
    return y + 0.2 * rng.standard_normal(y.shape), y


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_those_of_scikit_image(shape):
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    predicted, y = pairs(shape)
    channels = {"channel_axis": -1} if len(shape) > 1 and shape[-1] < 7 else {}
    ssim = [
        structural_similarity(b.reshape(shape), a.reshape(shape), data_range=b.max() - b.min(), **channels)
        for a, b in zip(predicted, y, strict=True)
    ]
    psnr = [peak_signal_noise_ratio(b, a, data_range=np.abs(b).max()) for a, b in zip(predicted, y, strict=True)]
    found = metrics.each(predicted, y, shape)
    np.testing.assert_allclose(found["ssim"], ssim, rtol=1e-12)
    np.testing.assert_allclose(found["psnr"], psnr, rtol=1e-12)


def test_metrics_by_hand():
    y = np.array([[0.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    predicted = np.array([[0.0, 1.0], [3.0, 1.0], [1.0, 1.0]])
    images = metrics.each(predicted, y, (2,))
    got = metrics.errors(predicted, y, images)
    assert got["mse"] == pytest.approx((1 + 9 + 2) / 6)
    assert got["rrmse_peak"] == pytest.approx((np.sqrt(1 / 2) / 2 + np.sqrt(9 / 2) / 4) / 2)
    assert got["rrmse_norm"] == pytest.approx((1 / 2 + 3 / 5) / 2)  # the empty image has no relative error
    assert got["psnr"] == pytest.approx(10 * np.log10(2 * 4 * 16 * 2 / 9) / 2)
    assert got["ssim"] is None  # too small for a window
    np.testing.assert_allclose(images["mse"], [1 / 2, 9 / 2, 2 / 2])
    np.testing.assert_allclose(images["rrmse_norm"], [1 / 2, 3 / 5, np.nan])
    np.testing.assert_allclose(images["rrmse_peak"], [np.sqrt(1 / 2) / 2, np.sqrt(9 / 2) / 4, np.nan])
    with pytest.raises(KoctError, match="every image is empty"):
        metrics.errors(predicted, 0 * y, metrics.each(predicted, 0 * y, (2,)))


OWN = """
import numpy as np

SYMBOL, UNIT, DESCRIPTION = "largest error", "1", "largest absolute error, averaged over images"


def error(predicted, y):
    return float(np.mean(np.abs(predicted - y).max(axis=1)))
"""


@pytest.fixture
def study(folder):
    """A config with a metric of one's own, in a file with this text; afterwards it is no metric any more."""

    def read(text=OWN, name="largest.py"):
        (folder / name).write_text(text)
        sweep = {**TINY["sweeps"]["T4"], "metric": "largest"}
        return study_file.read({**TINY, "metrics": [name], "sweeps": {"T4": sweep}})

    yield read
    metrics.use(())


def test_a_metric_of_ones_own_is_a_column_and_may_be_that_of_a_curve(study):
    (sweep,) = study()
    assert sweep.metric == "largest"
    assert metrics.names()[-1] == "largest"
    predicted, y = pairs((8, 8))
    found = metrics.each(predicted, y, (8, 8))
    np.testing.assert_allclose(found["largest"], np.abs(predicted - y).max(axis=1))
    assert metrics.errors(predicted, y, found)["largest"] == pytest.approx(found["largest"].mean())
    assert CurveMetric("largest2").label == "largest error$^2$"
    metrics.use(())
    with pytest.raises(KoctError, match=r"sweeps\.T4\.metric = 'largest' must be one of mse, "):
        study_file.read({**TINY, "sweeps": {"T4": {**TINY["sweeps"]["T4"], "metric": "largest"}}})


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (OWN, "mse.py", r"metrics has mse\.py, whose name is taken; rename it"),
        (OWN, "seed.py", r"metrics has seed\.py, whose name is taken; rename it"),
        (OWN, "error2.py", "no 2 at the end"),
        (OWN, "largest.txt", r"give a \.py file"),
        (OWN.replace("UNIT,", "UNITS,"), "largest.py", r"metrics has largest\.py, which lacks UNIT; docs/your-own"),
        (OWN + "1 / 0", "largest.py", r"largest\.py, line 9: ZeroDivisionError"),
    ],
)
def test_a_metric_that_cannot_be_used_is_one_sentence(study, text, name, message):
    with pytest.raises(KoctError, match=message):
        study(text, name)


# images.parquet


def rows(same=True, groups=None, count=4):
    """Rows of cells with the metrics of their test images."""
    rng, found = np.random.default_rng(1), []
    for arch in ("ko", "fc"):
        for N in (4, 8):
            for seed in (1, 2):
                values = {name: rng.random(count).tolist() for name in metrics.names()}
                values["rrmse_norm"][2] = None
                kept = {"same": same, "groups": groups, **values}
                found.append({"sweep": "A", "arch": arch, "N": N, "seed": seed, "images": kept})
    return found


def written(path, cells):
    results.write_images(cells, path, {}, Stamp({}))
    return results.Images(path)


def test_images_are_kept_with_their_nulls_and_units(tmp_path):
    cells = rows()
    found = written(tmp_path / "images.parquet", cells)
    table = pq.ParquetFile(tmp_path / "images.parquet").read()
    assert table.column_names == results.IMAGES
    assert table.schema.field("psnr").metadata[b"unit"] == b"dB"
    assert table["rrmse_norm"].null_count == len(cells)
    errors = found.errors("A", "fc", 8, "mse")
    assert errors.seeds == (1, 2)
    expected = [row["images"]["mse"] for row in cells if (row["arch"], row["N"]) == ("fc", 8)]
    np.testing.assert_allclose(errors.values, expected, rtol=1e-7)
    assert found.errors("A", "fc", 8, "rrmse_norm").values.shape == (2, 3)
    with pytest.raises(KoctError, match="has no mse of fc of A at N = 16"):
        found.errors("A", "fc", 16, "mse")
    assert written(tmp_path / "images.parquet", []).columns["mse"].size == 0


def test_images_know_their_seed_and_their_group(tmp_path):
    errors = written(tmp_path / "images.parquet", rows(groups=[3, 1])).errors("A", "ko", 4, "rrmse_norm")
    assert errors.groups.tolist() == [0, 0, 1]
    cells = rows(same=False)
    found = written(tmp_path / "images.parquet", cells)
    assert set(found.columns["image"]) == set(range(8))
    errors = found.errors("A", "ko", 4, "mse")
    np.testing.assert_allclose(errors.values[:, 0], [np.mean(row["images"]["mse"]) for row in cells[:2]], rtol=1e-7)
