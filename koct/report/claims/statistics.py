"""What claims are about: numbers of a sweep that its settings, fits, operator norms and curves give.

A statistic takes a study, a sweep and options, and returns a number, a text, or several numbers by name: what its
docstring says.
"""

import math

import numpy as np

from koct.base.loglog import first_at
from koct.bound.calibration import Calibration, calibrate, rate, two_factors
from koct.bound.theorem import BoundLayer, BoundNetwork, fully_connected, operator_aware, structural_reference
from koct.report.measured import NotComputedError, norms
from koct.report.printed import PRINTED
from koct.study.results import grouped

GIBI = 1024**3
SAMPLES = 1000  # at which bounds are compared: their order depends on no N
FINE, FLAT, LOCAL = 0.1, 9, 5  # cycles per pixel of details; pixels across a flat region, and across a local mean


# Settings


def size(study, sweep, key, over=None):
    """V or B, or that over H."""
    return study.size(sweep, key) / (study.size(sweep, over) if over else 1)


def grid_share(study, sweep, N):
    """How much of the grid of N, and of the one that was expected, the two have in common."""
    sizes = set(study.curve(sweep, study.known)[0])
    return len(sizes & set(N)) / len(sizes | set(N))


def decades(study, sweep):
    """Orders of magnitude from the smallest N to the largest."""
    N, _ = study.curve(sweep, study.known)
    return math.log10(N[-1] / N[0])


def seeds(study, sweep):
    """The fewest seeds of a cell."""
    rows = study.rows(sweep, study.known) + study.rows(sweep, study.dense)
    return min(len(group) for group in grouped(rows, "arch", "N").values())


def cell_count(study, sweep, arch):
    return len(study.rows(sweep, arch))


def devices(study, sweep, arch):
    """What the fits were computed on, in words."""
    return " and ".join(sorted({row["device"] for row in study.rows(sweep, arch)}))


# Parameters and memory


def parameters(study, sweep, arch):
    study.rows(sweep, arch)
    return study.fitted[sweep, arch]["p"]


def memory(study, sweep, arch, bytes):
    """GiB of so many bytes a parameter."""
    return parameters(study, sweep, arch) * bytes / GIBI


# Floors and slopes


def calibrated(study, sweep, arch, key):
    """The floor or sigma of a curve."""
    return getattr(study.calibration(sweep, arch), key)


def first_share(study, sweep, arch):
    """The part of sigma that comes from the smallest N."""
    N, error = study.curve(sweep, arch)
    shares = rate(N) * (error - error.min())
    return float(shares[0] / shares.sum())


def floor_in(study, sweep, arch, column):
    """The floor that the curve has in a certain metric, squared."""
    return float(study.relative(sweep, arch, column)[1].min()) ** 2


def slope_ratio(study, sweep):
    """The structural-sparsity factor."""
    return ratio(study, sweep, "calibrated", key="sigma")


def budget_factor(study, sweep, factor):
    """The approximation-budget factor at a target of so many times the higher floor."""
    known, dense = study.pair(sweep)
    return two_factors(known, dense, factor * max(known.floor, dense.floor)).approximation


def invertible(study, sweep):
    """The largest target that both bounds can be solved for over the smallest one: none if below 1."""
    pair = study.pair(sweep)
    return min(fit.floor + fit.sigma / math.e for fit in pair) / max(fit.floor for fit in pair)


# Norms and Theorem 1


def reference(study, sweep):
    """H² / (4 ‖K‖² ‖Aᵀ‖²) with computed norms."""
    return structural_reference(study.size(sweep, "H"), *study.norms(sweep))


def reference_ratio(study, sweep):
    """That over the measured slope ratio."""
    return reference(study, sweep) / slope_ratio(study, sweep)


def _printed_point(H):
    return next(point for point in PRINTED["operating_points"] if point["H"] == H)


def removed_term(study, sweep, H):
    """By how much of the bound it differs, after a layer became known, from the bound less its term: 12 decimals."""
    point = _printed_point(H)
    (filter_norm, back_norm), p = norms(**point), point["V"] * point["B"]
    chain = {"W": (1.0, p), "K": (filter_norm, point["B"]), "At": (back_norm, H * H * p), "ReLU": (1.0, 1)}
    network = BoundNetwork(BoundLayer(name, norm, False, C=1.0, p=p) for name, (norm, p) in chain.items())
    whole = network.bound(SAMPLES)
    left = ((network.with_known(term.layer.name).bound(SAMPLES), term.total) for term in network.terms(SAMPLES))
    return round(max(abs(bound - (whole - term)) / whole for bound, term in left), 12)


def layers_apart(study, sweep, H):
    """How many layers more the bound of the known network has than that of the dense one."""
    point = _printed_point(H)
    p = point["V"] * point["B"]
    return len(operator_aware(*norms(**point), p=p).layers) - len(fully_connected(p=H * H * p).layers)


