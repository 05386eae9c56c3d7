"""Problems, one file each: where pairs come from and what is known of them. Phantoms and pools stand beside them."""
