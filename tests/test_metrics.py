"""The metrics, and those of every test image."""

import itertools
import json
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, TINY, TINY_SWEEP

from koct import metrics
from koct.base.stamps import Stamp
from koct.config import study_file
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.problems import pools
from koct.study import cells, evaluation, fitting, results
from koct.workflow.jobs import Jobs


def pairs(shape):
    """(predicted, y), flat: noise on smooth images."""
    rng = np.random.default_rng(0)
    y = rng.random((3, math.prod(shape))).cumsum(axis=1) % 2 - 0.3
    return y + 0.2 * rng.standard_normal(y.shape), y


@pytest.mark.parametrize("shape", [(7, 7), (8, 32), (150, 140), (9, 8, 10), (30,), (16, 12, 2)])
def test_scores_are_those_of_scikit_image(shape):
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    predicted, y = pairs(shape)
    channels = {"channel_axis": -1} if len(shape) > 1 and shape[-1] < 7 else {}
    found = metrics.each(predicted, y, shape)
    for a, b, ssim, psnr in zip(predicted, y, found["ssim"], found["psnr"], strict=True):
        images = b.reshape(shape), a.reshape(shape)
        expected = structural_similarity(*images, data_range=b.max() - b.min(), **channels)
        assert ssim == pytest.approx(expected, rel=1e-12)
        assert psnr == pytest.approx(peak_signal_noise_ratio(*images, data_range=np.abs(b).max()), rel=1e-12)


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

    def read(text=OWN, name="largest.py", **changes):
        (folder / name).write_text(text)
        sweep = {**TINY_SWEEP, "metric": "largest"}
        return study_file.read({**TINY, "metrics": [name], "sweeps": {"T4": sweep}, **changes})

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
    with pytest.raises(KoctError, match=r"sweeps\.T4\.metric = 'largest' must be one of mse, "):
        study(metrics=())


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


def test_a_metric_finds_modules_beside_it(folder):
    """Also in a job that has imported nothing else of that folder."""
    (folder / "mine").mkdir()
    (folder / "mine/scale.py").write_text("SCALE = 3")
    (folder / "mine/largest.py").write_text("from scale import SCALE")
    code = "from koct import metrics; metrics.use(['mine/largest.py']); print(metrics.load('largest').SCALE)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_a_metric_that_changes_what_it_is_given_changes_no_other(folder):
    own = "SYMBOL, UNIT, DESCRIPTION = 'e', '1', 'e'\n\ndef error(predicted, y):\n    predicted -= y\n    return 1.0\n"
    (folder / "aaa.py").write_text(own)
    problem = registry.problem("deblur")(H=8, blur=0.5, noise=0.01)
    pools.make(problem, 1, Sizes(train=4, val=2, test=3), "pool.npy")
    data = cells.Data(Cell("S", problem, registry.architecture("fc")(), 4, 1, (1.0,)), {"pool": "pool.npy"})
    (_, network), *_ = fitting.fits(data)
    metrics.use(["aaa.py"])
    try:
        with pytest.raises(KoctError, match=r"aaa\.py, line 4: ValueError: .*read-only"):
            evaluation.errors(network, data)
    finally:
        metrics.use([])


# images.parquet


def written(path, same=True, groups=None):
    """(Rows of cells with the metrics of their test images, what images.parquet has of them.)"""
    rng, rows = np.random.default_rng(1), []
    for arch, N, seed in itertools.product(("ko", "fc"), (4, 8), (1, 2)):
        values = {name: rng.random(4).tolist() for name in metrics.names()}
        values["rrmse_norm"][2] = None
        kept = {"same": same, "groups": groups, **values}
        rows.append({"sweep": "A", "arch": arch, "N": N, "seed": seed, "images": kept})
    results.write_images(rows, path, {}, Stamp({}))
    return rows, results.Images(path)