def pseudo_inverse(study, sweep, H):
    """How far Aᵀ K W A with the best diagonal W is from A⁺ A, over the norm of the latter."""
    from koct.study.norms import operators

    K, At = operators(**_printed_point(H))
    back, A = (At @ K).matrix(), At.T.matrix()
    columns = np.einsum("ik,kj->ijk", back, A).reshape(-1, len(A))  # of Aᵀ K W A, one for every weight
    inverted = (np.linalg.pinv(A) @ A).ravel()
    weights = np.linalg.lstsq(columns, inverted)[0]
    return float(np.linalg.norm(columns @ weights - inverted) / np.linalg.norm(inverted))


def regression_rate(study, sweep, p, N):
    """The risk of least squares at the last N over what that at the first says of it by p log N / N.

    Beyond the noise, the risk with Gaussian inputs is the variance of the noise times p / (N − p − 1).
    """
    first, last = (p / (size - p - 1) / (p * float(rate(size))) for size in N)
    return last / first


# One network beside the other


def _both(study, sweep):
    """N, and the errors of the known and the dense network at these."""
    (N, known), (sizes, dense) = (study.curve(sweep, arch) for arch in (study.known, study.dense))
    at = [n for n in N if n in sizes]
    return np.array(at), known[np.isin(N, at)], dense[np.isin(sizes, at)]


def ratio(study, sweep, of, **options):
    """A statistic of the dense network over that of the known one."""
    known, dense = (STATISTICS[of](study, sweep, arch=arch, **options) for arch in (study.known, study.dense))
    return dense / known


def error(study, sweep, arch, N):
    """The mean error at one N."""
    return study.at(*study.curve(sweep, arch), N, sweep)


def least_ratio(study, sweep):
    """The smallest ratio of errors over all N."""
    _, known, dense = _both(study, sweep)
    return float((dense / known).min())


def rrmse(study, sweep, arch, N, column="rrmse_peak"):
    """The relative error, normalised by the peak, or by the norm of the image."""
    return study.at(*study.relative(sweep, arch, column), N, sweep)


def over_best(study, sweep, arch, N):
    """The relative error at an N over the smallest of the sweep."""
    sizes, errors = study.relative(sweep, arch, "rrmse_peak")
    return study.at(sizes, errors, N, sweep) / float(errors.min())


def known_share(study, sweep):
    """What the right constants take away of the error of the known chain, over what training takes away at best."""
    trained = float(study.curve(sweep, study.known)[1].min())
    chain, right = (study.without_samples(sweep, arch) for arch in ("untrained", "fbp"))
    return (chain - right) / (chain - trained)


def crossing(study, sweep):
    """The N from which on the dense network's error is the smaller one; infinite if it is not at the largest N."""
    return study.crossing(sweep)


def floor_crossing(study, sweep):
    """The N at which the dense network's error comes down to the known one's floor."""
    return first_at(*study.curve(sweep, study.dense), study.calibration(sweep, study.known).floor)


# Samples


def sample_ratio(study, sweep, N):
    """How many times N the dense network needs for the error that the known one has at N."""
    sizes, known = study.curve(sweep, study.known)
    place = study.at(sizes, sizes, N, sweep)
    return first_at(*study.curve(sweep, study.dense), study.at(sizes, known, N, sweep)) / place


def sample_ratios(study, sweep):
    """The same for every N of the sweep whose error the dense network reaches."""
    N, _ = study.curve(sweep, study.known)
    ratios = {f"N = {int(n):,}": sample_ratio(study, sweep, n) for n in N}
    return {name: ratio for name, ratio in ratios.items() if math.isfinite(ratio)}


def least_samples(study, sweep):
    """The smallest of these; infinite if there is none."""
    return min(sample_ratios(study, sweep).values(), default=math.inf)


def _measured(study, sweep):
    """The sample ratio at the known network's smallest N."""
    ratio = sample_ratio(study, sweep, "first")
    if math.isinf(ratio):
        raise NotComputedError(f"has no N in {sweep} large enough to measure a sample ratio")
    return ratio


def square_over_samples(study, sweep):
    """H² over the measured sample ratio at the known network's smallest N."""
    return study.size(sweep, "H") ** 2 / _measured(study, sweep)


def tighter(study, sweep):
    """How far H² is from the sample ratio at the smallest N, over how far the slope ratio of the others is, in logs."""
    curves = [study.curve(sweep, arch) for arch in (study.known, study.dense)]
    known, dense = (calibrate(N[1:], error[1:]).sigma for N, error in curves)
    measured, ratios = _measured(study, sweep), (study.size(sweep, "H") ** 2, dense / known)
    far, near = (abs(math.log(ratio / measured)) for ratio in ratios)
    return far / near if near else math.inf


