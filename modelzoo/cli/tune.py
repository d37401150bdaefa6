"""``modelzoo tune``: search the fastest setting of a workload that is valid and verified on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from modelzoo.cli.files import new_result, print_document, print_result, result_lines, result_path, say_where
from modelzoo.cli.options import Accuracy, Output, Tune
from modelzoo.cli.run import judge_setting, make_judging, measured
from modelzoo.cli.selection import select_one
from modelzoo.document import terminal
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine import facts
from modelzoo.records.machine import fingerprint
from modelzoo.records.race import LeftOut, Tuning
from modelzoo.records.run import Result, Run
from modelzoo.results import store, summary, tuning
from modelzoo.results.store import ResultFile
from modelzoo.setting import Setting
from modelzoo.stats import race
from modelzoo.tuning import decisions, grid
from modelzoo.tuning.search import Search
from modelzoo.views import tuning as view
from modelzoo.views.progress import LiveProgress, plan_of_search
from modelzoo.workload import Workload

BUDGET = 20 * 60.0
"""Seconds that a search takes unless another budget is given."""


def tune(args: argparse.Namespace, wanted: Tune, accuracy: Accuracy, output: Output) -> int:
    """Run ``modelzoo tune``.

    Returns:
        0, also if nothing is faster than the default; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, or the default setting cannot run.
    """
    work, (base,) = select_one(args)
    if output.dry_run:
        if wanted.resume:
            raise UsageError("--dry-run prints the plan of a new search; leave --resume out")
        result = _new(args, wanted, work, base, accuracy, output)
        stages, left = race.sizes(len(result.requested) - 1), _left(tuning.of(result))
        print_document(plan_of_search(result, facts.read_machine(), stages, left))
        return 0
    make_judging(accuracy, work)  # what is wrong with it is said before anything runs
    if wanted.resume:
        stored = _resumed(Path(wanted.resume), wanted, work, base)
    else:
        result = _new(args, wanted, work, base, accuracy, output)
        stored = ResultFile(result_path(output.output, result.created), result)

    def measure(progress: LiveProgress) -> None:
        def finished(run: Run) -> None:
            progress.take_settings(stored.result)
            progress.finished(run)

        progress.begin(_left(tuning.of(stored.result)))
        Search(
            stored,
            work,
            lambda setting, group: judge_setting(work, setting, group, accuracy, progress.judging),
            progress.update,
            finished,
            accuracy.timeout,
        ).run()

    def show(out: Console, ended_early: bool) -> int:
        out.print()
        terminal.show(view.document(stored.result), out)
        if tuning.of(stored.result).is_complete:  # the settings file and the Python, beside the result
            for line in view.write_files(stored.result, stored.path, args.workload, work.script):
                out.print(line)
        say_where(stored, out.print)
        part = tuning.confirmation(stored.result)
        print_result(stored, result_lines(part, summary.rows(part)) if part is not None else [], output.output)
        return 0

    hint = f"; continue with: modelzoo tune {args.workload} --resume {stored.path}"
    return measured(stored, measure, show, hint=hint)


def _new(
    args: argparse.Namespace, wanted: Tune, work: Workload, base: Setting, accuracy: Accuracy, output: Output
) -> Result:
    """The result of a new search, which declares the grid."""
    machine = facts.read_machine()
    if machine.emulator:
        raise UsageError(f"nothing can be timed under {machine.emulator}; run tune on the machine itself")
    environment = grid.read_environment(machine, base, has_data=accuracy.data is not None)
    batch = base.batch or work.batch
    left_out: tuple[LeftOut, ...] = ()
    if wanted.vary:
        settings = grid.exact(base, select_one(args, wanted.vary)[1], environment, batch)
    else:
        settings, left_out = grid.declared(base, wanted.goal, environment, batch)
    budget, count = BUDGET if wanted.budget is None else wanted.budget, len(settings)
    decisions.check(budget, count)
    found = Tuning(work.name, wanted.goal, budget, count, left_out, wanted.allow_unjudged, tuple(wanted.vary))
    return replace(new_result([(work, settings)], name=output.label), payload=found)


def _resumed(path: Path, wanted: Tune, work: Workload, base: Setting) -> ResultFile:
    """Go on with a search.

    Raises:
        UsageError: the file holds no search that can go on, or one of something else.
    """
    result = store.read(path)
    tuning = result.payload
    if not isinstance(tuning, Tuning) or tuning.is_complete:
        what = "a search that is complete" if isinstance(tuning, Tuning) else "no search"
        raise UsageError(f"--resume {path}: it holds {what}; leave --resume out to begin a new one")
    # Private parts of paths are masked in a stored result.
    paths = {name: getattr(base, name) for name in ("weights", "input", "python")}
    requested = tuple(replace(each, setting=each.setting.replace(**paths)) for each in result.requested)
    if tuning.workload != work.name or requested[0].setting != base:
        raise UsageError(
            f"--resume {path}: it searches {tuning.workload} from {requested[0].setting.label}, and this call has "
            f"{work.name} from {base.label}; repeat the options of the first call"
        )
    machines = {run.report.provenance.fingerprint for run in result.runs if run.report is not None}
    if machines - {None, fingerprint(facts.read_machine())}:
        raise UsageError(f"--resume {path}: it was measured on another machine, or this one has changed; begin anew")
    tuning = tuning if wanted.budget is None else replace(tuning, budget=wanted.budget)
    return ResultFile(path, replace(result, requested=requested, payload=tuning))


def _left(tuning: Tuning) -> float:
    return max(0.0, tuning.budget - tuning.spent)
