"""Errors of a study of scanners that differ from the known one, by kind and strength of the difference."""

from koct.report import inputs

KINDS = {  # option: in words, with its unit
    "gain": ("gain of the detector", "%"),
    "source_mm": ("distance of the source", "mm"),
    "offset_mm": ("offset of the detector", "mm"),
    "tilt": ("tilt of the detector", "°"),
    "turn": ("offset of all angles", "°"),
    "jitter": ("jitter of the angles", "°"),
    "spacing": ("spacing of the views", "%"),
    "hardening": ("beam hardening", "%"),
    "delay": ("delay of the readout", "samples"),
    "coil_phase": ("phase of the coil", "rad"),
    "widened": ("width of the blur", "%"),
}


def errors(curves_path, mismatch):
    """Return ({(kind, strength): {arch: {N: mean error}}}, the archs that are trained, and what things are called).

    A scanner that is the known one has strength 0, under every kind of its problem.
    """
    rows, free, names = inputs.split(curves_path, ("sweep", "arch", "N", "metric", "error_mean", "H"))
    kinds = {(problem, kind) for problem, kind, strength in inputs.of_study(mismatch).values() if strength}
    found = {}
    for (sweep, arch), curve in inputs.means([*rows, *free]).items():
        if sweep in mismatch:
            problem, own_kind, strength = mismatch[sweep]
            for kind in [own_kind] if strength else [kind for where, kind in kinds if where == problem]:
                found.setdefault((kind, strength), {})[arch] = curve
    return found, list(dict.fromkeys(row["arch"] for row in rows)), names


def strengths(found, kind):
    """Return how much scanners differ in one way, in ascending order, without the one that does not."""
    return sorted(strength for own, strength in found if own == kind and strength)
