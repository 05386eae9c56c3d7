"""What claims are about: numbers of a sweep that its settings, fits, operator norms and curves give.

A statistic takes a study, a sweep and options, and returns a number, a text, or several numbers by name: what its
docstring says.
"""

import itertools
import math

import numpy as np

from koct.bound.calibration import Calibration, calibrate, rate, two_factors
from koct.bound.theorem import BoundLayer, BoundNetwork, fully_connected, operator_aware, structural_reference
from koct.forecast.crossing import overtaken
from koct.report.measured import NotComputedError, norms
from koct.report.printed import PRINTED
from koct.study.results import grouped

GIBI = 1024**3
SAMPLES = 1000  # at which bounds are compared: their order depends on no N


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


def lambda_share(study, sweep, grid):
    """The share of fits with a chosen λ that is in a grid."""
    chosen = [lam for arch in (study.known, study.dense) for lam in _lambdas(study, sweep, arch)]
    if not chosen:
        raise NotComputedError(f"has no fit with a λ in {sweep}")
    return sum(any(math.isclose(lam, value) for value in grid) for lam in chosen) / len(chosen)


def largest_lambda(study, sweep):
    """The largest λ that validation took for the dense network."""
    return max(_lambdas(study, sweep, study.dense), default=math.nan)


def ridge_share(study, sweep):
    """The share of dense fits that have a λ."""
    return len(_lambdas(study, sweep, study.dense)) / len(study.rows(sweep, study.dense))


def _lambdas(study, sweep, arch):
    return [row["lam"] for row in study.rows(sweep, arch) if row["lam"] is not None]


def cell_count(study, sweep, arch):
    return len(study.rows(sweep, arch))


def devices(study, sweep, arch):
    """What the fits were computed on, in words."""
    return " and ".join(sorted({row["device"] for row in study.rows(sweep, arch)}))


def agreement(study, sweep, arch):
    """The error of another way to fit the dense network over that of the ridge, at the largest N of both."""
    N, other = study.relative(sweep, arch, "rrmse_peak")
    sizes, ridge = study.relative(sweep, study.dense, "rrmse_peak")
    return float(other[-1]) / study.at(sizes, ridge, N[-1], sweep)


# Parameters and memory


def parameters(study, sweep, arch):
    return study.parameters(sweep, arch)


def parameter_ratio(study, sweep):
    return study.parameters(sweep, study.dense) / study.parameters(sweep, study.known)


def square_share(study, sweep):
    """The parameter ratio over H²."""
    return parameter_ratio(study, sweep) / study.size(sweep, "H") ** 2


def memory(study, sweep, arch, bytes):
    """GiB of so many bytes a parameter."""
    return study.parameters(sweep, arch) * bytes / GIBI


# Floors and slopes


def calibrated(study, sweep, arch, key):
    """The floor or sigma of a curve."""
    return getattr(study.calibration(sweep, arch), key)


def floor_in(study, sweep, arch, column):
    """The floor that the curve has in a certain metric, squared."""
    return float(study.relative(sweep, arch, column)[1].min()) ** 2


def floor_ratio(study, sweep):
    known, dense = study.pair(sweep)
    return dense.floor / known.floor


def slope_ratio(study, sweep):
    """The structural-sparsity factor."""
    known, dense = study.pair(sweep)
    return dense.sigma / known.sigma


def budget_factor(study, sweep, factor):
    """The approximation-budget factor at a target of so many times the higher floor."""
    known, dense = study.pair(sweep)
    return two_factors(known, dense, factor * max(known.floor, dense.floor)).approximation


def budget_growth(study, sweep, near, far):
    """The approximation-budget factor near the higher floor over that far from it."""
    return budget_factor(study, sweep, near) / budget_factor(study, sweep, far)


def invertible(study, sweep):
    """The largest target that both bounds can be solved for over the smallest one: none if below 1."""
    pair = study.pair(sweep)
    return min(fit.floor + fit.sigma / math.e for fit in pair) / max(fit.floor for fit in pair)


def double_ratio(study, sweep):
    """(N/log N of the dense network) / (N/log N of the known one) from the solved bounds over the two factors."""
    known, dense = study.pair(sweep)
    width = invertible(study, sweep)
    if width <= 1:
        raise NotComputedError(f"has no target error that both bounds of {sweep} can be solved for")
    target = max(known.floor, dense.floor) * math.sqrt(width)
    N = [fit.required(target).n for fit in (known, dense)]
    solved = N[1] / math.log(N[1]) / (N[0] / math.log(N[0]))
    return solved / two_factors(known, dense, target).product


# Norms and Theorem 1


def reference(study, sweep):
    """H² / (4 ‖K‖² ‖Aᵀ‖²) with computed norms."""
    return structural_reference(study.size(sweep, "H"), *study.norms(sweep))


