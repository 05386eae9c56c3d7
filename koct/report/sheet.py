"""The sheet of reconstructions: where its pictures stand, and the images that a sheet on disk has."""

import math

import numpy as np

SHOWN = 2  # images: the first ones of the test part
SIZE = 0.92  # width of a picture in inches
RESOLUTION = 300  # dots per inch, at least


class Sheet:
    """Places in dots, from the upper left: an image pixel takes a whole number of dots, or it would look uneven.

    `free` columns behind the image are for what needs no sample.
    """

    def __init__(self, shape, columns, rows, images, free=0):
        self.dots = math.ceil(RESOLUTION * SIZE / shape[1])  # of a pixel
        self.down, self.across = shape[0] * self.dots, shape[1] * self.dots
        self.dpi = self.across / SIZE
        self.top, self.line, self.label, self.gap, self.space = (
            round(inches * self.dpi) for inches in (0.2, 0.17, 0.22, 0.05, 0.12)
        )
        self.rows, self.free = rows, free
        self.width = self.x(columns) - self.gap
        self.height = self.y(images, 0) - self.space

    def free_x(self, column):
        return (1 + column) * (self.across + self.gap)

    def x(self, column):
        return self.across + self.label + (self.free + column) * (self.across + self.gap)

    def y(self, image, row):
        return self.top + image * self.space + (image * self.rows + row) * (self.down + self.line)

    def picture(self, figure, x, y, image, grey):
        box = x / self.width, 1 - (y + self.down) / self.height, self.across / self.width, self.down / self.height
        axis = figure.add_axes(box)
        axis.imshow(image, cmap="gray", vmin=grey[0], vmax=grey[1], interpolation="nearest", aspect="auto")
        axis.set_axis_off()

    def text(self, figure, x, y, text, **style):
        """Write text a little off the point, which lies on a picture's edge."""
        style = {"ha": "center", **style}
        pad = round(0.025 * self.dpi)
        x -= pad if style["ha"] == "right" else 0
        y += {"top": pad, "bottom": -pad}.get(style["va"], 0)
        figure.text(x / self.width, 1 - y / self.height, text, **style)

    def read(self, path):
        """Return f(x, y), the image at a place of the sheet in a file, from 0 to 1; None if it is no such sheet."""
        from PIL import Image

        with Image.open(path) as opened:
            if opened.size != (self.width, self.height):
                return None
            grey = np.asarray(opened.convert("L"), float) / 255
        step = self.dots
        return lambda x, y: grey[y + step // 2 : y + self.down : step, x + step // 2 : x + self.across : step]
