"""modelzoo: PyTorch inference on ARM and x86 servers, measured, proven and judged."""

__version__ = "0.2.0"
DISTRIBUTION = "modelzoo-bench"
"""What pip installs: the suite's name on the package index."""