def sample_power(study, sweep, others):
    """The power of the ratio of parameters that the measured sample ratio is, by a line through all sweeps in logs."""
    sweeps = [sweep, *others]
    parameters_ratio = [ratio(study, of, "parameters") for of in sweeps]
    return float(np.polyfit(np.log(parameters_ratio), np.log([_measured(study, of) for of in sweeps]), 1)[0])


def largest_gap(study, sweep, others):
    """The sample ratio at the smallest N over the largest one of other sweeps."""
    return _measured(study, sweep) / max(_measured(study, other) for other in others)


def settled(study, sweep, arch, factor, floor=None):
    """The N at which an error is within a factor of the network's floor, or of that of the network `floor`."""
    return first_at(*study.curve(sweep, arch), factor * study.calibration(sweep, floor or arch).floor)


def solved_ratio(study, sweep, factor):
    """N of the dense network over N of the known one, both from their bounds, at a multiple of the known floor."""
    known, dense = study.pair(sweep)
    N = [fit.required(factor * known.floor) for fit in (known, dense)]
    if N[0].samples is None or N[1].samples is None:
        return math.inf
    return (N[1].n or N[1].samples) / (N[0].n or N[0].samples)


# The calibrated bound


def bound_ratios(study, sweep, arch, above=1.0):
    """The bound over the error at every N where the error is above so many times the floor."""
    fit, (N, error) = study.calibration(sweep, arch), study.curve(sweep, arch)
    kept, ratios = error > above * fit.floor, _bound_over_error(study, sweep, arch)
    return {f"N = {int(n):,}": float(ratio) for n, ratio in zip(N[kept], ratios[kept], strict=True)}


def _bound_over_error(study, sweep, arch):
    N, error = study.curve(sweep, arch)
    return study.calibration(sweep, arch).predict(N) / error


def bound_error(study, sweep, arch):
    """The largest factor between bound and error, either way."""
    return float(np.exp(np.abs(np.log(_bound_over_error(study, sweep, arch))).max()))


def bound_first(study, sweep, arch):
    """The bound over the error at the smallest N."""
    return float(_bound_over_error(study, sweep, arch)[0])


def bound_least(study, sweep, arch, share=1.0):
    """The least bound over error of a curve, or of that share of its N that are the smallest."""
    ratios = _bound_over_error(study, sweep, arch)
    return float(ratios[: int(share * len(ratios))].min())


def law_error(study, sweep, arch):
    """The largest factor between a curve and its best floor + sigma log N / N, by least squares of relative errors."""
    from scipy.optimize import nnls

    N, error = study.curve(sweep, arch)
    law, _ = nnls(np.stack([1 / error, rate(N) / error], axis=1), np.ones(len(N)))
    return float(np.exp(np.abs(np.log(Calibration(*law).predict(N) / error)).max()))


def pilot(study, sweep, arch):
    """What a bound that is calibrated without the two largest N says of the error at the largest, over that error."""
    N, error = study.curve(sweep, arch)
    return float(calibrate(N[:-2], error[:-2]).predict(N[-1]) / error[-1]) if len(N) > 3 else math.inf


# Images


def pictured(study, sweep):
    """How many test images a study keeps of a sweep, all of one seed."""
    return len(study.arrays(sweep).get("truth", ()))


def detail(study, sweep, arch, N):
    """How much of the truth's amplitudes above a tenth of a cycle per pixel images have; noise adds nothing to it."""
    truth, made = map(np.fft.fft2, study.images(sweep, arch, N))
    fine = np.hypot(*np.meshgrid(*map(np.fft.fftfreq, truth.shape[1:]), indexing="ij")) >= FINE
    truth, made = truth[:, fine], made[:, fine]
    return float(abs(np.vdot(truth, made)) / np.vdot(truth, truth).real)


def spread(study, sweep, arch, N):
    """The root mean square around local means where the truth is constant, neither zero nor at its peak."""
    from scipy import ndimage

    truth, images = study.images(sweep, arch, N)
    flat, local = (1, FLAT, FLAT), (1, LOCAL, LOCAL)
    constant = ndimage.maximum_filter(truth, flat) == ndimage.minimum_filter(truth, flat)
    constant &= (truth > 0) & (truth < truth.max(axis=(1, 2), keepdims=True))
    return float(np.sqrt(((images - ndimage.uniform_filter(images, local))[constant] ** 2).mean()))


# The shape of a curve


def last_drop(study, sweep, arch):
    """The part of the error that goes in the last step of N."""
    _, error = study.curve(sweep, arch)
    return float(1 - error[-1] / error[-2])


def floor_size(study, sweep, arch):
    """The N of the smallest error."""
    N, error = study.curve(sweep, arch)
    return float(N[error.argmin()])


def floor_place(study, sweep, arch):
    """That over the largest N."""
    return floor_size(study, sweep, arch) / float(study.curve(sweep, arch)[0][-1])


STATISTICS = {
    name: function
    for name, function in globals().items()
    if not name.startswith("_") and getattr(function, "__module__", None) == __name__
}