def reference_ratio(study, sweep):
    """That over the measured slope ratio."""
    return reference(study, sweep) / slope_ratio(study, sweep)


def _point(H):
    """An operating point of the paper, and its norms."""
    point = next(point for point in PRINTED["operating_points"] if point["H"] == H)
    return point, norms(**point)


def _reconstruction(H):
    """W, K, Aᵀ and ReLU of the filtered backprojection, all of them learned."""
    point, (filter_norm, back_norm) = _point(H)
    p = point["V"] * point["B"]
    norm_of = {"W": 1.0, "K": filter_norm, "At": back_norm, "ReLU": 1.0}
    layers = zip(norm_of.items(), (p, point["B"], H * H * p, 1), strict=True)
    return BoundNetwork([BoundLayer(name, norm, known=False, C=1.0, n=1.0, p=p) for (name, norm), p in layers])


def removed_term(study, sweep, H):
    """By how much of the bound it differs, after a layer became known, from the bound less its term: 12 decimals."""
    network, whole = _reconstruction(H), _reconstruction(H).bound(SAMPLES)
    left = ((network.with_known(term.layer.name).bound(SAMPLES), term.total) for term in network.terms(SAMPLES))
    return round(max(abs(bound - (whole - term)) / whole for bound, term in left), 12)


def smallest_share(study, sweep, H):
    """The smallest share of the bound that goes when one of any set of learned layers becomes known."""
    shares, names = [], [layer.name for layer in _reconstruction(H).layers]
    for learned in itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(1, 5)):
        network = _reconstruction(H)
        for name in set(names) - set(learned):
            network = network.with_known(name)
        before = network.bound(SAMPLES)
        shares += [1 - network.with_known(name).bound(SAMPLES) / before for name in learned]
    return min(shares)


def doubled(study, sweep, H):
    """N / log N that reaches an error, of a layer with twice the parameters over that of the layer."""
    A_1, p = _reconstruction(H).amplifications()[0], 1000
    N = [Calibration(0.0, A_1 * count).required(A_1).n for count in (p, 2 * p)]
    return N[1] / math.log(N[1]) / (N[0] / math.log(N[0]))


def amplification(study, sweep, H, layer, factor, filter_power, back_power):
    """A_l of the reconstruction over `factor` times powers of ‖K‖ and ‖Aᵀ‖."""
    _, (filter_norm, back_norm) = _point(H)
    printed = factor * filter_norm**filter_power * back_norm**back_power
    return _reconstruction(H).amplifications()[layer] / printed


def dense_amplification(study, sweep):
    """A_1 of the dense network."""
    return fully_connected(p=1).amplifications()[0]


def matched(study, sweep, H):
    """A_1 p of the dense network over that of the known one, over H² / (4 ‖K‖² ‖Aᵀ‖²)."""
    point, both = _point(H)
    p = point["V"] * point["B"]
    dense, known = fully_connected(p=H * H * p), operator_aware(*both, p=p)
    terms = [network.terms(SAMPLES)[0].estimation for network in (dense, known)]
    return terms[0] / terms[1] / structural_reference(H, *both)


# What learning gives


UNTRAINED = "untrained"  # the architecture of the known layers alone


def trained_share(study, sweep):
    """The known network's error at the largest N over that before any learning."""
    rows, metric = study.baselines.get((sweep, UNTRAINED)), study.metrics.get(sweep)
    error = study.error(sweep, study.known, "last")
    before = metric.mean(rows) if rows else np.nan
    if not before > 0:
        raise NotComputedError(f"has no untrained network of {sweep}")
    return error / before


def forecast_ratio(study, sweep, target):
    """The dense network's N for a target over the known one's, by the forecast; out of reach is infinite."""
    keys = [(sweep, arch, target) for arch in (study.known, study.dense)]
    if not all(key in study.answers for key in keys):
        raise NotComputedError(f"has no forecast for {target:g} in {sweep}")
    known, dense = (math.inf if study.answers[key] is None else study.answers[key] for key in keys)
    return math.inf if math.isinf(dense) else dense / known


# Curves


def _reached(N, error, target):
    """The N at which a curve first comes down to a target, by lines in the logarithms; infinite if it does not."""
    below = np.flatnonzero(error <= target)
    if not len(below):
        return math.inf
    i = below[0]
    if i == 0:
        return float(N[0])
    part = math.log(error[i - 1] / target) / math.log(error[i - 1] / error[i])
    return float(N[i - 1] * (N[i] / N[i - 1]) ** part)


