"""The entry points: ``modelzoo COMMAND``, and ``performance.py`` and ``validate.py`` of every workload.

What a command is for goes to stdout: what ``report``, ``compare``, ``doctor`` and ``weights`` show. Commands that
measure print only the lines that scripts parse there; everything for people goes to stderr.
docs/method.md has the exit codes.
"""

from __future__ import annotations

import argparse
import os
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

from modelzoo import __version__
from modelzoo.cli.files import tell
from modelzoo.cli.parser import Parser, add_completion, help_pointer, help_texts
from modelzoo.errors import ModelzooError, UsageError
from modelzoo.machine.linux import begin
from modelzoo.option import SWITCH, add_options, read_options

COMMANDS = {
    "run": "time workloads, each setting in fresh processes that alternate with the others",
    "validate": "compare predictions with fp32's; exit code 0 valid, 1 not valid, 2 undecided or not judged",
    "throughput": "find the number of instances, and of cores for each, with the highest throughput",
    "load": "find how many requests per second are answered within a latency bound, with dynamic batching",
    "tune": "find the fastest setting that is valid and verified on this machine",
    "fleet": "run, throughput and validate on the hosts of a Dask cluster",
    "report": "show stored results as they were printed, or as a page with plots",
    "check": "time two builds side by side: is the second one slower or wrong, and which kernels changed",
    "compare": "compare stored results: other machines, images, builds or days",
    "list": "list the workloads and the engines, and which of them are installed",
    "weights": "list, fetch, verify and pin the checkpoints, or convert one to safetensors",
    "doctor": "measure this machine's limits, and report conditions that may distort results",
}
"""What each command does."""
_SHOWING = ("report", "compare", "list", "weights", "doctor")
"""The commands whose arguments ``options`` adds; those of the others are in ``measuring``."""


def main(argv: Sequence[str] | None = None) -> int:
    """``modelzoo COMMAND``; returns the exit code."""
    return guard(lambda: _call(make_parser(), (sys.argv[1:] if argv is None else argv) or ["--help"]))


