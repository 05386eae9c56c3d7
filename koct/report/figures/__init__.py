"""Figures, one file each: `PRODUCT` declares it, and `figure` returns it from the paths of what it reads."""
