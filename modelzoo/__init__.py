"""modelzoo: PyTorch inference on ARM and x86 servers, measured, proven and judged."""

__version__ = "0.1.0"
