"""The planner page: the forecasts of a pilot as one HTML file that answers for any target, without network."""
