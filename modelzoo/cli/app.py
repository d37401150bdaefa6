"""The commands. Thin: parse, call, print; ``performance.py`` of every workload enters here too.

stdout carries only lines that scripts grep; everything for people goes to stderr. Exit codes: 0 done,
1 a run failed or did not prove what ``--strict`` asks for, 2 the call or its inputs were wrong, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Callable

from modelzoo.cli import options as arguments
from modelzoo.cli.doctor import doctor as doctor_command
from modelzoo.cli.selection import load_workloads
from modelzoo.cli.weights import weights as weights_command
from modelzoo.errors import ModelzooError, UsageError, WorkerError
from modelzoo.setting import Setting
from modelzoo.version import __version__
from modelzoo.workload import discovery
from modelzoo.workload.declaration import Workload


def main(argv: Sequence[str] | None = None) -> int:
    """``modelzoo COMMAND``; returns the exit code."""
    return _guard(lambda: _dispatch(make_parser(), argv))


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``modelzoo``; what it parses to has the function that does it in ``do``."""
    parser = arguments.Parser(prog="modelzoo", description="PyTorch inference, measured, proven and judged.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="time workloads, settings interleaved in fresh processes")
    arguments.add_workloads(run, "fp32,bf16")
    arguments.add_setting(run)
    arguments.add_plan(run)
    arguments.add_json(run)
    arguments.add_validity(run)
    run.add_argument("--validate", action="store_true", help="judge each setting's predictions as well")
    run.set_defaults(do=_run)
    judge = commands.add_parser("validate", help="judge predictions against fp32; exit code 0 valid, 1 not, 2 unknown")
    arguments.add_workloads(judge, "bf16")
    arguments.add_setting(judge)
    arguments.add_validity(judge)
    arguments.add_json(judge)
    judge.set_defaults(do=_validate)
    weights = commands.add_parser("weights", help="the checkpoints: list, fetch, verify")
    weights.add_argument("action", choices=("list", "fetch", "verify"))
    weights.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    weights.add_argument("--all", action="store_true", help="fetch every size, not only the default one")
    weights.set_defaults(do=weights_command)
    doctor = commands.add_parser("doctor", help="this machine's limits, and all that spoils its numbers")
    doctor.add_argument("--fresh", action="store_true", help="measure the ceilings again")
    doctor.add_argument("--json", metavar="FILE")
    doctor.set_defaults(do=doctor_command)
    return parser


def performance(script: str, argv: Sequence[str] | None = None) -> None:
    """Entry point of a workload's ``performance.py``; exits the process."""

    def do() -> int:
        work = discovery.load_workload(Path(script).resolve().parent)
        parser = arguments.Parser(
            prog="performance.py",
            description=f"Time {work.title}. Defaults: {work.defaults or f'batch {work.batch}'}.",
        )
        arguments.add_setting(parser)
        arguments.add_plan(parser)
        arguments.add_json(parser)
        arguments.add_workload_options(parser, work)
        parser.set_defaults(validate=False)
        args = parser.parse_args(arguments.bare_bf16(sys.argv[1:] if argv is None else argv))
        setting = arguments.make_setting(args, work, arguments.own_options(args))
        return _measure([(work, (setting,))], args)

    sys.exit(_guard(do))


def validate(script: str, argv: Sequence[str] | None = None) -> None:
    """Entry point of a workload's ``validate.py``; exits the process."""

    def do() -> int:
        work = discovery.load_workload(Path(script).resolve().parent)
        parser = arguments.Parser(prog="validate.py", description=f"Judge {work.title} against fp32.")
        arguments.add_setting(parser)
        arguments.add_validity(parser)
        arguments.add_workload_options(parser, work)
        arguments.add_json(parser)
        args = parser.parse_args(arguments.bare_bf16(sys.argv[1:] if argv is None else argv))
        setting = arguments.make_setting(args, work, arguments.own_options(args))
        return _judge([(work, (setting,))], args)

    sys.exit(_guard(do))


def _guard(do: Callable[[], int]) -> int:
    """Turn errors that the user caused into one line and exit code 2."""
    # A stream that was closed before the start is None, and print would send errors to stdout.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115
    try:
        return do()
    except ModelzooError as error:
        print(f"modelzoo: error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "modelzoo":
            raise
        cure = "run ./scripts/run once, then 'source .venv/bin/activate'"
        print(f"modelzoo: error: {sys.executable} has no module {error.name!r}: {cure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("modelzoo: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of stdout has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _tell(lines: Iterable[str]) -> None:
    """Print to stdout, after all that went to stderr."""
    sys.stderr.flush()
    try:
        for line in lines:
            print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UsageError(f"cannot write to stdout: {error.strerror}") from error


def _dispatch(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    args = parser.parse_args(arguments.bare_bf16(sys.argv[1:] if argv is None else argv))
    return int(args.do(args))


def _run(args: argparse.Namespace) -> int:
    return _measure(_jobs(args, "fp32,bf16"), args)


def _validate(args: argparse.Namespace) -> int:
    return _judge(_jobs(args, "bf16"), args)


def _jobs(args: argparse.Namespace, default: str) -> list[tuple[Workload, tuple[Setting, ...]]]:
    """Each workload with its settings, one for each precision that was asked for."""
    works = load_workloads(args.workloads)
    text = args.precision if args.precision is not None else "bf16" if args.bf16 else default
    wanted = arguments.precisions(text)
    if args.bf16 and "bf16" not in wanted:
        raise UsageError("--bf16 together with --precision fp32 contradicts itself; leave one out")
    jobs = []
    for work in works:
        base = arguments.make_setting(args, work, _options_for(work, works, args.option))
        jobs.append(
            (
                work,
                tuple(base.replace(precision=p, bf16_method=base.bf16_method if p == "bf16" else None) for p in wanted),
            )
        )
    return jobs


def _options_for(work: Workload, works: Sequence[Workload], given: Sequence[str]) -> dict[str, Any]:
    options = {}
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
            options[name] = value
    return options


def _measure(jobs: Sequence[tuple[Workload, tuple[Setting, ...]]], args: argparse.Namespace) -> int:
    """Run every job, store each run at once, print the table and the ``[TARGET]`` lines."""
    from modelzoo.machine import facts as machine
    from modelzoo.measure import schedule as runner
    from modelzoo.report import terminal as display
    from modelzoo.results import store as result
    from modelzoo.results import summary

    plan = arguments.make_plan(args)
    if args.trace and not Path(args.trace).absolute().parent.is_dir():
        raise UsageError(f"--trace {args.trace}: its directory does not exist")
    args.profiling = args.profiling or bool(args.trace)
    path = Path(args.json) if args.json else _default_path()
    asked = tuple({"workload": work.name, "setting": each.to_json()} for work, settings in jobs for each in settings)
    stored = result.Result(command=tuple(sys.argv), created=result.now(), asked=asked)
    result.write(stored, path)  # find out now, not after minutes, that it cannot be written
    out = display.console()
    requests = {work.name: arguments.make_request(args, work) for work, _ in jobs} if args.validate else {}
    # The reference is not judged against itself.
    judging = {
        work.name: [each for each in settings if args.validate and each != each.reference()] for work, settings in jobs
    }
    # More processes make a time more certain; under an emulator there is none.
    processes = 1 if machine.read_machine().emulator else args.processes
    total = sum(len(settings) * processes + len(judging[work.name]) for work, settings in jobs)
    interrupted = False
    with display.Progress(out, total) as progress:
        try:
            for work, settings in jobs:
                request = runner.Request(work, settings, plan, processes, args.profiling, args.trace, not args.no_audit)
                for run in runner.run(request, progress.update):
                    stored = stored.plus(run)
                    result.write(stored, path)
                    progress.advance()
                for setting in judging[work.name]:
                    stored = stored.plus_validity(judged(work, setting, requests[work.name], progress.update))
                    result.write(stored, path)
                    progress.advance()
        except KeyboardInterrupt:
            interrupted = True
    rows = summary.rows(stored.groups(), stored.judged())
    failed = [run for run in stored.runs if run.error]
    if failed and len(failed) == len(stored.runs) and len({run.error for run in failed}) == 1 and not interrupted:
        # Nothing ran, for one reason: say it in one line instead of an empty table.
        print(f"modelzoo: error: {failed[0].error}", file=sys.stderr)
        return 1 if failed[0].error_kind == WorkerError.__name__ else 2
    if len(jobs) == 1 or args.profiling:
        _show_kernels(stored, out)
    display.show(rows, out)
    plot = _roofline(stored, path)
    if plot:
        out.print(f"roofline: {plot}", soft_wrap=True)
    out.print(f"result: {path}", soft_wrap=True)
    _tell([*filter(None, map(display.valid_line, stored.validity)), *summary.target_lines(rows)])
    if interrupted:
        print(f"modelzoo: interrupted; {len(stored.runs)} finished runs are in {path}", file=sys.stderr)
        return 130
    unproven = summary.unproven(rows) if args.strict else []
    for reason in unproven:
        print(f"modelzoo: --strict: {reason}", file=sys.stderr)
    if failed:
        return 1 if any(run.error_kind == WorkerError.__name__ for run in failed) else 2
    return max([1 if unproven else 0, *(entry["exit_code"] for entry in stored.validity)])


def _judge(jobs: Sequence[tuple[Workload, tuple[Setting, ...]]], args: argparse.Namespace) -> int:
    """Judge every job, store each verdict at once; the worst exit code of all is returned."""
    from modelzoo.report import terminal as display
    from modelzoo.results import store as result

    requests = [arguments.make_request(args, work) for work, _ in jobs]
    path = Path(args.json) if args.json else _default_path()
    stored = result.Result(command=tuple(sys.argv), created=result.now())
    result.write(stored, path)
    out = display.console()
    codes, lines = [0], []
    with display.Progress(out, sum(len(settings) for _, settings in jobs)) as progress:
        for (work, settings), request in zip(jobs, requests):
            for setting in settings:
                found = judged(work, setting, request, progress.update)
                stored = stored.plus_validity(found)
                result.write(stored, path)
                progress.advance()
                codes.append(found["exit_code"])
                lines.append(display.show_validity(found, out))
    out.print(f"result: {path}", soft_wrap=True)
    _tell(filter(None, lines))
    # 2, "could not be judged", is worse than 1: there the question was at least answered.
    return max(codes)


def judged(
    work: Workload, setting: Setting, request: dict[str, Any], progress: Callable[[Any], None]
) -> dict[str, Any]:
    """The stored form of one verdict, or of the reason why there is none."""
    from modelzoo.measure import schedule as runner
    from modelzoo.setting import Plan

    entry: dict[str, Any] = {"workload": work.name, "asked": setting.to_json(), "report": None, "error": None}
    try:
        report = runner.validate(runner.Request(work, (setting,), Plan()), setting, request, progress)
    except ModelzooError as error:
        return {**entry, "error": str(error), "exit_code": 2}
    return {**entry, "report": report, "exit_code": report["validity"]["exit_code"]}


def _default_path() -> Path:
    from modelzoo.results.store import now

    directory = Path(os.environ.get("MODELZOO_RESULTS") or discovery.CHECKOUT / "results")
    stem = now().replace(":", "").replace("+0000", "Z")
    candidates = (f"{stem}{'' if i == 0 else f'-{i}'}.json" for i in range(1000))
    return next(directory / name for name in candidates if not (directory / name).exists())


def _show_kernels(stored: Any, out: Any) -> None:
    """Evidence and operator tables of each setting's first process."""
    from modelzoo.records.codec import decode
    from modelzoo.records.evidence import Evidence
    from modelzoo.records.profile import Profile
    from modelzoo.report import kernel_tables

    for run in stored.runs:
        if run.report is None or run.round != 0:
            continue
        title = f"{run.workload} {Setting(**run.report['setting']).label}"
        if run.report["evidence"]:
            out.print(f"\n{title}: kernels of {run.report['evidence']['iterations']} audited passes")
            for table in kernel_tables.evidence_tables(decode(Evidence, run.report["evidence"])):
                out.print(table)
        if run.report["profile"]:
            out.print(f"\n{title}: operators, profiled after the timing")
            for table in kernel_tables.profile_tables(decode(Profile, run.report["profile"])):
                out.print(table)


def _roofline(stored: Any, path: Path) -> Path | None:
    """Draw the runs under the measured roof, beside the result; ``None`` where no roof is known."""
    from modelzoo.machine import ceilings
    from modelzoo.report import roofline

    points, place = [], None
    for run in stored.runs:
        bound = run.report and run.report["bound"]
        if bound and bound["intensity"]:
            setting = Setting(**run.report["setting"])
            label = f"{run.workload} {setting.label}"
            points.append(roofline.RooflinePoint(label, setting.precision, bound["intensity"], bound["gflops"]))
            place = run.report["bound"]["ceilings"]
    found = ceilings.read_ceilings(Path(place)) if place else None
    if found is None:
        return None
    target = path.with_suffix(".svg")
    roofline.plot_roofline(points, found, target)
    return target


if __name__ == "__main__":
    sys.exit(main())
