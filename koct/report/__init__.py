"""Tables and figures from the collected results. Computes nothing that `koct.risk` should."""
