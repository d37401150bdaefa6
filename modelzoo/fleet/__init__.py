"""Many hosts: each measures, or judges shards of a data set, as tasks of a Dask cluster."""
