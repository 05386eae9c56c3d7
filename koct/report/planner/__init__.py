"""The planner page: the forecasts of a pilot as one HTML file with answers for a grid of targets."""
