"""Whether the samples of printed fan-beam rays can meet an ellipse: pure arithmetic, asked before any job starts.

A ray has 2H samples from the source to the detector, so they lie far apart where H is small: all of them may jump over
an image that is small as well.
"""

import math
from collections.abc import Sequence

SOURCE, DETECTOR, BIN = 1000.0, 1500.0, 1.0  # mm: source to isocentre, source to detector, width of a bin
CENTRE, AXIS = 0.5, 0.4  # how far out an ellipse has its centre, and its largest half axis, in halves of the image
MOST_BINS = math.floor(math.sqrt(2) * DETECTOR / BIN)  # of more, the corners of the image reach the source
VIEWS = 4096  # of more views some are looked at: their neighbours see the same


def radius(B: int) -> float:
    """Half the width of the image in mm: what the detector sees at the isocentre."""
    return 0.5 * B * BIN * SOURCE / DETECTOR


def sees_an_ellipse(H: int, V: int, B: int, arc: float | None = None, angles: Sequence[float] | None = None) -> bool:
    """Whether any sample of any view touches a pixel that an ellipse can cover; `arc` and `angles` are in degrees."""
    last = 2 * H - 1
    half = radius(B)
    pixel = 2 * half / (H - 1)
    middle = last * SOURCE / DETECTOR  # which sample would lie at the isocentre

    def depth(k: int) -> float:
        """Of a sample behind the isocentre, along the central ray: the same on every ray."""
        return DETECTOR * k / last - SOURCE

    def inner(x: float) -> float:
        """Of the two pixels around a coordinate, the centre of the one nearer to the middle."""
        shift = (H - 1) / 2 % 1
        return abs(math.floor(abs(x) / pixel - shift + 1e-9) + shift) * pixel / half

    def covered(x: float, y: float) -> bool:
        return math.hypot(max(0.0, inner(x) - CENTRE), max(0.0, inner(y) - CENTRE)) < AXIS

    if min(abs(depth(math.floor(middle))), abs(depth(math.ceil(middle)))) <= CENTRE * half:
        return True  # the first view meets the inner half; below, few samples are left to look at
    far = (math.sqrt(2) * CENTRE + AXIS) * half + math.sqrt(2) * pixel
    reach = far * last / DETECTOR
    near = range(max(0, math.ceil(middle - reach)), min(last, math.floor(middle + reach)) + 1)
    if angles is not None:
        looked_at = [math.radians(angle) for angle in angles[:: 1 + V // VIEWS]]
    else:
        views = range(0, (V + 1) // 2 if arc is None else V, 1 + V // VIEWS)  # of 180°, the others are mirror images
        step = math.radians(180 if arc is None else arc) / max(1, V if arc == 360 else V - 1)
        looked_at = [view * step for view in views]
    for k in sorted(near, key=lambda k: abs(depth(k))):
        u = depth(k)
        offsets = [offset for bin in range(B) if math.hypot(u, offset := k / last * BIN * (bin - (B - 1) / 2)) < far]
        for angle in looked_at:
            c, s = math.cos(angle), math.sin(angle)
            if any(covered(u * s + offset * c, offset * s - u * c) for offset in offsets):
                return True
    return False
