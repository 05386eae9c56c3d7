"""log, exp and the normal quantile, with the same bits on every machine.

Libraries differ in the last digit of these functions, and so do browsers. Here they are made of +, −, ×, / and √ alone,
which IEEE 754 rounds alike everywhere, in a fixed order. The planner page (koct/report/planner/numbers.js) does the
same in JavaScript with the same constants, so that its answers are those of `koct budget`.

Errors are below one unit in the last place (log, exp) and 1e-15 (normal quantile, relative). The coefficients are those
of fdlibm's e_log.c and e_exp.c (Sun Microsystems, 1993) and of Wichura's algorithm AS 241 (1988).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from koct.forecast.runs import FloatArray

LN2_HIGH, LN2_LOW = (
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
)  # ln 2; a small multiple of the first is exact
INVERSE_LN2 = 1.44269504088896338700
SQRT_HALF = 0.7071067811865476
LOG = (  # of s², without the constant
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
EXP = (  # of r², without the constant
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
NORMAL = (  # (numerator, denominator): near one half, in the tails, and far out
    (
        (
            3.3871328727963666080,
            133.14166789178437745,
            1971.5909503065514427,
            13731.693765509461125,
            45921.953931549871457,
            67265.770927008700853,
            33430.575583588128105,
            2509.0809287301226727,
        ),
        (
            1.0,
            42.313330701600911252,
            687.18700749205790830,
            5394.1960214247511077,
            21213.794301586595867,
            39307.895800092710610,
            28729.085735721942674,
            5226.4952788528545610,
        ),
    ),
    (
        (
            1.42343711074968357734,
            4.63033784615654529590,
            5.76949722146069140550,
            3.64784832476320460504,
            1.27045825245236838258,
            2.41780725177450611770e-1,
            2.27238449892691845833e-2,
            7.74545014278341407640e-4,
        ),
        (
            1.0,
            2.05319162663775882187,
            1.67638483018380384940,
            6.89767334985100004550e-1,
            1.48103976427480074590e-1,
            1.51986665636164571966e-2,
            5.47593808499534494600e-4,
            1.05075007164441684324e-9,
        ),
    ),
    (
        (
            6.65790464350110377720,
            5.46378491116411436990,
            1.78482653991729133580,
            2.96560571828504891230e-1,
            2.65321895265761230930e-2,
            1.24266094738807843860e-3,
            2.71155556874348757815e-5,
            2.01033439929228813265e-7,
        ),
        (
            1.0,
            5.99832206555887937690e-1,
            1.36929880922735805310e-1,
            1.48753612908506148525e-2,
            7.86869131145613259100e-4,
            1.84631831751005468180e-5,
            1.42151175831644588870e-7,
            2.04426310338993978564e-15,
        ),
    ),
)
NEAR, FAR = 0.425, 5.0  # where one pair of polynomials ends: of |p − ½|, and of √(−log p)
NEAR_SHIFT, TAIL_SHIFT = 0.180625, 1.6

CONSTANTS = {
    "ln2": (LN2_HIGH, LN2_LOW, INVERSE_LN2),
    "sqrtHalf": SQRT_HALF,
    "log": LOG,
    "exp": EXP,
    "normal": NORMAL,
    "ends": (NEAR, FAR),
    "shifts": (NEAR_SHIFT, TAIL_SHIFT),
}


def log(x: ArrayLike) -> FloatArray:
    """The natural logarithm of positive, finite numbers, in the shape of `x`."""
    m, k = np.frexp(np.asarray(x, dtype=float))
    small = m < SQRT_HALF
    f, k = np.where(small, 2 * m, m) - 1, k - small
    s, half = f / (2 + f), 0.5 * f * f
    z = s * s
    return k * LN2_HIGH - ((half - (s * (half + z * _polynomial(LOG, z)) + k * LN2_LOW)) - f)


def exp(x: ArrayLike) -> FloatArray:
    """The exponential of numbers between −700 and 700, in the shape of `x`."""
    x = np.asarray(x, dtype=float)
    k = np.floor(x * INVERSE_LN2 + 0.5)
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    z = r * r
    c = r - z * _polynomial(EXP, z)
    return np.ldexp(1 - ((low - (r * c) / (2 - c)) - high), k.astype(int))


def normal_quantile(p: float) -> float:
    """The x below which a standard normal variable lies with probability `p`, 0 < p < 1."""
    q = p - 0.5
    if abs(q) <= NEAR:
        x = NEAR_SHIFT - q * q
        return q * _polynomial(NORMAL[0][0], x) / _polynomial(NORMAL[0][1], x)
    r = math.sqrt(-float(log(min(p, 1 - p))))
    far = r > FAR
    x = r - (FAR if far else TAIL_SHIFT)
    top, bottom = NORMAL[2 if far else 1]
    value = _polynomial(top, x) / _polynomial(bottom, x)
    return -value if q < 0 else value


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """By Horner's rule; the constant comes first."""
    value = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