def make_parser() -> Parser:
    """Return the parser of ``modelzoo``. The parsed arguments hold the command's function in ``command_function``.

    Of the commands that measure, the module is imported when the command is called; ``--help`` does without.
    """
    purpose = "Benchmark PyTorch inference: speed, which kernels and precision ran, and whether predictions stay right"
    parser = Parser(prog="modelzoo", **help_texts("modelzoo", purpose))
    parser.add_argument("--version", action="version", version=__version__)
    add_completion(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        module = f"modelzoo.cli.{'options' if name in _SHOWING else 'measuring'}"
        commands.add_parser(name, help=purpose, arguments=(module, f"add_{name}"), **help_texts(name, purpose))
    return parser


def performance(script: str, argv: Sequence[str] | None = None) -> None:
    """Entry point of a workload's ``performance.py``; exits the process."""
    _call_script("performance.py", script, argv)


def validate(script: str, argv: Sequence[str] | None = None) -> None:
    """Entry point of a workload's ``validate.py``; exits the process."""
    _call_script("validate.py", script, argv)


def _call_script(program: str, script: str, argv: Sequence[str] | None) -> None:
    from modelzoo.cli import measuring, options, setting_options
    from modelzoo.workload.discovery import load_workload

    def call() -> int:
        work = load_workload(Path(script).resolve().parent)

        def run(args: argparse.Namespace, how: options.Measurement | options.Accuracy, output: options.Output) -> int:
            from modelzoo.cli.selection import settings_of

            jobs = [(work, settings_of(args, work))]
            if isinstance(how, options.Measurement):
                from modelzoo.cli.run import run_settings

                return run_settings(jobs, how, output)
            from modelzoo.cli.validate import judge_settings

            return judge_settings(jobs, how, output)

        is_timed = program == "performance.py"
        timing = f"Time {work.title}. Defaults: {work.defaults or f'batch {work.batch}'}"
        judging = f"Check the predictions of {work.title} against those of fp32"
        parser = Parser(prog=program, **help_texts(program, timing if is_timed else judging))
        setting_options.add_setting(parser)
        if is_timed:
            setting_options.add_comparison(parser)
            options.add_measurement(parser)
            add_options(parser, options.Output, "label", "output")
            add_options(parser, options.Measurement, "details")
            add_options(parser, options.Output, "dry_run")
        else:
            options.add_accuracy(parser)
        setting_options.add_workload_options(parser, work)
        if not is_timed:
            add_options(parser, options.Output, "label", "output")
        first = measuring.OF_RUN if is_timed else measuring.OF_VALIDATE
        parser.show_first(*first, *(f"--{option.name}" for option in work.options))
        how = options.Measurement if is_timed else options.Accuracy
        parser.calls(run, argparse.Namespace, how, options.Output)
        parser.set_defaults(precision=None, **measuring.ONE_LIST)
        return _call(parser, argv)

    sys.exit(guard(call))


def guard(call: Callable[[], int]) -> int:
    """Return ``call``'s exit code; an error that the user caused becomes one line on stderr and exit code 2.

    Any other error is a defect: its traceback is printed, and the exit code is 2 as well, since 1 is a verdict.

    SIGTERM and a lost terminal (SIGHUP, unless it is ignored, as under nohup) end it as Ctrl-C does: finished runs are
    kept, and no process or container is left behind.
    """
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler)}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _hang_up)
    try:
        begin()
        return call()
    except ModelzooError as error:
        # A message may quote a file name, which may contain a line break.
        tell(f"modelzoo: error: {error}")
        return 2
    except KeyboardInterrupt:
        tell("modelzoo: interrupted")
        return 130
    except BrokenPipeError:  # the program that reads stdout has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if missing and missing.partition(".")[0] != "modelzoo":
            from modelzoo.workload.discovery import installation_advice

            tell(f"modelzoo: error: {sys.executable} has no module {missing!r}: {installation_advice(missing)}")
        else:
            import traceback

            traceback.print_exc()
            tell("modelzoo: error: this is a defect of modelzoo; please report it with the lines above")
        return 2
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) != signal.SIG_IGN:  # or the second one would end the process as it exits
                signal.signal(number, handler)


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Do as Ctrl-C does, once: the kernel and the shell both send the signal of a lost terminal."""
    signal.signal(number, signal.SIG_IGN)
    for descriptor in (1, 2):
        with suppress(OSError):
            # Writing to a terminal that is lost is an error, which would hide why the call ended.
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    raise KeyboardInterrupt


def explicit_values(arguments: Sequence[str]) -> list[str]:
    """Give ``--bf16`` and the switches their values with an equals sign: without it, a bare one takes the next word.

    >>> explicit_values(["--bf16", "bert", "--bf16", "cast", "--channels-last", "--channels-last", "off"])
    ['--bf16=auto', 'bert', '--bf16=cast', '--channels-last=on', '--channels-last=off']
    """
    from modelzoo.setting import choices, field_type, fields, option_name

    values = {f"--{option_name(name)}": ("on", *SWITCH) for name in fields() if field_type(name) is bool}
    values["--bf16"] = ("auto", *choices("bf16_method"))
    found, left = list[str](), list(arguments)
    while left:
        word = left.pop(0)
        if word in values:
            word += f"={left.pop(0) if left and left[0] in values[word] else values[word][0]}"
        found.append(word)
    return found


def _call(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    """Call the command's function; errors of the command line that it finds say where its help is."""
    words = explicit_values(sys.argv[1:] if argv is None else argv)
    args = parser.parse_args(words)
    args.words = words
    function, records = args.command_function, args.command_records
    try:
        if isinstance(function, str):
            module, _, name = function.partition(":")
            function = getattr(import_module(f"modelzoo.cli.{module}"), name)
        given = (args if each is argparse.Namespace else read_options(args, each) for each in records)
        return int(function(*given))
    except UsageError as error:
        raise UsageError(f"{error}{help_pointer(args.command_name)}") from error
