"""``modelzoo weights``: list, fetch and verify the checkpoints."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from modelzoo.cli.selection import load_workloads
from modelzoo.errors import ModelzooError


def weights(args: argparse.Namespace) -> int:
    """Do what ``modelzoo weights`` was asked for; returns the exit code."""
    from modelzoo.report import terminal as display
    from modelzoo.workload import weights as checkpoints

    works = load_workloads(args.workloads)
    bad: list[str] = []

    def check(checkpoint: checkpoints.Checkpoint, path: Path) -> str:
        if args.action != "verify":
            return "here"
        try:
            return f"verified, sha256 {checkpoints.verify(checkpoint, path)[:16]}…"
        except ModelzooError as error:
            bad.append(str(error))
            return "DAMAGED"

    if args.action == "fetch":
        for work in works:
            for values in checkpoints.variants(work) if args.all else [work.option_values({})]:
                checkpoint = work.checkpoint(values)
                if checkpoint is not None and checkpoints.find(checkpoint) is None:
                    print(f"fetching {checkpoint.name} ({checkpoint.megabytes} MB)", file=sys.stderr)
                    checkpoints.fetch(checkpoint)
    display.show_weights(checkpoints.table(works, check), display.console())
    for line in bad:
        print(f"modelzoo: error: {line}", file=sys.stderr)
    return 2 if bad else 0