def _both(study, sweep):
    """N, and the errors of the known and the dense network at these."""
    (N, known), (sizes, dense) = (study.curve(sweep, arch) for arch in (study.known, study.dense))
    at = [n for n in N if n in sizes]
    return np.array(at), known[np.isin(N, at)], dense[np.isin(sizes, at)]


# One network beside the other


def error_ratio(study, sweep, N):
    """The dense network's error over the known one's."""
    return study.error(sweep, study.dense, N) / study.error(sweep, study.known, N)


def least_ratio(study, sweep):
    """The smallest of these over all N."""
    _, known, dense = _both(study, sweep)
    return float((dense / known).min())


def rrmse(study, sweep, arch, N, column="rrmse_peak"):
    """The relative error, normalised by the peak, or by the norm of the image."""
    return study.at(*study.relative(sweep, arch, column), N, sweep)


def rrmse_ratio(study, sweep, N):
    """The dense network's relative error over the known one's."""
    return rrmse(study, sweep, study.dense, N) / rrmse(study, sweep, study.known, N)


def over_best(study, sweep, arch, N):
    """The relative error at an N over the smallest of the sweep."""
    sizes, errors = study.relative(sweep, arch, "rrmse_peak")
    return study.at(sizes, errors, N, sweep) / float(errors.min())


def crossing(study, sweep):
    """The N from which on the dense network's error is the smaller one; infinite if it is not at the largest N."""
    N = overtaken(*_both(study, sweep))
    return math.inf if N is None else N


def floor_crossing(study, sweep):
    """The N at which the dense network's error comes down to the known one's floor."""
    return _reached(*study.curve(sweep, study.dense), study.calibration(sweep, study.known).floor)


# Samples


def sample_ratio(study, sweep, N):
    """How many times N the dense network needs for the error that the known one has at N."""
    sizes, known = study.curve(sweep, study.known)
    place = study.at(sizes, sizes, N, sweep)
    return _reached(*study.curve(sweep, study.dense), study.at(sizes, known, N, sweep)) / place


def sample_ratios(study, sweep):
    """The same for every N of the sweep."""
    N, _ = study.curve(sweep, study.known)
    return {f"N = {int(n):,}": sample_ratio(study, sweep, n) for n in N}


def least_samples(study, sweep):
    """The smallest of these."""
    return min(sample_ratios(study, sweep).values())


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
    """How far H² is from the measured sample ratio, over how far the slope ratio is, in logarithms."""
    measured, ratios = _measured(study, sweep), (study.size(sweep, "H") ** 2, slope_ratio(study, sweep))
    far, near = (abs(math.log(ratio / measured)) for ratio in ratios)
    return far / near if near else math.inf


def largest_gap(study, sweep, others):
    """The sample ratio at the smallest N over the largest one of other sweeps."""
    return _measured(study, sweep) / max(_measured(study, other) for other in others)


def settled_ratio(study, sweep, factor):
    """The N at which the dense network's curve is within a factor of its floor, over that of the known one."""
    known, dense = (
        _reached(*study.curve(sweep, arch), factor * study.calibration(sweep, arch).floor)
        for arch in (study.known, study.dense)
    )
    return dense / known


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
    kept, ratios = error > above * fit.floor, fit.predict(N) / error
    return {f"N = {int(n):,}": float(ratio) for n, ratio in zip(N[kept], ratios[kept], strict=True)}


def bound_error(study, sweep, arch):
    """The largest factor between bound and error, either way."""
    N, error = study.curve(sweep, arch)
    return float(np.exp(np.abs(np.log(study.calibration(sweep, arch).predict(N) / error)).max()))


def bound_first(study, sweep, arch):
    """The bound over the error at the smallest N."""
    N, error = study.curve(sweep, arch)
    return float(study.calibration(sweep, arch).predict(N[0]) / error[0])


def pilot(study, sweep, arch):
    """What a bound that is calibrated without the two largest N says of the error at the largest, over that error."""
    N, error = study.curve(sweep, arch)
    return float(calibrate(N[:-2], error[:-2]).predict(N[-1]) / error[-1]) if len(N) > 3 else math.inf


# The shape of a curve


def decay(study, sweep, arch):
    """By what factor the error falls over the sweep, over that of log N / N."""
    N, error = study.curve(sweep, arch)
    return float(error[0] / error[-1] * rate(N[-1]) / rate(N[0]))


def last_drop(study, sweep, arch):
    """The part of the error that goes in the last step of N."""
    _, error = study.curve(sweep, arch)
    return float(1 - error[-1] / error[-2])


def floor_place(study, sweep, arch):
    """The N of the smallest error over the largest N."""
    N, error = study.curve(sweep, arch)
    return float(N[error.argmin()] / N[-1])


STATISTICS = {
    name: function
    for name, function in globals().items()
    if not name.startswith("_") and getattr(function, "__module__", None) == __name__
}
