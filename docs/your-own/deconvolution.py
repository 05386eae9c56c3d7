"""Deconvolution of photographs: y is a patch of an image, x the same patch blurred and with noise."""

from koct.contracts import Cost, Layer, Problem, option


class Deconvolution(Problem):
    images: str = option("an image file (PNG or JPEG)")
    H: int = option("height and width of a patch in pixels", minimum=8)
    blur: float = option("standard deviation of the Gaussian blur in pixels", above=0)
    noise: float = option("standard deviation of the noise; images lie between 0 and 1", default=0.01, minimum=0)
    wiener: float = option("noise-to-signal ratio of the known inverse filter", default=0.01, above=0, pairs=False)

    @property
    def x_shape(self):
        return self.H, self.H

    @property
    def y_shape(self):
        return self.H, self.H

    def files(self):
        return [self.images]

    def check(self, seeds, sizes):
        if self.blur > self.H / 4:
            yield f"blur = {self.blur} is too wide for patches of {self.H} pixels; take at most {self.H / 4:g}"

    def transfer(self):
        """The blur as a factor of the patch's Fourier transform."""
        import numpy as np

        frequency = np.fft.fftfreq(self.H)
        return np.exp(-2 * (np.pi * self.blur) ** 2 * (frequency[:, None] ** 2 + frequency**2))

    def pairs(self, seed, sizes):
        """Patches at random places: training patches from the left half, the others from the two right quarters."""
        import numpy as np
        from matplotlib.image import imread

        image = np.asarray(imread(self.images), float)
        image = (image[..., :3].mean(axis=-1) if image.ndim == 3 else image) / max(1.0, image.max())
        quarter = image.shape[1] // 4
        strips = {
            "train": image[:, : 2 * quarter],
            "val": image[:, 2 * quarter : -quarter],
            "test": image[:, -quarter:],
        }
        for number, (part, strip) in enumerate(strips.items()):
            rng = np.random.default_rng([seed, number])
            corners = rng.integers(0, np.subtract(strip.shape, self.H), (getattr(sizes, part), 2))
            y = np.stack([strip[row : row + self.H, column : column + self.H] for row, column in corners])
            x = np.fft.ifft2(np.fft.fft2(y) * self.transfer()).real
            yield part, x + self.noise * rng.standard_normal(x.shape), y

    def layers(self, shared):
        """A Wiener filter, behind weights of one."""
        import numpy as np

        from koct.operators.algebra import Diagonal, Operator

        inverse = self.transfer() / (self.transfer() ** 2 + self.wiener)

        class Wiener(Operator):
            """Multiplication by a real, even spectrum; its own adjoint."""

            def _apply(self, x):
                return np.fft.ifft2(np.fft.fft2(x) * inverse).real

            _adjoint = _apply

        weights = Diagonal(np.ones(self.x_shape))
        return Layer("weights", weights), Layer("Wiener filter", Wiener(self.x_shape, self.y_shape))

    def cost(self, stage, sizes):
        pixels = self.H**2
        match stage:
            case "pool":
                return Cost(operations=1e9 + 100 * sizes.total * pixels, host_bytes=32 * sizes.total * pixels)
            case "layers":
                return Cost(operations=200 * pixels)
            case "normal":
                return Cost(operations=400 * pixels**2, host_bytes=16 * pixels**2)
