"""modelzoo: PyTorch inference on ARM and x86 servers, measured, proven and judged."""

from modelzoo.version import __version__

__all__ = ["__version__"]
