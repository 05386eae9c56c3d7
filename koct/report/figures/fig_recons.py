"""A test image and what every network of a sweep makes of it: reconstructions, a part enlarged, errors; or signals."""

import itertools
import json
import math

import numpy as np
from matplotlib.patches import Rectangle

from koct.base import FRESH, stamps
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
from koct.report.sheet import KINDS, Sheet, columns
from koct.study.cells import about_fit
from koct.study.evaluation import load

PRODUCT = Product(
    title="reconstructions, {sweep}",
    about="a test image or signal reconstructed by every baseline and network, per sweep. The `.npy` has images of KO "
    "and FC at the smallest and the largest N, each over its peak",
    when="pictured",
    files=(
        "fig_recons_{sweep}.pdf",
        "fig_recons_{sweep}.png",
        "fig_recons_{sweep}.npy",
        "report/fig_recons_{sweep}.jpg",
    ),
    caption="""\
**A test image and its reconstructions** from the first seed, on one grey scale: above what needs no sample, below
every network at some N. The part in the box is enlarged, and the absolute error is on one scale; of a network, both are
at its largest N.

Numbers below the images are PSNR and SSIM of that image. Errors show what a number hides: streaks, noise or blur.""",
)
ZOOM = 3  # of the part that is enlarged
KEPT, PIXELS = 16, 2**18  # test images of which arrays are kept, for numbers on how images look, and their pixels
WINDOW = (-160, 240)  # HU, of soft tissue, where images are relative to water
ROWS = ("without samples", "enlarged", "error")
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.8}


