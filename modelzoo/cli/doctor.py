"""``modelzoo doctor``: this machine's limits, and every condition that may distort a result."""

from __future__ import annotations

import argparse
from pathlib import Path


def doctor(args: argparse.Namespace) -> int:
    from modelzoo.machine.diagnosis import run_doctor

    """Do what ``modelzoo weights`` was asked for; returns the exit code."""
    from modelzoo.report import terminal as display

    return run_doctor(display.console(), Path(args.json) if args.json else None, args.fresh)
