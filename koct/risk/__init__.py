"""The risk estimator. It is independent of tomography: it takes any layered network and any learning curve.

from koct.risk import Forecast, Pilot
forecast = Forecast(Pilot.from_points(N, error, seed))
forecast.required(target=0.01)
"""

from koct.risk.bound import Layer, Network
from koct.risk.budget import Forecast
from koct.risk.calibration import Calibration, calibrate, two_factors
from koct.risk.runs import Pilot

__all__ = ["Calibration", "Forecast", "Layer", "Network", "Pilot", "calibrate", "two_factors"]
