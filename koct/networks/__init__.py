"""Networks, one file each, and what their fits share."""
