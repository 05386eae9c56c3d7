"""Deconvolution of pulses: y is a signal with a few of them, as in an ECG, and x the same blurred and with noise.

Replace `pairs` by your own data: any x and y will do. Leave out `layers` if nothing is known of the way from x to y;
networks that need them, such as ko and untrained, then go from config.yaml. docs/your-own.md has all that a problem can
say.
"""

from koct.contracts import Cost, Layer, Problem, option


class Pulses(Problem):
    label = "pulses"
    length: int = option("samples of a signal", minimum=8)
    blur: float = option("standard deviation of the blur in samples", above=0)
    noise: float = option("standard deviation of the noise", default=0.02, minimum=0)

    @property
    def x_shape(self):
        return (self.length,)

    @property
    def y_shape(self):
        return (self.length,)

    def pairs(self, seed, sizes):
        """Yield (part, x, y) of arrays: all training pairs, then those for validation and for the test."""
        import numpy as np

        time = np.arange(self.length)
        for number, part in enumerate(("train", "val", "test")):
            rng, count = np.random.default_rng([seed, number]), getattr(sizes, part)
            place, width = rng.uniform(0, self.length, (count, 3, 1)), rng.uniform(1, 3, (count, 3, 1))
            y = (rng.uniform(-0.3, 1, (count, 3, 1)) * np.exp(-(((time - place) / width) ** 2))).sum(axis=1)
            x = np.fft.ifft(np.fft.fft(y) * self.transfer()).real
            yield part, x + self.noise * rng.standard_normal(x.shape), y

    def transfer(self):
        """The blur as a factor of the Fourier transform."""
        import numpy as np

        return np.exp(-2 * (np.pi * self.blur * np.fft.fftfreq(self.length)) ** 2)

    def layers(self, shared):
        """What is known of the way from x to y: weights of one, which KO learns, and a Wiener filter."""
        import numpy as np

        from koct.operators.algebra import Diagonal, Operator

        inverse = self.transfer() / (self.transfer() ** 2 + 0.01)

        class Wiener(Operator):
            """Multiplication by a real, even spectrum; its own adjoint."""

            def _apply(self, x):
                return np.fft.ifft(np.fft.fft(x) * inverse).real

            _adjoint = _apply

        return Layer("weights", Diagonal(np.ones(self.length))), Layer(
            "Wiener filter", Wiener(self.x_shape, self.y_shape)
        )

    def cost(self, stage, sizes):
        """Say what a job takes; an hour and 8 GB would be asked for otherwise."""
        return Cost()
