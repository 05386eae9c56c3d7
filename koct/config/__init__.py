"""The study as typed data: config.yaml, its validation and its documentation."""
