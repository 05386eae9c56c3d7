"""A test image and what every network of a sweep makes of it: reconstructions, a part enlarged, errors; or signals."""

import json
import math

import numpy as np
from matplotlib.patches import Rectangle

from koct.base import stamps
from koct.base.device import failures_explained
from koct.base.files import write_record
from koct.base.stamps import Stamp, made_from
from koct.contracts.spec import Cell
from koct.metrics import psnr, ssim
from koct.problems.pools import Pool
from koct.report import drawing
from koct.report.labels import Names
from koct.report.printed import PAIR
from koct.report.product import Product
from koct.report.sheet import Sheet, columns
from koct.study.cells import about_fit
from koct.study.evaluation import load

PRODUCT = Product(
    title="reconstructions, {sweep}",
    about="a test image as what needs no sample and every network reconstruct it, with a part enlarged and the errors, "
    "per sweep of images; of signals, the curves. The `.npy` has what the paper's two networks make of some images at "
    "the smallest and the largest N, over the peak of each",
    when="pictured",
    files=(
        "fig_recons_{sweep}.pdf",
        "fig_recons_{sweep}.png",
        "fig_recons_{sweep}.npy",
        "report/fig_recons_{sweep}.jpg",
    ),
    caption="""\
**A test image and its reconstructions** from the first seed, on one grey scale: what needs no sample, and below it
every network at some N. Beside them the part in the box, enlarged, and the absolute error on one scale, at the
largest N of the network.

Numbers below the images are PSNR and SSIM of that image. Errors show what a number hides: streaks, noise or blur.""",
)
ZOOM = 3  # of the part that is enlarged
KEPT, PIXELS = 16, 2**18  # test images of which arrays are kept, for numbers on how images look, and their pixels
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.8}


