"""``modelzoo run``: time workloads, and judge their predictions with ``--validate``.

Other commands have its session too: time the settings of every workload, judge them, and store each run as it ends.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

from rich.console import Console

from modelzoo.cli import files
from modelzoo.cli.options import Accuracy, Measurement, Output
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.document import terminal
from modelzoo.errors import ModelzooError, UsageError
from modelzoo.files import name_in_file
from modelzoo.formatting import duration
from modelzoo.frozen import replace
from modelzoo.machine import facts, sensors
from modelzoo.measure import jobs as calls
from modelzoo.measure import schedule
from modelzoo.measure.jobs import OnEvent, Request
from modelzoo.plan import Effort, Plan
from modelzoo.records.machine import Machine
from modelzoo.records.run import Result, ValidityEntry, ValidityReport, now
from modelzoo.records.timing import Design, StopReason
from modelzoo.records.validity import ValidityRequest
from modelzoo.results import summary
from modelzoo.results.store import ResultFile
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.validity.checks import check_tolerances
from modelzoo.views.exhibits import ExhibitWriter
from modelzoo.views.kinds import baseline_lines, objections, run_document, run_kernels
from modelzoo.views.plots import scatter
from modelzoo.views.progress import LiveProgress, plan_of_run
from modelzoo.workload import Workload, discovery


def run(args: argparse.Namespace, how: Measurement, output: Output) -> int:
    """Run ``modelzoo run``; return the exit code."""
    return run_settings(select_settings(args, "fp32,bf16"), how, output)


def run_settings(jobs: Jobs, how: Measurement, output: Output) -> int:
    """Time every setting of ``jobs``, store each run as it ends, and print the table and the ``[TARGET]`` lines.

    Returns:
        0, or 1 if ``--strict`` is not satisfied or predictions are not valid; 2 if the command line was invalid, a
        run failed, the result could not be written or the predictions could not be judged; 130 if the user interrupted
        it.
    """
    if output.dry_run:
        return show_plan(jobs, how)
    result = files.new_result(jobs, output.label)
    # Writing the file now shows whether it can be written, not after minutes.
    stored = ResultFile(files.result_path(output.output, result.created), result)

    def show(out: Console, interrupted: bool) -> int:
        failed = stored.result.only_error()
        if failed is not None and not interrupted:
            # Everything failed for the same reason: print it once instead of an empty table.
            files.tell(f"modelzoo: error: {failed.error}")
            return 2
        rows = summary.rows(stored.result)
        blocks = run_document(stored.result, rows, details=how.details) if rows else []
        blocks += run_kernels(stored.result) if how.details or how.profiling else []
        terminal.show(blocks, out)
        try:
            plot = scatter.roofline_of(stored.result)
            if plot is not None:
                out.print(f"roofline: {plot.write(stored.path.with_suffix('.svg'))}")
        except OSError as error:  # the disk is full
            out.print(f"no roofline: its file cannot be written: {error.strerror}")
        files.write_reproducers(stored.path, stored.result, out.print)
        files.say_where(stored, out.print, details=not how.details)
        for line in baseline_lines(rows):
            out.print(line)
        files.print_result(stored, files.result_lines(stored.result, rows), output.output)
        return exit_code(stored.result, rows, how.strict)

    return measured(stored, lambda progress: measure_session(jobs, how, stored, progress), show)


def show_plan(jobs: Jobs, how: Measurement) -> int:
    """Print what the call would measure; nothing is started, and no weights are needed."""
    machine = facts.read_machine()
    requests, effort = planned(jobs, how, machine)
    budget = schedule.budget(requests, effort)
    files.print_document(plan_of_run(files.new_result(jobs), machine, effort, budget, validates=how.validate))
    return 0


def exit_code(result: Result, rows: Sequence[SummaryRow], strict: bool) -> int:
    """Return the exit code of a session that was not interrupted, see ``run_settings``."""
    for objection in objections(rows) if strict else ():
        files.tell(f"modelzoo: --strict: {objection}")
    if any(run.error for run in result.runs):
        return 2
    return max([int(strict and any(map(summary.is_unproven, rows))), *(entry.exit_code for entry in result.validity)])


def measured(
    stored: ResultFile,
    measure: Callable[[LiveProgress], None],
    show: Callable[[Console, bool], int],
    finished: Callable[[Result], Sequence[object]] = lambda result: result.runs,
    what: str = "runs",
    hint: str = "",
    *,
    is_live: bool = True,
    out: Console | None = None,
) -> int:
    """Measure, show what was found however that ends, and return the exit code: 130 if the user interrupted it.

    Args:
        stored: the result, which ``measure`` adds to.
        measure: measures everything.
        show: prints what was found, and returns the exit code; it is told whether the measurement ended early.
        finished: returns what has been measured.
        what: what that is called.
        hint: what to do after an interruption.
        is_live: whether the progress is a block on the terminal.
        out: the console of what ``measure`` prints itself: only that one prints above the block.

    Raises:
        ModelzooError: of ``measure``; what had been finished is shown before.
    """
    out, problem = out or terminal.console(), None
    progress = LiveProgress(out, stored.result)
    with progress if is_live else nullcontext():
        try:
            measure(progress)
        except (KeyboardInterrupt, ModelzooError) as error:
            problem = error
    if isinstance(problem, ModelzooError) and not finished(stored.result):
        raise problem
    code = files.stored_code(stored, show(out, problem is not None))
    if isinstance(problem, ModelzooError):
        raise problem
    if problem is None:
        return code
    place = stored.path if stored.is_kept else "no file"
    files.tell(f"modelzoo: interrupted; {len(finished(stored.result))} finished {what} are in {place}{hint}")
    return files.INTERRUPTED


def measure_session(jobs: Jobs, how: Measurement, stored: ResultFile, progress: LiveProgress) -> None:
    """Run everything that ``jobs`` name, and add it to ``stored``.

    Raises:
        UsageError: an option is not valid; nothing has been started.
        EnvironmentProblem: the clocks cannot be locked; nothing has been started.
        KeyboardInterrupt: the user interrupted it; designs that had not ended say so.
    """
    for work, _ in jobs if how.validate else ():
        make_judging(how.accuracy, work)  # what is wrong with it is said before anything runs
    requests, effort = planned(jobs, how, facts.read_machine())
    with sensors.locked_clocks(how.lock_clocks):
        try:
            spent = _judge(requests if how.validate else (), how.accuracy, effort, stored, progress)
            progress.begin(schedule.budget(requests, effort), effort.processes, spent)
            for outcome in schedule.measure(requests, effort, progress.update, spent):
                if isinstance(outcome, Design):
                    stored.set_payload(stored.result.latency.plus(outcome))
                else:
                    stored.add(outcome)
                    progress.name_failure(outcome)
                    progress.finished(outcome)
        except KeyboardInterrupt:
            for design in stored.result.latency.designs:
                if design.stop_reason is None:
                    stored.set_payload(stored.result.latency.plus(replace(design, stop_reason=StopReason.INTERRUPTED)))
            raise


def planned(jobs: Jobs, how: Measurement, machine: Machine) -> tuple[list[Request], Effort]:
    """Return what is to be measured on ``machine``, and with which effort.

    Raises:
        UsageError: an option is not valid, or the budget allows no process of each setting.
    """
    # More processes only narrow the interval of a time, and under an emulator nothing is timed.
    effort = Effort(processes=1) if machine.emulator else how.effort
    devices = {setting.device.partition(":")[0] for _, settings in jobs for setting in settings}
    if how.lock_clocks is not None and "cuda" not in devices:
        raise UsageError("--lock-clocks locks the clocks of NVIDIA GPUs, and no setting uses one; add --device cuda")
    requests: list[Request] = []
    for work, settings in jobs:
        requests.append(
            Request(
                workload=work,
                settings=settings,
                plan=how.plan,
                profiling=how.profiling,
                audit=not how.no_audit,
                first_group=sum(len(request.settings) for request in requests),
                locked_mhz=how.lock_clocks,
                needs_all=how.needs_all,
                timeout=how.timeout,
            )
        )
    schedule.check(requests, effort)
    return requests, effort


def _judge(
    requests: Sequence[Request], accuracy: Accuracy, effort: Effort, stored: ResultFile, progress: LiveProgress
) -> float:
    """Judge settings, before any is timed: how long it takes is known only when it is done.

    The reference is not compared with itself.

    Returns:
        The seconds that it took of the budget. The default budget is for timing alone.
    """
    started = perf_counter()
    if effort.budget is not None:
        progress.begin(effort.budget)
    for request in requests:
        for group, setting in enumerate(request.settings, request.first_group):
            if setting != setting.reference():
                stored.add(judge_setting(request.workload, setting, group, accuracy, progress.judging))
    spent = perf_counter() - started
    if effort.budget is None:
        return 0.0
    if requests:
        progress.say(f"judging took {duration(spent)} of the budget of {duration(effort.budget)}")
    return spent


# Judging


def make_judging(accuracy: Accuracy, workload: Workload) -> tuple[ValidityRequest, Path]:
    """Return how predictions are judged, and the directory that images and plots are written to; it exists afterwards.

    Raises:
        UsageError: a value is out of range, a path does not exist or cannot be written to.
    """
    tolerance = tolerances(accuracy.tolerance)
    check_tolerances(tolerance)
    data, limit = accuracy.data, accuracy.limit
    if data is not None and not Path(data).exists():
        raise UsageError(f"--data {data} does not exist")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {limit}")
    if accuracy.artifacts:
        output = Path(accuracy.artifacts).absolute() / name_in_file(workload.name)
    elif os.environ.get("MODELZOO_RESULTS") or workload.directory.is_relative_to(discovery.PACKAGE):
        output = files.results_directory().absolute() / "output" / name_in_file(workload.name)
    else:
        output = workload.directory / "output"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {output}: {error.strerror}; name another directory with --artifacts DIR"
        ) from error
    request = ValidityRequest(
        data=None if data is None else str(Path(data).absolute()),
        limit=limit,
        tolerance=tolerance,
        explain=accuracy.explain,
        skip_bad=accuracy.skip_bad,
    )
    return request, output


def tolerances(given: Sequence[str]) -> dict[str, float]:
    """Return ``NAME=VALUE`` options as numbers; raises ``UsageError``."""
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--tolerance {text!r} must have the form NAME=NUMBER")
    return values


def judge_setting(work: Workload, setting: Setting, group: int, accuracy: Accuracy, on_event: OnEvent) -> ValidityEntry:
    """Judge one setting in a fresh process, and write its images and tables.

    If it fails, the entry holds the error.
    """
    started = now()
    try:
        wanted, directory = make_judging(accuracy, work)
        writer = ExhibitWriter(directory, work.name)
        request = Request(work, (setting,), Plan(), timeout=accuracy.timeout)
        report = calls.validate(request, wanted, on_event, writer.write)
    except ModelzooError as error:
        return ValidityEntry(work.name, group, setting, exit_code=2, error=str(error), started=started, ended=now())
    return judged_entry(work, setting, group, report, writer, started)


def judged_entry(
    work: Workload, setting: Setting, group: int, report: ValidityReport, writer: ExhibitWriter, started: str
) -> ValidityEntry:
    """Return a judgement, as results have it, with the files that ``writer`` has written."""
    say_missing(writer)
    return ValidityEntry(
        work.name,
        group,
        setting,
        exit_code=report.validity.exit_code,
        report=report,
        started=started,
        ended=now(),
        files=tuple(map(str, writer.files)),
        thumbnails=writer.thumbnails,
    )


def say_missing(writer: ExhibitWriter) -> None:
    """Say why pictures and tables could not be written, if that is so."""
    if writer.problem:
        files.tell(f"modelzoo: pictures and tables are missing: {writer.problem}")
