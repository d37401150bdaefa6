"""Many instances on one host: how many, on how many cores each, with which batch."""
