"""The sheet of reconstructions: where its pictures stand."""

import math

import numpy as np

COLUMNS = 4  # of N
SIZE = 0.92  # width of a picture in inches, at most
HIGH = 9.3  # inches of a page
RESOLUTION = 300  # dots per inch, at least
NAME = 1.2  # inches for the name of a network


def columns(samples):
    """Return the N that are shown: the smallest, the largest, and some between."""
    return [samples[round(i)] for i in np.linspace(0, len(samples) - 1, min(COLUMNS, len(samples)))]


class Sheet:
    """Places in dots, from the upper left: an image pixel takes a whole number of dots, or it would look uneven.

    Columns are N, enlarged and error, rows truth and architectures; above row `free` + 1 there is room for N.
    """

    def __init__(self, shape, columns, rows, free):
        size = min(SIZE, HIGH / rows - 0.2)
        self.font = min(7, 10 * size)  # points, so that numbers are no wider than their picture
        self.dots = math.ceil(RESOLUTION * size / shape[1])  # of a pixel
        self.down, self.across = shape[0] * self.dots, shape[1] * self.dots
        self.dpi = self.across / size
        self.top, self.line, self.gap, self.name = (round(inches * self.dpi) for inches in (0.2, 0.17, 0.05, NAME))
        self.free = free
        self.width = self.x(columns + 2) + self.name
        self.height = self.y(rows)

    def x(self, column):
        return column * (self.across + self.gap)

    def middle(self, column):
        return self.x(column) + self.across // 2

    def y(self, row):
        return self.top + row * (self.down + self.line) + (self.top if row > self.free else 0)

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
