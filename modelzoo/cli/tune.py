"""``modelzoo tune``: search the fastest setting of a workload that is valid and verified on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli import options, setting_options
from modelzoo.cli.output import (
    ended_early,
    new_result,
    print_document,
    print_result,
    result_lines,
    result_path,
    say_where,
    stored_code,
)
from modelzoo.cli.parser import Parser, duration
from modelzoo.cli.selection import select_one
from modelzoo.cli.validate import judge_setting
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.tuning import Goal, Tuning
from modelzoo.setting import Setting
from modelzoo.workload import Workload

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.records.run import Result, Run, ValidityEntry
    from modelzoo.results.store import ResultFile

BUDGET = 20 * 60.0
"""Seconds that a search takes unless another budget is given."""
ESSENTIAL = (*("--goal", "--budget", "--vary", "--allow-unjudged", "--resume", "--data", "--limit", "--output"),)
"""Options that most calls need, which ``--help`` shows."""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``modelzoo tune``."""
    setting_options.add_workload(parser)
    group = parser.add_argument_group("search")
    group.add_argument(
        "--goal",
        choices=[str(goal) for goal in Goal],
        default=str(Goal.LATENCY),
        help="latency of a batch (default), or throughput: larger batches are tried too, and the time per item decides",
    )
    group.add_argument("--budget", type=duration, metavar="TIME", help="duration of the search: 20m (default), 1h")
    group.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V1,V2,…",
        help="try every combination of these values, instead of the list in docs/tune.md; may be repeated",
    )
    group.add_argument(
        "--allow-unjudged",
        action="store_true",
        help="let a bf16 setting win even if its accuracy cannot be checked, as with random weights",
    )
    group.add_argument("--resume", metavar="FILE", help="continue the interrupted search that FILE holds")
    setting_options.add_setting(parser)
    options.add_validity(parser)
    options.add_output(parser)
    options.add_dry_run(parser)
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(command_function=tune)


def tune(args: argparse.Namespace) -> int:
    """Run ``modelzoo tune``.

    Returns:
        0, also if nothing is faster than the default; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, or the default setting cannot run.
    """
    from modelzoo.document import terminal
    from modelzoo.machine import facts
    from modelzoo.results import tuning
    from modelzoo.results.store import ResultFile
    from modelzoo.stats import race
    from modelzoo.tuning.search import Search
    from modelzoo.views import plan
    from modelzoo.views.progress import LiveProgress

    work, base = select_one(args)
    if args.dry_run:
        if args.resume:
            raise UsageError("--dry-run prints the plan of a new search; leave --resume out")
        result = _new(args, work, base[0])
        stages, left = race.sizes(len(result.requested) - 1), _left(tuning.of(result))
        print_document(plan.search_document(result, facts.read_machine(), stages, left))
        return 0
    judging = options.make_judging(args, work)
    if args.resume:
        stored = _resumed(args, work, base[0])
    else:
        result = _new(args, work, base[0])
        stored = ResultFile(result_path(args.output, result.created), result)
    out = terminal.console()
    interrupted = False
    with LiveProgress(out, stored.result) as progress:
        progress.begin(_left(tuning.of(stored.result)))

        def judge(setting: Setting, group: int) -> ValidityEntry:
            return judge_setting(work, setting, group, judging, progress.judging)

        def finished(run: Run) -> None:
            progress.take_settings(stored.result)
            progress.finished(run)

        search = Search(stored, work, judge, progress.update, finished, args.timeout)
        try:
            search.run()
        except KeyboardInterrupt:
            interrupted = True
    _show(stored, args, work.script, out)
    code = stored_code(stored, 0)
    if interrupted:
        hint = f"; continue with: modelzoo tune {args.workload} --resume {stored.path}"
        return ended_early(stored, len(stored.result.runs), "runs", hint)
    return code


def _new(args: argparse.Namespace, work: Workload, base: Setting) -> Result:
    """The result of a new search, which declares the grid."""
    from modelzoo.machine.facts import read_machine
    from modelzoo.tuning import grid, halving

    machine, goal = read_machine(), Goal(args.goal)
    if machine.emulator:
        raise UsageError(f"nothing can be timed under {machine.emulator}; run tune on the machine itself")
    environment, batch = grid.read_environment(machine, base, has_data=args.data is not None), base.batch or work.batch
    if args.vary:
        candidates = grid.exact(base, select_one(args, args.vary)[1], environment, batch)
    else:
        candidates = grid.declared(base, goal, environment, batch)
    budget = BUDGET if args.budget is None else args.budget
    halving.check(budget, len(candidates.settings))
    tuning = Tuning(
        work.name, goal, budget, len(candidates.settings), candidates.left_out, args.allow_unjudged, tuple(args.vary)
    )
    return replace(new_result([(work, candidates.settings)], name=args.label), payload=tuning)


def _resumed(args: argparse.Namespace, work: Workload, base: Setting) -> ResultFile:
    """Go on with a search.

    Raises:
        UsageError: the file holds no search that can go on, or one of something else.
    """
    from modelzoo.machine.facts import read_machine
    from modelzoo.records.machine import fingerprint
    from modelzoo.results import store

    path = Path(args.resume)
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
    if machines - {None, fingerprint(read_machine())}:
        raise UsageError(f"--resume {path}: it was measured on another machine, or this one has changed; begin anew")
    tuning = tuning if args.budget is None else replace(tuning, budget=args.budget)
    return store.ResultFile(path, replace(result, requested=requested, payload=tuning))


def _left(tuning: Tuning) -> float:
    return max(0.0, tuning.budget - tuning.spent)


def _show(stored: ResultFile, args: argparse.Namespace, script: str, out: Console) -> None:
    """Print what was found, and write the settings file and the Python beside the result."""
    from modelzoo.document import terminal
    from modelzoo.results import summary, tuning
    from modelzoo.views import tuning as view

    out.print()
    terminal.show(view.document(stored.result), out)
    if tuning.of(stored.result).is_complete:
        for line in view.write_files(stored.result, stored.path, args.workload, script):
            out.print(line, soft_wrap=True)
    say_where(stored, lambda line: out.print(line, soft_wrap=True))
    part = tuning.confirmation(stored.result)
    said = result_lines(part, summary.rows(part)) if part is not None else []
    print_result(stored, said, args.output)
