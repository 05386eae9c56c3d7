"""What the paper states: claims.json says what, `statistics` computes it, `verdicts` says whether it holds."""