@failures_explained()
def recons(fits, inputs, out, spec=None):
    """Draw the first test image and its reconstructions by the fits of one sweep and seed; keep arrays of some."""
    cells = [Cell.decode(about_fit(path, stamps.read(path))["cell"]) for path in fits]
    first = cells[0]
    pool = Pool(inputs["pool"], first.problem, first.seed)
    count = min(KEPT, max(1, PIXELS // first.problem.y_size), pool.count["test"])
    truth = pool.y("test", count).reshape(-1, *first.problem.y_shape)
    sizes = [cell.N for cell in cells if cell.arch.name in PAIR]
    ends = {min(sizes), max(sizes)} if sizes else set()
    made, arrays, styles = {}, {"truth": truth}, {}
    for path, cell in zip(fits, cells, strict=True):
        arch, N = cell.arch, cell.N
        kept = arch.name in PAIR and N in ends
        images = _reconstruct(path, inputs, len(truth) if kept else 1).reshape(-1, *truth.shape[1:])
        made[arch.name, N] = images[0]
        arrays |= {f"{arch.name} {N}": images} if kept else {}
        styles[arch.name] = {key: getattr(arch, key) for key in ("label", "colour", "marker")}
        print(f"{arch.name}, N = {N}: {path}", flush=True)
    stamp = Stamp(spec or {}, made_from(*fits, *inputs.values()))
    names, unit = Names({"koct.archs": json.dumps(styles)}), " groups" if pool.groups else ""
    draw(truth[0], made, names, [path for path in out if not path.endswith(".npy")], stamp, unit)
    peak = np.abs(truth).max(axis=tuple(range(1, truth.ndim)), keepdims=True)
    relative = {name: (images / np.where(peak > 0, peak, 1)).astype("<f2") for name, images in arrays.items()}
    for path in (path for path in out if path.endswith(".npy")):
        write_record(path, stamp, **relative)


def _reconstruct(path, inputs, count):
    """Return what a fit makes of some test images; its network, which may hold its training set, is gone then."""
    _, network, data = load(path, inputs)
    return data.predict(network(), "test", count)


def draw(truth, made, names, out, stamp=None, unit=""):
    """Draw an image or a signal and what `made[arch, N]` makes of it; N = 0 needs no sample. `unit` follows every N."""
    samples = columns(sorted({N for _, N in made if N}))
    with drawing.styled():
        if truth.ndim == 1:
            drawing.save(_signals(truth, made, samples, names, unit), out, stamp)
        else:
            sheet = Sheet(truth.shape, len(samples), 1 + len(_rows(made)), _free(made))
            drawing.save(_images(sheet, truth, made, samples, names, unit), out, stamp, dpi=sheet.dpi)


def _rows(made):
    """Return the architectures: first those without samples."""
    return sorted(dict.fromkeys(arch for arch, _ in made), key=lambda arch: (arch, 0) not in made)


def _free(made):
    return sum(not N for _, N in made)


def _images(sheet, truth, made, samples, names, unit):
    figure = drawing.plt.figure(figsize=(sheet.width / sheet.dpi, sheet.height / sheet.dpi))
    last = len(samples) - 1
    grey = min(0.0, float(truth.min())), float(np.abs(truth).max())  # black and white
    part, archs, free = _busiest(truth), _rows(made), _free(made)
    best = {arch: max(N for other, N in made if other == arch) for arch in archs}
    errors = {arch: np.abs(made[arch, N] - truth) for arch, N in best.items()}
    largest = _round(np.median([np.quantile(error, 0.97) for error in errors.values()]) or 1.0)
    if (scale := min(free + 1, last)) > 1:  # room beside what needs no sample
        _mark(sheet.picture(figure, 0, sheet.y(0), truth, grey, scale), part)
    small = sheet.picture(figure, sheet.x(last), sheet.y(0), truth, grey)
    if scale <= 1:
        _mark(small, part)
    sheet.picture(figure, sheet.x(last + 1), sheet.y(0), truth[part], grey)
    bar = np.tile(np.linspace(0, 1, 64), (8, 1))
    sheet.picture(figure, sheet.x(last + 2), sheet.y(0) + sheet.down // 2, bar, (0, 1), cmap="magma", height=8 / 64)
    for column, text in ((last + 1, "enlarged"), (last + 2, f"error, 0 to {largest:g}")):
        sheet.text(figure, sheet.middle(column), sheet.y(0), text, va="bottom")
    sheet.text(figure, sheet.x(last + 3), sheet.y(0) + sheet.down // 2, "truth", va="center", ha="left")
    low = f"{grey[0]:.2g}" if grey[0] else "0"
    sheet.text(figure, sheet.middle(last), sheet.y(0) + sheet.down, f"grey: {low} to {grey[1]:.2g}", va="top")
    for i, arch in enumerate(archs, 1):
        y, end = sheet.y(i), sheet.y(i) + sheet.down
        for j, N in enumerate(samples) if best[arch] else [(last, 0)]:
            if (arch, N) in made:
                sheet.picture(figure, sheet.x(j), y, made[arch, N], grey)
                sheet.text(figure, sheet.middle(j), end, _quality(made[arch, N], truth), va="top")
        sheet.picture(figure, sheet.x(last + 1), y, made[arch, best[arch]][part], grey)
        sheet.picture(figure, sheet.x(last + 2), y, errors[arch], (0, largest), cmap="magma")
        if best[arch] not in (0, samples[-1]):
            sheet.text(figure, sheet.middle(last + 1), end, f"$N$ = {best[arch]:,}{unit}", va="top")
        style = {"va": "center", "ha": "left", "color": names.colour(arch) if best[arch] else "black"}
        sheet.text(figure, sheet.x(last + 3), y + sheet.down // 2, names.arch(arch), **style)
    for j, N in enumerate(samples):
        sheet.text(figure, sheet.middle(j), sheet.y(1 + free), f"$N = {N:,}$".replace(",", "{,}") + unit, va="bottom")
    return figure


def _signals(truth, made, samples, names, unit):
    """Return a figure of signals: a column per N, below it the errors."""
    figure, axes = drawing.panels(2, len(samples), (1.7, 1.3), left=0.62, across=0.15, down=0.3)
    free = [(arch, names.line(arch)) for arch, N in made if not N]
    for (above, below), N in zip(axes.T, samples, strict=True):
        above.plot(truth, color="black", linewidth=1.6, label="truth")
        curves = [(arch, made[arch, 0], look) for arch, look in free]
        curves += [(arch, image, {"color": names.colour(arch)}) for (arch, n), image in made.items() if n == N]
        for i, (arch, signal, look) in enumerate(curves):
            above.plot(signal, label=names.arch(arch), **{"linewidth": 0.9, **look})
            below.plot(signal - truth, **{"linewidth": 0.9, **look})
            place = {"xy": (1, 0), "xytext": (0, 2 + 7 * i), "xycoords": "axes fraction", "textcoords": "offset points"}
            text = f"{names.arch(arch)} {_decibels(signal, truth)}"
            below.annotate(text, **place, fontsize=6, color=look["color"], ha="right", va="bottom", bbox=BOX)
        above.set(title=f"$N = {N:,}$".replace(",", "{,}") + unit, ylabel="signal", xlabel="sample")
        above.tick_params(labelbottom=False)
        below.set(ylabel="error", xlabel="sample")
    for row in axes:
        drawing.share_limits(dict(enumerate(row)))
    drawing.label_once(axes)
    drawing.legend_below(figure, drawing.handles(axes[0, -1]))
    return figure


def _mark(axis, part):
    """Draw a box around a part of an image."""
    (top, bottom), (left, right) = ((side.start - 0.5, side.stop - 0.5) for side in part)
    axis.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="#d79b00", linewidth=0.8))


def _busiest(image):
    """Return the part of an image, as slices, where values differ most."""
    sides = [max(1, side // ZOOM) for side in image.shape]
    places = [range(0, side - part + 1, max(1, part // 4)) for side, part in zip(image.shape, sides, strict=True)]
    parts = [(slice(i, i + sides[0]), slice(j, j + sides[1])) for i in places[0] for j in places[1]]
    return max(parts, key=lambda part: float(image[part].std()))


def _round(value):
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _decibels(made, truth):
    return f"{psnr.each(made.reshape(1, -1), truth.reshape(1, -1), truth.shape)[0]:.1f} dB"


def _quality(made, truth):
    """Return PSNR and, where the image is large enough for one, SSIM."""
    similarity = ssim.each(made.reshape(1, -1), truth.reshape(1, -1), truth.shape)[0]
    return _decibels(made, truth) + ("" if np.isnan(similarity) else f", {similarity:.2f}")
