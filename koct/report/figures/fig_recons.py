"""Test images and what every network of a sweep makes of them, as in the paper's qualitative drawing."""

import json
import math

import numpy as np

from koct import metrics
from koct.base import stamps
from koct.base.device import failures_explained
from koct.base.stamps import Stamp, made_from
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.problems.pools import Pool
from koct.report import drawing
from koct.report.labels import Names
from koct.report.product import Product
from koct.report.sheet import SHOWN, Sheet
from koct.study.cells import about_fit
from koct.study.evaluation import load

PRODUCT = Product(
    title="reconstructions, {sweep}",
    about="two test images as what needs no sample and every network at every N reconstructs them, per fan-beam sweep",
    when="pictured",
    files=("fig_recons_{sweep}.png", "report/fig_recons_{sweep}.jpg"),
    caption="""\
**Two test images and their reconstructions** by every network at every N, all from the first seed, on one grey
scale; at N = 0, by what needs no sample.

Numbers below the images are their errors. They show what an error looks like: streaks, noise or blur.""",
)


@failures_explained()
def recons(fits, inputs, out, spec=None):
    """Draw the first test images and their reconstructions by the fits of one sweep and seed."""
    first = Cell.decode(about_fit(fits[0], stamps.read(fits[0]))["cell"])
    pool = Pool(inputs["pool"], first.problem, first.seed)
    truth = pool.y("test", min(SHOWN, pool.count["test"])).reshape(-1, *first.problem.y_shape)
    made, styles = {}, {}
    for path in fits:
        cell, images = _reconstruct(path, inputs, len(truth))
        arch, N = cell.arch, cell.N
        if (arch.name, N) in made:
            raise KoctError(f"--fits has {arch.name} with N = {N} twice; give the fits of one sweep and seed")
        made[arch.name, N] = images.reshape(truth.shape)
        styles[arch.name] = {key: getattr(arch, key) for key in ("label", "colour", "marker")}
        print(f"{arch.name}, N = {N}: {path}", flush=True)
    stamp = Stamp(spec or {}, made_from(*fits, *inputs.values()))
    names, unit = Names({"koct.archs": json.dumps(styles)}), " groups" if pool.groups else ""
    draw(truth, made, first.problem.validation_metric, names, out, stamp, unit)


def _reconstruct(path, inputs, count):
    """Return the cell of a fit and its images; its network, which may hold its training set, is gone then."""
    _, network, data = load(path, inputs)
    return data.cell, data.predict(network(), "test", count)


def draw(truth, made, metric, names, out, stamp=None, unit=""):
    """Draw each image once, beside it a row per architecture and a column per N of images `made[arch, N]`.

    What needs no sample (N = 0) stands between them, from top to bottom. `unit` follows every N.
    """
    archs = list(dict.fromkeys(arch for arch, N in made if N))
    free = [arch for arch, N in made if not N]
    samples = sorted({N for _, N in made if N})
    sheet = Sheet(truth.shape[1:], len(samples), len(archs), len(truth), math.ceil(len(free) / len(archs)))
    with drawing.styled():
        figure = drawing.plt.figure(figsize=(sheet.width / sheet.dpi, sheet.height / sheet.dpi))
        if free:
            middle = (sheet.free_x(0) + sheet.free_x(sheet.free - 1) + sheet.across) // 2
            sheet.text(figure, middle, sheet.top, "$N = 0$", va="bottom")
        for j, N in enumerate(samples):
            text = f"$N = {N:,}$".replace(",", "{,}") + unit
            sheet.text(figure, sheet.x(j) + sheet.across // 2, sheet.top, text, va="bottom")
        for k, image in enumerate(truth):
            own = {key: images[k] for key, images in made.items()}
            _draw_image(figure, sheet, k, image, own, archs, samples, metric, names)
            for i, arch in enumerate(free):
                column, row = divmod(i, len(archs))
                x, y = sheet.free_x(column), sheet.y(k, row)
                sheet.picture(figure, x, y, own[arch, 0], _grey(image))
                text = f"{names.arch(arch)} {_error(own[arch, 0], image, metric)}"
                sheet.text(figure, x + sheet.across // 2, y + sheet.down, text, va="top")
        drawing.save(figure, out, stamp, dpi=sheet.dpi)


def _draw_image(figure, sheet, k, image, made, archs, samples, metric, names):
    """Draw one image and all its reconstructions, in the same grey scale."""
    grey = _grey(image)
    middle = (sheet.y(k, 0) + sheet.y(k, len(archs) - 1)) // 2
    sheet.picture(figure, 0, middle, image, grey)
    sheet.text(figure, sheet.across // 2, middle, "truth", va="bottom")
    low = f"{grey[0]:.2f}" if grey[0] else "0"
    sheet.text(figure, sheet.across // 2, middle + sheet.down, f"grey: {low} to {grey[1]:.2f}", va="top")
    if len(archs) > 1:  # the image then leaves room beside the last row
        y = sheet.y(k, len(archs) - 1) + sheet.down
        sheet.text(figure, sheet.across, y, CurveMetric(metric).label, va="top", ha="right")
    for i, arch in enumerate(archs):
        y = sheet.y(k, i)
        style = {"rotation": 90, "va": "center", "ha": "right", "color": names.colour(arch)}
        sheet.text(figure, sheet.x(0), y + sheet.down // 2, names.arch(arch), **style)
        for j, N in enumerate(samples):
            if (arch, N) in made:
                sheet.picture(figure, sheet.x(j), y, made[arch, N], grey)
                text = _error(made[arch, N], image, metric)
                sheet.text(figure, sheet.x(j) + sheet.across // 2, y + sheet.down, text, va="top")


def _grey(image):
    """Return the values that are black and white."""
    return min(0.0, float(image.min())), float(np.abs(image).max())


def _error(made, image, metric):
    error = metrics.load(metric).error(made.reshape(1, -1), image.reshape(1, -1))
    return f"{error:.3f}" if error >= 0.01 else f"{error:.2g}"
