"""The command line: the commands, their options, and where their output goes."""

from __future__ import annotations

import sys
from pathlib import Path

from modelzoo import DISTRIBUTION

try:
    from modelzoo.cli.app import main, performance, validate
except ModuleNotFoundError as error:  # a script of a checkout under the Python of the system
    if (error.name or "modelzoo").partition(".")[0] == "modelzoo":
        raise
    is_checkout = (Path(__file__).parents[2] / "scripts" / "run").is_file()
    advice = "run ./scripts/run once, then use .venv/bin/python" if is_checkout else f"run pip install '{DISTRIBUTION}'"
    sys.stderr.write(f"modelzoo: error: {sys.executable} has no module {error.name!r}: {advice}\n")
    raise SystemExit(2) from error

__all__ = ["main", "performance", "validate"]
