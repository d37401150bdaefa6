"""The options that decide what runs, and the setting that they are parsed to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from modelzoo import setting as settings
from modelzoo.cli.values import whole_numbers
from modelzoo.errors import UsageError
from modelzoo.setting import OptionValue, Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import STANDARD_WORKLOADS
from modelzoo.workload.weights import SOURCES

THREADS_PER_CPU = 16
"""More threads per CPU than this measure nothing useful, and starting them may take minutes."""
DEFAULT = "default"
"""What ``--vary`` calls the interpreter that runs the suite, outside of any container."""
_OPTION_PREFIX = "option:"


def add_workloads(parser: argparse.ArgumentParser, precision: str) -> None:
    """Add the options that select workloads, precisions (by default ``precision``) and the workloads' own options."""
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"a workload's name or directory (default: {', '.join(STANDARD_WORKLOADS)})",
    )
    parser.add_argument(
        "--precision",
        metavar="LIST",
        help=f"comma-separated list of fp32, tf32 (CUDA devices), bf16 and fp16 (default: {precision})",
    )
    _add_option(parser)


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the options that select one workload, and the workload's own options."""
    parser.add_argument("workload", metavar="WORKLOAD", help="the workload's name or directory")
    _add_option(parser)


def _add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of the workload, such as sequence=128 for bert; may be repeated",
    )


def add_setting(parser: argparse.ArgumentParser, *, several_batches: bool = False, for_instances: bool = False) -> None:
    """Add the options that decide what runs, which most commands share.

    Args:
        parser: receives them.
        several_batches: whether ``--batch`` takes a list.
        for_instances: whether instances run on cores of their own. What follows from that is not in the help; it can be
            given, so that ``serving.check_setting`` says what to give instead.
    """

    group = parser.add_argument_group("setting")
    group.add_argument(
        "--bf16",
        metavar="METHOD",
        help="run in bf16 instead of fp32: --bf16=fastmath, --bf16=autocast, --bf16=cast or, with OpenVINO, "
        "--bf16=hint; plain --bf16 chooses the method that suits the engine",
    )
    for name, field in settings.fields().items():
        option, is_hidden = f"--{settings.option_name(name)}", for_instances and field.per_process
        text = argparse.SUPPRESS if is_hidden else field.help
        if settings.field_type(name) is bool:
            group.add_argument(option, action="store_true", help=text)
        elif name == "batch" and several_batches:
            text = "items per forward pass, one number or several (default: the workload's)"
            group.add_argument(option, type=whole_numbers, metavar="N1,N2,…", help=text)
        elif field.metavar:
            # The default of the backend depends on the environment.
            default = None if name == "backend" else settings.DEFAULTS[name]
            group.add_argument(
                option, type=settings.field_type(name), default=default, metavar=field.metavar, help=text
            )


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add the options that name several settings."""
    group = parser.add_argument_group(
        "comparison", "The settings that are compared take turns. The first is the baseline of the speedups."
    )
    group.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V1,V2,…",
        help="run with each of these values of an option, such as mode=eager,compile or batch=1,8; if repeated, with "
        "every combination; fp32 unless a precision is given",
    )
    group.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="SETTING",
        help='run exactly this setting, such as "mode=compile threads=2", or those on the lines of @FILE; may be '
        "repeated",
    )
    group.add_argument("--baseline", metavar="SETTING", help='the baseline: "mode=compile", or its label in the table')


def add_workload_options(parser: argparse.ArgumentParser, workload: Workload) -> None:
    """Add the workload's own options, as ``--name``."""
    if not workload.options:
        return
    group = parser.add_argument_group(f"only for {workload.name}")
    for option in workload.options:
        choices = "|".join(map(str, option.choices)) if option.choices else "VALUE"
        group.add_argument(
            f"--{option.name}",
            dest=f"{_OPTION_PREFIX}{option.name}",
            metavar=choices,
            help=f"{option.help} (default {option.default})",
        )


def own_options(args: argparse.Namespace) -> dict[str, str]:
    """Return the workload's own options that were given."""
    given = vars(args).items()
    return {
        name[len(_OPTION_PREFIX) :]: value
        for name, value in given
        if name.startswith(_OPTION_PREFIX) and value is not None
    }


def make_setting(args: argparse.Namespace, workload: Workload, options: Mapping[str, OptionValue]) -> Setting:
    """Return the setting of ``args``: fp32 unless ``--bf16`` was given.

    Raises:
        UsageError: a value is out of range, a file does not exist, or an environment variable is not valid.
    """
    if args.input is not None and not Path(args.input).exists():
        raise UsageError(f"--input {args.input} does not exist")
    threads = args.threads if args.threads is not None else _threads_variable()
    limit = THREADS_PER_CPU * (os.cpu_count() or 1)
    if threads is not None and threads > limit:
        raise UsageError(f"--threads {threads}: this machine has {os.cpu_count()} CPUs; give at most {limit}")
    image = _image(args.image)
    given = {name: getattr(args, name) for name in settings.fields() if hasattr(args, name)}
    given.update(
        precision="bf16" if args.bf16 else "fp32",
        bf16_method=None if args.bf16 in (None, "auto") else args.bf16,
        backend=args.backend if args.backend is not None else _backend_variable(image),
        threads=threads,
        weights=args.weights if args.weights in SOURCES else str(Path(args.weights).absolute()),
        input=None if args.input is None else str(Path(args.input).absolute()),
        python=_python(args.python),
        image=image,
        in_flight=_in_flight(args),
    )
    return Setting(**given, options=workload.option_values(options))


def _in_flight(args: argparse.Namespace) -> int | None:
    """Batches in the pipeline; ``None`` if the model alone is timed. Commands that time nothing lack both options."""
    given: int | None = getattr(args, "in_flight", None)
    return 1 if given is None and getattr(args, "stages", False) else given


def _python(name: str | None) -> str | None:
    """The path of another interpreter; ``None`` for the one that runs the suite."""
    if name in (None, DEFAULT):
        return None
    from modelzoo.measure.launcher import find_interpreter

    return find_interpreter(name)


def _image(name: str | None) -> str | None:
    """The name of an image that is on this machine; ``None`` for none."""
    if name in (None, DEFAULT):
        return None
    from modelzoo.measure.container import read_image

    return read_image(name).name


def _threads_variable() -> int | None:
    value = os.environ.get("OMP_NUM_THREADS")
    if not value:
        return None
    # OpenMP allows a list, one number per nesting level; the outermost is the one that matters here.
    first = value.split(",")[0].strip()
    if not first.isdigit() or int(first) < 1:
        raise UsageError(f"OMP_NUM_THREADS={value} is not a number of threads; set it to 1 or more, or unset it")
    return int(first)


def _backend_variable(image: str | None) -> str:
    """The default backend, which an image names in MODELZOO_BACKEND."""
    environ: Mapping[str, str] = os.environ
    if image is not None:
        from modelzoo.measure.container import read_image

        environ = read_image(image).environment
    value = environ.get(settings.BACKEND_VARIABLE) or "auto"
    if value not in settings.choices("backend"):
        allowed = ", ".join(settings.choices("backend"))
        raise UsageError(
            f"{settings.BACKEND_VARIABLE}={value} is not a backend; set it to one of {allowed}, or unset it"
        )
    return value
