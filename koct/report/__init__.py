"""Tables and figures from the collected results. Computes nothing that `koct.forecast` or `koct.bound` should."""
