"""Test phantoms and what every network of a sweep makes of them, as in the paper's qualitative figures."""

import json
import math

import numpy as np

from koct.cells import load
from koct.device import failures_explained, get
from koct.errors import KoctError
from koct.files import read_record
from koct.metrics import metrics
from koct.problems.pools import Pool
from koct.report import figures
from koct.report.labels import arch_label

SHOWN = 2  # phantoms: the first ones of the test part
SIZE = 0.92  # width of a picture in inches
RESOLUTION = 300  # dots per inch, at least
GREY = {"cmap": "gray", "vmin": 0, "interpolation": "nearest", "aspect": "auto"}


@failures_explained()
def recons(fits, pool, known, out):
    """Draw the first test phantoms and their reconstructions by the fits of one sweep and seed."""
    phantoms = Pool(pool).y("test", min(SHOWN, Pool(pool).count["test"]))
    made = {}
    for path in fits:
        about, images = _reconstruct(path, pool, known, len(phantoms))
        if (about["arch"], about["N"]) in made:
            raise KoctError(
                f"--fits has {about['arch']} with N = {about['N']} twice; give the fits of one sweep and seed"
            )
        made[about["arch"], about["N"]] = images
        print(f"{about['arch']}, N = {about['N']}: {path}", flush=True)
    draw(phantoms, made, out)


def _reconstruct(path, pool, known, count):
    """(about, images) of one fit. Nothing of its network outlives the call: FC holds its whole training set."""
    arch = json.loads(read_record(path)["about"].flat[-1])["arch"]
    about, network, cell = load(path, [pool, known] if known and arch == "ko" else [pool])
    return about, get(network.predict(cell.where.put(cell.pool.x("test", count))))


def draw(phantoms, made, out):
    """Each phantom once, beside it a row per architecture and a column per N of flat images `made[arch, N]`."""
    archs = list(dict.fromkeys(arch for arch, _ in made))
    samples = sorted({N for _, N in made})
    H = math.isqrt(phantoms.shape[1])
    sheet = Sheet(H, len(samples), len(archs), len(phantoms))
    with figures.styled():
        figure = sheet.figure()
        for j, N in enumerate(samples):
            sheet.text(figure, sheet.x(j) + sheet.side // 2, sheet.top, f"$N = {N:,}$".replace(",", "{,}"), va="bottom")
        for k, phantom in enumerate(phantoms):
            peak = float(np.abs(phantom).max())
            middle = (sheet.y(k, 0) + sheet.y(k, len(archs) - 1)) // 2
            sheet.picture(figure, 0, middle, phantom.reshape(H, H), peak)
            sheet.text(figure, sheet.side // 2, middle, "phantom", va="bottom")
            sheet.text(figure, sheet.side // 2, middle + sheet.side, f"grey: 0 to {peak:.2f}", va="top")
            if len(archs) > 1:  # the phantom then leaves room beside the last row
                y = sheet.y(k, len(archs) - 1) + sheet.side
                sheet.text(figure, sheet.x(0), y, r"rRMSE$_{\mathrm{peak}}$", va="top", ha="right")
            for i, arch in enumerate(archs):
                y = sheet.y(k, i)
                style = {"rotation": 90, "va": "center", "ha": "right", "color": figures.COLOURS.get(arch, "black")}
                sheet.text(figure, sheet.x(0), y + sheet.side // 2, arch_label(arch), **style)
                for j, N in enumerate(samples):
                    if (arch, N) in made:
                        image = made[arch, N][k]
                        sheet.picture(figure, sheet.x(j), y, image.reshape(H, H), peak)
                        error = metrics(image[None], phantom[None])["rrmse_peak"]
                        sheet.text(figure, sheet.x(j) + sheet.side // 2, y + sheet.side, f"{error:.3f}", va="top")
        figures.save(figure, [out], dpi=sheet.dpi)


class Sheet:
    """Places in dots, from the upper left: an image pixel takes a whole number of dots, or it would look uneven."""

    def __init__(self, H, columns, rows, phantoms):
        self.side = H * math.ceil(RESOLUTION * SIZE / H)
        self.dpi = self.side / SIZE
        self.top, self.line, self.label, self.gap, self.space = (
            round(inches * self.dpi) for inches in (0.2, 0.17, 0.22, 0.05, 0.12)
        )
        self.rows = rows
        self.width = self.x(columns) - self.gap
        self.height = self.y(phantoms, 0) - self.space

    def x(self, column):
        return self.side + self.label + column * (self.side + self.gap)

    def y(self, phantom, row):
        return self.top + phantom * self.space + (phantom * self.rows + row) * (self.side + self.line)

    def figure(self):
        return figures.plt.figure(figsize=(self.width / self.dpi, self.height / self.dpi))

    def picture(self, figure, x, y, image, peak):
        box = x / self.width, 1 - (y + self.side) / self.height, self.side / self.width, self.side / self.height
        axis = figure.add_axes(box)
        axis.imshow(image, vmax=peak, **GREY)
        axis.set_axis_off()

    def text(self, figure, x, y, text, **style):
        """Text a little off the point, which lies on a picture's edge."""
        style = {"ha": "center", **style}
        pad = round(0.025 * self.dpi)
        x -= pad if style["ha"] == "right" else 0
        y += {"top": pad, "bottom": -pad}.get(style["va"], 0)
        figure.text(x / self.width, 1 - y / self.height, text, **style)
