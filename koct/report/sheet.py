"""The sheet of reconstructions: where its pictures stand."""

import math

import numpy as np

COLUMNS = 4  # of N
SIZE = 0.92  # width of a picture in inches, at most
HIGH = 9.3  # inches of a page
RESOLUTION = 300  # dots per inch, at least
MARGIN, LINE, GAP = 0.1, 0.17, 0.05  # inches: around all, for a line of text, between pictures
LETTER = 0.055  # inches of a name
KINDS = 3  # of pictures of what needs no sample: the image, a part enlarged, the error


def columns(samples):
    """Return the N that are shown: the smallest, the largest, and some between."""
    return [samples[round(i)] for i in np.linspace(0, len(samples) - 1, min(COLUMNS, len(samples)))]


class Sheet:
    """Places in dots, from the upper left: an image pixel takes a whole number of dots, or it would look uneven.

    First the truth and the `free` images that need no sample, side by side in bands of `KINDS` rows; where there are
    few, all in one row. Below them a row for each of some `networks`, with columns for N, the part enlarged, the error,
    and a name of so many `letters`.
    """

    def __init__(self, shape, columns, free, networks, letters=18):
        self.flat = KINDS * (1 + free) <= COLUMNS + 2
        self.columns = max(columns + 2, KINDS * (1 + free) if self.flat else min(1 + free, COLUMNS + 2))
        bands = math.ceil((1 + free) / self.columns)
        self.first = bands * (1 if self.flat else KINDS)  # row of a network
        band = [(1, 1)] if self.flat else [(1, 1), *[(0, 0)] * (KINDS - 1)]  # lines above and below each row
        lines = band * bands + [(0 if i else 1.4, 1) for i in range(networks)]
        room = HIGH - LINE * sum(map(sum, lines))
        size = min(SIZE, (room / len(lines) - GAP) * min(1, shape[1] / shape[0]))
        self.font = min(6.5, 7 * size)  # points, so that numbers are no wider than their picture
        self.dots = math.ceil(RESOLUTION * size / shape[1])  # of a pixel
        self.down, self.across = shape[0] * self.dots, shape[1] * self.dots
        self.dpi = self.across / size
        self.margin, self.line, self.gap = (round(inches * self.dpi) for inches in (MARGIN, LINE, GAP))
        self.tops, y = [], self.margin
        for above, below in lines:
            self.tops.append(y + round(above * self.line))
            y = self.tops[-1] + self.down + self.gap + below * self.line
        self.width, self.height = (
            self.x(self.columns) + round(LETTER * letters * self.dpi) + self.margin,
            y + self.margin,
        )

    def x(self, column):
        return self.margin + column * (self.across + self.gap)

    def middle(self, column):
        return self.x(column) + self.across // 2

    def y(self, row):
        return self.tops[row]

    def place(self, number, kind):
        """Return (row, column) of a picture of what needs no sample; the truth is number 0."""
        if self.flat:
            return 0, KINDS * number + kind
        return KINDS * (number // self.columns) + kind, number % self.columns

    def picture(self, figure, x, y, image, limits, scale=1, cmap="gray", height=None):
        """Draw an image `scale` times as large as others; `height` is that of one which is not as high as wide."""
        across, down = self.across * scale, (self.across * height if height else self.down * scale)
        axis = figure.add_axes((x / self.width, 1 - (y + down) / self.height, across / self.width, down / self.height))
        low, high = limits
        axis.imshow(image, cmap=cmap, vmin=low, vmax=high, interpolation="nearest", aspect="auto")
        axis.set_axis_off()
        return axis

    def text(self, figure, x, y, text, **style):
        """Write text a little off the point, which lies on a picture's edge."""
        style = {"ha": "center", "fontsize": self.font, **style}
        pad = round(0.025 * self.dpi)
        x += pad if style["ha"] == "left" else 0
        y += {"top": pad, "bottom": -pad}.get(style["va"], 0)
        figure.text(x / self.width, 1 - y / self.height, text, **style)