@failures_explained()
def recons(fits, inputs, out, spec=None):
    """Draw the first test image and its reconstructions by the fits of one sweep and seed; keep arrays of some."""
    cells = [Cell.decode(about_fit(path, stamps.read(path))["cell"]) for path in fits]
    first = cells[0]
    pool = Pool(inputs["pool"], first.problem, first.seed)
    count = min(KEPT, max(1, PIXELS // first.problem.y_size), pool.count["test"])
    truth = pool.y("test", count).reshape(-1, *first.problem.y_shape)
    sizes = [cell.N for cell in cells if cell.arch.name in PAIR and cell.N != FRESH]
    ends = {min(sizes), max(sizes)} if sizes else set()
    made, arrays, styles = {}, {"truth": truth}, {}
    for path, cell in zip(fits, cells, strict=True):
        arch, N = cell.arch, cell.N
        kept = arch.name in PAIR and N in ends
        images = _reconstruct(path, inputs, len(truth) if kept else 1).reshape(-1, *truth.shape[1:])
        made[arch.name, N] = images[0]
        arrays |= {f"{arch.name} {N}": images} if kept else {}
        styles[arch.name] = {"label": arch.label or arch.name, "colour": arch.colour, "marker": arch.marker}
        print(f"{arch.name}, N = {N}: {path}", flush=True)
    stamp = Stamp(spec or {}, made_from(*fits, *inputs.values()))
    names, unit = Names({"koct.archs": json.dumps(styles)}), " groups" if pool.groups else ""
    drawn, problem = [path for path in out if not path.endswith(".npy")], first.problem
    draw(truth[0], made, names, drawn, stamp, unit, problem.hounsfield, problem.inside)
    peak = np.abs(truth).max(axis=tuple(range(1, truth.ndim)), keepdims=True)
    relative = {name: (images / np.where(peak > 0, peak, 1)).astype("<f2") for name, images in arrays.items()}
    for path in (path for path in out if path.endswith(".npy")):
        write_record(path, stamp, **relative)


def _reconstruct(path, inputs, count):
    """Return what a fit makes of some test images; its network, which may hold its training set, is gone then."""
    _, network, data = load(path, inputs)
    return data.predict(network(), "test", count)


def draw(truth, made, names, out, stamp=None, unit="", hounsfield=False, inside=slice(None)):
    """Draw an image or a signal and what `made[arch, N]` makes of it; N = 0 needs no sample. `unit` follows every N.

    With `hounsfield`, images are relative to water: they are drawn in a window of HU. Pixels outside the field of view,
    those that are not `inside`, are drawn as they are in truth, and do not count.
    """
    made = {key: _seen(image, truth, inside) for key, image in made.items()}
    samples = columns(sorted({N for _, N in made if N}, key=_order))
    with drawing.styled():
        if truth.ndim == 1:
            drawing.save(_signals(truth, made, samples, names, unit), out, stamp)
        else:
            free = sum(not N for _, N in made)
            networks = {arch for arch, N in made if N}
            beside = ROWS if free > len(samples) else ()  # behind as many pictures
            letters = max(map(len, (*beside, *map(names.arch, networks))), default=0)
            sheet = Sheet(truth.shape, len(samples), free, len(networks), letters)
            drawing.save(
                _images(sheet, truth, made, samples, names, unit, hounsfield, inside), out, stamp, dpi=sheet.dpi
            )


def _seen(image, truth, inside):
    """Return an image with the truth outside the field of view."""
    seen = truth.copy()
    seen.reshape(-1)[inside] = image.reshape(-1)[inside]
    return seen


def _order(N):
    """Return what N are sorted by: fresh samples are the most."""
    return N == FRESH, N


def _size(N, unit):
    return "fresh" if N == FRESH else f"$N = {N:,}$".replace(",", "{,}") + unit


def _images(sheet, truth, made, samples, names, unit, hounsfield, inside):
    figure = drawing.plt.figure(figsize=(sheet.width / sheet.dpi, sheet.height / sheet.dpi))
    black, white = (1 + value / 1000 for value in WINDOW) if hounsfield else (min(0, truth.min()), np.abs(truth).max())
    part = _busiest(truth)
    best = {arch: max((N for other, N in made if other == arch), key=_order) for arch, _ in made}
    errors = {arch: np.abs(made[arch, N] - truth) for arch, N in best.items()}
    largest = _round(np.median([np.quantile(error, 0.97) for error in errors.values()]) or 1.0)

    def show(place, image, kind=0):
        """Draw an image, its part or its error at a (row, column)."""
        look = {"limits": (0, largest), "cmap": "magma"} if kind == 2 else {"limits": (float(black), float(white))}
        return sheet.picture(figure, sheet.x(place[1]), sheet.y(place[0]), image[part] if kind == 1 else image, **look)

    def write(place, text, below=False, **style):
        """Write above or below the picture at a (row, column)."""
        y = sheet.y(place[0]) + below * sheet.down
        sheet.text(figure, sheet.middle(place[1]), y, text, va="top" if below else "bottom", **style)

    def name(row, column, text, **style):
        """Write to the right of the last picture of a row."""
        sheet.text(figure, sheet.x(column), sheet.y(row) + sheet.down // 2, text, va="center", ha="left", **style)

    free = [arch for arch, N in best.items() if not N]
    _mark(show(sheet.place(0, 0), truth), part)
    show(sheet.place(0, 1), truth, 1)
    write(sheet.place(0, 0), "truth")
    row, column = sheet.place(0, 2)
    bar, middle = np.tile(np.linspace(0, 1, 64), (8, 1)), sheet.y(row) + sheet.down // 2
    sheet.picture(figure, sheet.x(column), middle, bar, (0, 1), cmap="magma", height=8 / 64)
    sheet.text(figure, sheet.middle(column), middle, _scale("error", 0, largest, 1000 * hounsfield), va="bottom")
    write(sheet.place(0, 0), _scale("grey", *(WINDOW if hounsfield else (black, white)), hounsfield), below=True)
    for number, arch in enumerate(free, 1):
        for kind, image in enumerate((made[arch, 0], made[arch, 0], errors[arch])):
            show(sheet.place(number, kind), image, kind)
        write(sheet.place(number, 0), names.arch(arch))
        write(sheet.place(number, 0), _quality(made[arch, 0], truth, inside), below=True)
    for row in () if sheet.flat else range(0, sheet.first, KINDS):
        for kind, text in enumerate(ROWS):
            name(row + kind, min(1 + len(free), sheet.columns), text)
    for number, kind in itertools.product(range(1 + len(free)), (1, 2)) if sheet.flat else ():
        if (number, kind) != (0, 2):  # where the scale of errors is
            write(sheet.place(number, kind), ROWS[kind])
    last = len(samples)
    for row, arch in enumerate((arch for arch in best if best[arch]), sheet.first):
        for column, N in enumerate(samples):
            if (arch, N) in made:
                show((row, column), made[arch, N])
                write((row, column), _quality(made[arch, N], truth, inside), below=True)
        show((row, last), made[arch, best[arch]], 1)
        show((row, last + 1), errors[arch], 2)
        if best[arch] != samples[-1]:
            write((row, last), _size(best[arch], unit), below=True)
        name(row, last + 2, names.arch(arch), color=names.colour(arch))
    heads = [*(_size(N, unit) for N in samples), "enlarged", "error"]
    for column, text in enumerate(heads if samples else ()):
        write((sheet.first, column), text)
    return figure


def _scale(what, low, high, hounsfield=0):
    """Return the ends of a scale in words, in HU if the images have them; `hounsfield` is how many HU a unit has."""
    low, high = ((end * hounsfield if hounsfield else end) for end in (low, high))
    low = low if abs(low) > 1e-6 * high else 0.0  # a sum of values may be a rounding error below zero
    scale = f"{low:.3g} to {high:.3g}".replace("-", "\u2212")
    return f"{scale} HU" if hounsfield else f"{what}: {scale}"


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
        above.set(title=_size(N, unit), ylabel="signal", xlabel="sample")
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


def _decibels(made, truth, inside=slice(None)):
    return f"{psnr.each(made.reshape(1, -1)[:, inside], truth.reshape(1, -1)[:, inside], truth.shape)[0]:.1f} dB"


def _quality(made, truth, inside):
    """Return PSNR and, where the image is large enough for one, SSIM."""
    similarity = ssim.each(made.reshape(1, -1), truth.reshape(1, -1), truth.shape, inside)[0]
    return _decibels(made, truth, inside) + ("" if np.isnan(similarity) else f", SSIM {similarity:.2f}")
