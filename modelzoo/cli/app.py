"""The entry points: ``modelzoo COMMAND``, and ``performance.py`` and ``validate.py`` of every workload.

stdout carries only lines that scripts parse, and what ``compare`` found; everything else for people goes to stderr.
Exit codes: 0 done, 1 a run failed, is not proven (``--strict``) or is not valid, or a comparison meets ``--fail-on``, 2
the command line or an input was invalid, or nothing could be judged or compared, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

from modelzoo.cli import options, setting_options
from modelzoo.cli.compare import add_compare
from modelzoo.cli.completion import add_completion
from modelzoo.cli.doctor import doctor
from modelzoo.cli.examples import epilog
from modelzoo.cli.output import add_details
from modelzoo.cli.report import add_report, report
from modelzoo.cli.run import run, run_settings
from modelzoo.cli.selection import settings_of
from modelzoo.cli.validate import judge_settings, validate_command
from modelzoo.cli.weights import weights
from modelzoo.errors import ModelzooError
from modelzoo.formatting import printable
from modelzoo.version import __version__
from modelzoo.workload.discovery import STANDARD_WORKLOADS, load_workload


def main(argv: Sequence[str] | None = None) -> int:
    """``modelzoo COMMAND``; returns the exit code."""
    return guard(lambda: _dispatch(make_parser(), argv))


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of ``modelzoo``. The parsed arguments hold the command's function in ``command_function``."""
    parser = _parser(
        "modelzoo",
        "Benchmark PyTorch inference: speed, proof of the precision that ran, validity of predictions.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    add_completion(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, purpose: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=purpose, **_texts(name, f"{purpose[0].upper()}{purpose[1:]}."))

    command = add("run", "time workloads, each setting in fresh processes that alternate with the others")
    setting_options.add_workloads(command, "fp32,bf16, but fp32 with --vary and --setting")
    setting_options.add_setting(command)
    setting_options.add_comparison(command)
    options.add_plan(command)
    options.add_json(command)
    options.add_validity(command)
    add_details(command)
    command.add_argument("--validate", action="store_true", help="judge the predictions of each setting as well")
    command.set_defaults(command_function=run)
    command = add("validate", "compare predictions with fp32's; exit code 0 valid, 1 not valid, 2 could not be judged")
    setting_options.add_workloads(command, "bf16")
    setting_options.add_setting(command)
    options.add_validity(command)
    options.add_json(command)
    command.set_defaults(command_function=validate_command, vary=[], setting=[], baseline=None)
    command = add("report", "show stored results as they were printed, or as a page with plots")
    add_report(command)
    add_details(command)
    command.set_defaults(command_function=report)
    add_compare(add("compare", "compare stored results: other machines, images, builds or days"))
    command = add("weights", "list, fetch and verify the checkpoints")
    command.add_argument(
        "action",
        choices=("list", "fetch", "verify"),
        help="list the checkpoints, download missing ones, or verify the checksums of those on this machine",
    )
    command.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"a workload's name or directory (default: {', '.join(STANDARD_WORKLOADS)})",
    )
    command.add_argument(
        "--all", action="store_true", help="fetch the checkpoints of all sizes, not only the default one"
    )
    command.set_defaults(command_function=weights)
    command = add("doctor", "measure this machine's limits, and report conditions that may distort results")
    command.add_argument("--fresh", action="store_true", help="measure the ceilings again")
    command.add_argument("--json", metavar="FILE", help="also write the findings to FILE")
    command.set_defaults(command_function=doctor)
    return parser


def _parser(program: str, description: str) -> argparse.ArgumentParser:
    return options.Parser(prog=program, **_texts(program, description))


def _texts(command: str, description: str) -> dict[str, Any]:
    """What a parser needs so that its help ends with examples, line by line."""
    formatter = argparse.RawDescriptionHelpFormatter
    return {"description": description, "epilog": epilog(command), "formatter_class": formatter}


def performance(script: str, argv: Sequence[str] | None = None) -> None:
    """Entry point of a workload's ``performance.py``; exits the process."""

    def call() -> int:
        work = load_workload(Path(script).resolve().parent)
        defaults = work.defaults or f"batch {work.batch}"
        parser = _parser("performance.py", f"Time {work.title}. Defaults: {defaults}.")
        setting_options.add_setting(parser)
        setting_options.add_comparison(parser)
        options.add_plan(parser)
        options.add_json(parser)
        add_details(parser)
        setting_options.add_workload_options(parser, work)
        parser.set_defaults(validate=False, precision=None)
        args = parser.parse_args(options.explicit_bf16(sys.argv[1:] if argv is None else argv))
        return run_settings([(work, settings_of(args, work))], args)

    sys.exit(guard(call))


def validate(script: str, argv: Sequence[str] | None = None) -> None:
    """Entry point of a workload's ``validate.py``; exits the process."""

    def call() -> int:
        work = load_workload(Path(script).resolve().parent)
        parser = _parser("validate.py", f"Compare {work.title} with fp32.")
        setting_options.add_setting(parser)
        options.add_validity(parser)
        setting_options.add_workload_options(parser, work)
        options.add_json(parser)
        args = parser.parse_args(options.explicit_bf16(sys.argv[1:] if argv is None else argv))
        setting = setting_options.make_setting(args, work, setting_options.own_options(args))
        return judge_settings([(work, (setting,))], args)

    sys.exit(guard(call))


def guard(call: Callable[[], int]) -> int:
    """Return ``call``'s exit code; an error that the user caused becomes one line on stderr and exit code 2.

    SIGTERM ends it as Ctrl-C does: finished runs are kept, and no container is left behind.
    """
    # A stream that was closed before the start is None, and print would send errors to stdout.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return call()
    except ModelzooError as error:
        # A message may quote a file name, which may contain a line break.
        print(f"modelzoo: error: {printable(str(error))}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "modelzoo":
            raise
        hint = "run ./scripts/run once, then 'source .venv/bin/activate'"
        print(f"modelzoo: error: {sys.executable} has no module {error.name!r}: {hint}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("modelzoo: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the program that reads stdout has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    finally:
        signal.signal(signal.SIGTERM, before)


def _dispatch(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    args = parser.parse_args(options.explicit_bf16(sys.argv[1:] if argv is None else argv))
    return int(args.command_function(args))
