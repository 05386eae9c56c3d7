"""The fan-beam problem: noise-free sinograms of random ellipses with few views, as on the paper's GPU.

The known operator of its networks is FBP without its weights, backprojection after the ramp filter; the weights that
theory gives, Parker's times a cosine, are where learning starts.
"""

import numpy as np

from koct import device
from koct.operators.fanbeam import Backprojector, FanBeam, Projector, RampFilter, analytic_weights
from koct.problems.known import Known
from koct.problems.phantoms import draw_fanbeam, rasterise
from koct.problems.pools import packed, unpacked
from koct.streams import TorchStream

SELECT = "rrmse_peak"  # the validation error that chooses λ
NONNEGATIVE = True  # the networks end in a ReLU
SEEDS = {"val": 20001, "test": 10001}  # the same for every training pool
MOST_ELLIPSES = 6
CHUNK = 32  # phantoms projected together

choose_device = device.choose


def geometry(spec):
    return FanBeam(spec["H"], spec["V"], spec["B"])


def records(spec, seed):
    """Yield the records of the pool of one seed, a few at a time."""
    where = device.choose()
    A = Projector(geometry(spec), spec["rays"])
    for part in ("train", "val", "test"):
        stream = TorchStream(SEEDS.get(part, 1 + seed))
        for first in range(0, spec["pool"][part], CHUNK):
            count = min(CHUNK, spec["pool"][part] - first)
            ellipses = np.stack([packed(draw_fanbeam(stream), MOST_ELLIPSES) for _ in range(count)])
            images = np.stack([rasterise(unpacked(rows), spec["H"], np.float32) for rows in ellipses])
            x = device.get(A(where.put(images)))
            yield {"x": x, "ellipses": ellipses, "H": np.full(count, spec["H"], np.int32)}
        print(f"{part}: {spec['pool'][part]} phantoms", flush=True)


def known(spec, record, where):
    """FBP without weights, on a device; `record` holds its Gram matrix if a fit needs that."""
    g = geometry(spec)
    operator = Backprojector(g) @ RampFilter(g.V, g.B)
    weights = where.put(analytic_weights(g).ravel().astype(np.float32))
    gram = where.put(np.array(record["gram"])) if record else None
    return Known(operator, weights, gram, NONNEGATIVE)


def gram(spec):
    """RᵀR of the known operator R as a dense (V·B, V·B) matrix."""
    from koct.operators.normal import backprojection_gram

    g = geometry(spec)
    return {"gram": backprojection_gram(Backprojector(g), RampFilter(g.V, g.B))}
