"""The command line: one module per command, and the options that they share."""

from __future__ import annotations

from modelzoo.cli.app import main, performance, validate

__all__ = ["main", "performance", "validate"]
