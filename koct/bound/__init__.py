"""The paper's bound: the theorem for any layered network, its calibration to a learning curve, operator norms."""

from koct.bound.calibration import Calibration, calibrate, two_factors
from koct.bound.theorem import BoundLayer, BoundNetwork

__all__ = ["BoundLayer", "BoundNetwork", "Calibration", "calibrate", "two_factors"]
