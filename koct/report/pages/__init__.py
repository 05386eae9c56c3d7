"""Pages, one file each: `PRODUCT` declares it, and `write(paths, out, spec)` makes it."""
