"""``modelzoo check``: is one build slower, or wrong, compared with another one? Both are measured here, interleaved."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from modelzoo.cli import files
from modelzoo.cli.measuring import FAIL_ON, Check
from modelzoo.cli.options import FORMATS, Measurement, Output
from modelzoo.cli.run import measure_session, measured, show_plan
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.stored import allowances, fail_on, rendered
from modelzoo.comparison.compare import Comparison, Gate, compare_interleaved, gate
from modelzoo.comparison.estimate import StoredResult
from modelzoo.document import Block
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure import builds
from modelzoo.results.store import ResultFile
from modelzoo.views.compare import check_document

NAMES = ("base", "head")
SECONDS_PER_WORKLOAD, MOST_SECONDS = 300.0, 900.0
"""The default budget."""


def check_command(args: argparse.Namespace, wanted: Check, how: Measurement, output: Output) -> int:
    """Run ``modelzoo check``.

    Returns:
        0 if no row meets a condition of ``--fail-on``, 1 if one does, 2 if nothing could be compared or a process
        failed, 130 if the user interrupted it.

    Raises:
        ModelzooError: an option is not valid, or an environment cannot be made; nothing has been measured.
    """
    target = files.output_file(output.output)
    asked = wanted.format
    if target is not None:
        files.check_directory(target)
        asked = asked or files.SUFFIXES.get(target.suffix, "markdown")
    form = files.format_of(asked, target, FORMATS)
    conditions, allowed = fail_on(wanted.fail_on or FAIL_ON, "latency"), allowances(wanted.allow)
    for name in ("python", "image"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: name the two sides with --base and --head")
    plain = select_settings(args, "fp32")  # before minutes are spent on environments
    base = builds.parse_build("--base", wanted.base, wanted.base_env)
    head = builds.parse_build("--head", wanted.head, wanted.head_env)
    if how.effort.budget is None and how.effort.processes is None:
        budget = min(MOST_SECONDS, SECONDS_PER_WORKLOAD * len(plain))
        how = replace(how, effort=replace(how.effort, budget=budget))
    if output.dry_run:
        return show_plan(_both(plain, base.interpreter, head.interpreter), how)
    jobs = _both(plain, *builds.interpreters(base, head, files.tell))
    result = files.new_result(jobs, name=output.label)
    stored = ResultFile(files.result_path(wanted.json, result.created, "--json"), result, "--json")

    def show(out: Console, ended_early: bool) -> int:
        found = compare_interleaved(StoredResult(files.path_text(stored.path), stored.result), NAMES, allowed)
        judged, titles = gate(found, conditions), (base.title, head.title)

        def page(found: Comparison, judged: Gate) -> list[Block]:
            return check_document(stored.result, found, judged, titles, details=how.details)

        try:
            files.deliver(rendered([(found, judged)], form, page, target), target)
        finally:
            files.write_reproducers(stored.path, stored.result, files.tell)
            files.say_where(stored, files.tell)
        if any(judged.failures):
            return 1
        return 2 if judged.exit_code or any(run.error for run in stored.result.runs) else 0

    return measured(
        stored, lambda progress: measure_session(jobs, how, stored, progress), show, lambda: len(stored.result.runs)
    )


def _both(plain: Jobs, base: str | None, head: str | None) -> Jobs:
    """Each workload with two settings, of the baseline and of the other side."""
    own = [None if python == sys.executable else python for python in (base, head)]
    return [(work, tuple(setting.replace(python=python) for python in own)) for work, (setting,) in plain]
