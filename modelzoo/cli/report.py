"""``modelzoo report``: show stored results as ``run`` and ``validate`` printed them."""

from __future__ import annotations

import argparse
from pathlib import Path

from modelzoo.cli.output import print_lines, result_lines


def report(args: argparse.Namespace) -> int:
    """Show the results that ``modelzoo report`` was given; returns the exit code.

    Every file is read before anything is printed. torch is not imported.

    Raises:
        InputError: a file cannot be read, is damaged, or is of a newer format.
    """
    from modelzoo.report import terminal
    from modelzoo.results import store, summary

    stored = [(path, store.read(Path(path))) for path in args.results]
    out = terminal.console()
    lines: list[str] = []
    for path, result in stored:
        out.print(f"{path}: {result.created}, modelzoo {result.version}", soft_wrap=True, markup=False)
        rows = summary.rows(result)
        if rows:
            if args.kernels or args.details:
                terminal.show_kernels(result, out)
            terminal.show(result, rows, out, details=args.details)
        for entry in result.validity:
            if not rows or args.kernels or args.details:
                terminal.show_validity(entry, out)
        lines += result_lines(result, rows)
    print_lines(lines)
    return 0