def test_images_are_kept_with_their_nulls_and_units(tmp_path):
    cells, found = written(tmp_path / "images.parquet")
    table = pq.ParquetFile(tmp_path / "images.parquet").read()
    assert table.column_names == results.IMAGES
    assert table.schema.field("psnr").metadata[b"unit"] == b"dB"
    assert table["rrmse_norm"].null_count == len(cells)
    errors = found.errors("A", "fc", 8, "mse")
    assert errors.seeds == (1, 2)
    np.testing.assert_allclose(errors.values, [row["images"]["mse"] for row in cells[-2:]], rtol=1e-7)
    assert found.errors("A", "fc", 8, "rrmse_norm").values.shape == (2, 3)
    with pytest.raises(KoctError, match="has no mse of fc of A at N = 16"):
        found.errors("A", "fc", 16, "mse")
    results.write_images([], tmp_path / "images.parquet", {}, Stamp({}))
    assert results.Images(tmp_path / "images.parquet").columns["mse"].size == 0


def test_images_know_their_seed_and_their_group(tmp_path):
    _, found = written(tmp_path / "images.parquet", groups=[3, 1])
    assert found.errors("A", "ko", 4, "rrmse_norm").groups.tolist() == [0, 0, 1]
    cells, found = written(tmp_path / "images.parquet", same=False)
    assert set(found.columns["image"]) == set(range(8))
    errors = found.errors("A", "ko", 4, "mse")
    np.testing.assert_allclose(errors.values[:, 0], [np.mean(row["images"]["mse"]) for row in cells[:2]], rtol=1e-7)


# Results that were made before there was a metric


@pytest.fixture
def newer(tmp_path):
    """(status, stdout and stderr) of koct with one more metric than the reference has."""
    tmp_path.joinpath("largest.py").write_text(OWN)

    def run(*arguments):
        command = [sys.executable, "-m", "koct", *map(str, arguments)]
        there = {**os.environ, "KOCT_METRICS": json.dumps([str(tmp_path / "largest.py")]), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=there)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.long
def test_tables_without_a_new_metric_are_read_and_what_needs_it_says_so(newer, tmp_path):
    folder = ROOT / "results/reference"
    cells = folder / "cells.parquet"
    assert newer("compare", cells, cells)[0] == 0
    tables = [folder / f"{name}.parquet" for name in ("cells", "curves", "calibration", "crossings")]
    assert newer("product", "claims", *tables, "--out", "claims.parquet")[0] == 0
    found = {row["id"]: row["verdict"] for row in results.read(tmp_path / "claims.parquet")[0]}
    known = {row["id"]: row["verdict"] for row in results.read(folder / "claims.parquet")[0]}
    assert found.items() - known.items() <= {(name, "not computed in this study") for name in found}
    for metric, fails in (("mse", 0), ("largest", 1)):
        spec = {"metrics": dict.fromkeys(set(pq.read_table(cells)["sweep"].to_pylist()), metric)}
        outputs = ("curves.parquet", "calibration.parquet")
        status, text = newer("calibrate", "--spec", json.dumps(spec), "--inputs", cells, "--outputs", *outputs)
        assert bool(status) == bool(fails), text
    (sentence,) = (line for line in text.splitlines() if "error" in line)
    assert "were made without largest" in sentence
    assert "rm " not in sentence


def test_a_new_metric_predicts_no_curve_again(study, folder):
    (folder / "largest.py").write_text(OWN)

    def code(files, metric):
        """The hashes of the code of a predicted curve and of errors."""
        jobs = Jobs({**TINY, "metrics": files, "sweeps": {"T4": {**TINY_SWEEP, "metric": metric}}})
        return json.loads(jobs.theory_spec(SimpleNamespace(sweep="T4", arch="fc")))["code"], jobs.evaluation

    before, after, own = code([], "mse"), code(["largest.py"], "mse"), code(["largest.py"], "largest")
    assert before[0] == after[0] != own[0]
    assert before[1] != after[1]
