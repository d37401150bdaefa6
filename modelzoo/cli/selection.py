"""Select the workloads and settings that the command line names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from modelzoo.cli import options
from modelzoo.errors import UsageError
from modelzoo.setting import OptionValue, Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import STANDARD_WORKLOADS, find_workload, load_workload

Jobs = Sequence[tuple[Workload, tuple[Setting, ...]]]
"""Workloads with the settings to run them under; the first setting of each is its baseline."""


def load_workloads(names: Sequence[str]) -> list[Workload]:
    """Load the workloads called ``names``, or the standard four.

    Raises:
        UsageError: one does not exist, cannot be imported, or is named twice.
    """
    found = [load_workload(find_workload(name)) for name in names or STANDARD_WORKLOADS]
    twice = {work.name for work in found if sum(other.name == work.name for other in found) > 1}
    if twice:
        raise UsageError(f"workload {', '.join(sorted(twice))} is named twice; results are identified by that name")
    return found


def select_settings(args: argparse.Namespace, default: str) -> Jobs:
    """Return each workload with one setting per precision asked for.

    Args:
        default: the precisions if neither ``--precision`` nor ``--bf16`` was given.
    """
    works = load_workloads(args.workloads)
    text = args.precision if args.precision is not None else "bf16" if args.bf16 else default
    wanted = options.precisions(text)
    if args.bf16 and "bf16" not in wanted:
        raise UsageError("--bf16 together with --precision fp32 contradicts itself; leave one out")
    jobs = []
    for work in works:
        base = options.make_setting(args, work, _options_for(work, works, args.option))
        methods = {"fp32": None, "bf16": base.bf16_method}
        jobs.append((work, tuple(base.replace(precision=each, bf16_method=methods[each]) for each in wanted)))
    return jobs


def _options_for(work: Workload, works: Sequence[Workload], given: Sequence[str]) -> dict[str, OptionValue]:
    """The values of ``--option NAME=VALUE`` that are meant for ``work``; some workload must have each name."""
    values: dict[str, OptionValue] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option {text!r} must have the form NAME=VALUE")
        if not any(name == option.name for other in works for option in other.options):
            known = sorted({option.name for other in works for option in other.options})
            raise UsageError(
                f"--option {name}: none of these workloads has it (they have: {', '.join(known) or 'none'})"
            )
        if any(name == option.name for option in work.options):
            values[name] = value
    return values
