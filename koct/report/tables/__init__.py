"""Tables, one file each: `PRODUCT` declares it, and `table` returns it from the paths of what it reads."""
