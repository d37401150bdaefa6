"""The suite's version and name on the package index, in a module that imports nothing."""

__version__ = "0.2.0"
DISTRIBUTION = "modelzoo-bench"
"""What pip installs."""
