"""What claims are about: numbers that the curves of a sweep tell. See koct/report/claims_numbers.py."""

import math

import numpy as np

from koct.bound.calibration import calibrate, rate
from koct.forecast.crossing import overtaken
from koct.report.claims_numbers import slope_ratio
from koct.report.claims_study import NotComputedError


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


def rrmse(study, sweep, arch, N):
    """The relative error, normalised by the peak."""
    return study.at(*study.relative(sweep, arch, "rrmse_peak"), N, sweep)


def norm_error(study, sweep, arch, N):
    """The relative error ‖y − ŷ‖ / ‖y‖."""
    return study.at(*study.relative(sweep, arch, "rrmse_norm"), N, sweep)


def rrmse_ratio(study, sweep, N):
    """The dense network's relative error over the known one's."""
    return rrmse(study, sweep, study.dense, N) / rrmse(study, sweep, study.known, N)


def over_best(study, sweep, arch, N):
    """The relative error at an N over the smallest of the sweep."""
    sizes, errors = study.relative(sweep, arch, "rrmse_peak")
    return study.at(sizes, errors, N, sweep) / float(errors.min())


def crossing(study, sweep):
    """The N from which on the dense network's error is the smaller one; infinite if it is not at the largest N."""
    found = overtaken(*_both(study, sweep))
    return math.inf if found is None else found


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
    found = sample_ratio(study, sweep, "first")
    if math.isinf(found):
        raise NotComputedError(f"has no N in {sweep} large enough to measure a sample ratio")
    return found


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


def _settled(study, sweep, arch, factor):
    """The N at which a curve is within a factor of its floor."""
    return _reached(*study.curve(sweep, arch), factor * study.calibration(sweep, arch).floor)


def settled_ratio(study, sweep, factor):
    """That of the dense network over that of the known one."""
    return _settled(study, sweep, study.dense, factor) / _settled(study, sweep, study.known, factor)


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
    ratios = zip(N, error, fit.predict(N) / error, strict=True)
    return {f"N = {int(n):,}": float(ratio) for n, found, ratio in ratios if found > above * fit.floor}


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


CURVES = {
    function.__name__: function
    for function in (
        *(error_ratio, least_ratio, rrmse, norm_error, rrmse_ratio, over_best, crossing, floor_crossing, sample_ratio),
        *(sample_ratios, least_samples, square_over_samples, tighter, largest_gap, settled_ratio),
        *(solved_ratio, bound_ratios, bound_error, bound_first, pilot, decay, last_drop, floor_place),
    )
}
