"""Many hosts, started by torchrun: one measures or judges on each, and rank 0 collects what they found."""
