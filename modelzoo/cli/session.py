"""A session: time the settings of every workload, judge them, and store each run as it ends."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from modelzoo.cli import options
from modelzoo.cli.selection import Jobs
from modelzoo.cli.validate import judge_setting
from modelzoo.errors import UsageError
from modelzoo.formatting import duration
from modelzoo.frozen import replace
from modelzoo.plan import Effort
from modelzoo.records.timing import Design, StopReason
from modelzoo.setting import Setting

if TYPE_CHECKING:
    from modelzoo.measure.jobs import Request
    from modelzoo.records.machine import Machine
    from modelzoo.results.store import ResultFile
    from modelzoo.views.progress import LiveProgress


class InterruptedSessionError(Exception):
    """The user interrupted the session; what was finished is stored."""


def measure_session(jobs: Jobs, args: argparse.Namespace, stored: ResultFile, progress: LiveProgress) -> None:
    """Run everything that ``jobs`` name, and add it to ``stored``.

    Raises:
        UsageError: an option is not valid; nothing has been started.
        EnvironmentProblem: the clocks cannot be locked; nothing has been started.
        InterruptedSessionError: the user interrupted it.
    """
    from modelzoo.machine.facts import read_machine
    from modelzoo.machine.sensors import locked_clocks
    from modelzoo.measure import schedule

    judging = {work.name: options.make_judging(args, work) for work, _ in jobs if args.validate}
    machine = read_machine()
    requests, effort = planned(jobs, args, machine)
    to_be_judged = [
        (request, judging[request.workload.name], to_judge(request.settings, args))
        for request in requests
        if args.validate
    ]
    with locked_clocks(args.lock_clocks):
        try:
            spent = _judge(to_be_judged, effort, stored, progress)
            progress.begin(schedule.budget(requests, effort), effort.processes, spent)
            for outcome in schedule.measure(requests, effort, progress.update, spent):
                if isinstance(outcome, Design):
                    stored.set_payload(stored.result.latency.plus(outcome))
                else:
                    stored.add_run(outcome)
                    progress.name_failure(outcome)
                    progress.finished(outcome)
        except KeyboardInterrupt:
            _end(stored)
            raise InterruptedSessionError from None


def planned(jobs: Jobs, args: argparse.Namespace, machine: Machine) -> tuple[list[Request], Effort]:
    """Return what is to be measured on ``machine``, and with which effort.

    Raises:
        UsageError: an option is not valid, or the budget allows no process of each setting.
    """
    from modelzoo.measure import schedule

    # More processes only narrow the interval of a time, and under an emulator nothing is timed.
    effort = Effort(processes=1) if machine.emulator else options.make_effort(args)
    requests = _requests(jobs, args)
    schedule.check(requests, effort)
    return requests, effort


def _judge(
    requests: Sequence[tuple[Request, options.Judging, list[int]]],
    effort: Effort,
    stored: ResultFile,
    progress: LiveProgress,
) -> float:
    """Judge settings, before any is timed: how long it takes is known only when it is done.

    Args:
        requests: each with how it is judged, and the indices of the settings.
        effort: with the budget.
        stored: where the judgements go.
        progress: shows what is judged.

    Returns:
        The seconds that it took of the budget. The default budget is for timing alone.
    """
    started = perf_counter()
    if effort.budget is not None:
        progress.begin(effort.budget)
    for request, how, indices in requests:
        for index in indices:
            setting, group = request.settings[index], request.first_group + index
            stored.add_validity(judge_setting(request.workload, setting, group, how, progress.judging))
    spent = perf_counter() - started
    if effort.budget is None:
        return 0.0
    if requests:
        progress.say(f"judging took {duration(spent)} of the budget of {duration(effort.budget)}")
    return spent


def to_judge(settings: Sequence[Setting], args: argparse.Namespace) -> list[int]:
    """Indices of the settings to judge: the reference is not compared with itself."""
    if not args.validate:
        return []
    return [index for index, setting in enumerate(settings) if setting != setting.reference()]


def _requests(jobs: Jobs, args: argparse.Namespace) -> list[Request]:
    from modelzoo.measure.jobs import Request

    plan = options.make_plan(args)
    devices = {setting.device.partition(":")[0] for _, settings in jobs for setting in settings}
    if args.lock_clocks is not None and "cuda" not in devices:
        raise UsageError("--lock-clocks locks the clocks of NVIDIA GPUs, and no setting uses one; add --device cuda")
    requests: list[Request] = []
    for work, settings in jobs:
        first = sum(len(request.settings) for request in requests)
        requests.append(
            Request(
                workload=work,
                settings=settings,
                plan=plan,
                profiling=args.profiling,
                audit=not args.no_audit,
                first_group=first,
                locked_mhz=args.lock_clocks,
                needs_all=getattr(args, "needs_all", False),
                timeout=args.timeout,
            )
        )
    return requests


def _end(stored: ResultFile) -> None:
    """Say in the designs that have not ended that they were interrupted."""
    for design in stored.result.latency.designs:
        if design.stop_reason is None:
            stored.set_payload(stored.result.latency.plus(replace(design, stop_reason=StopReason.INTERRUPTED)))
