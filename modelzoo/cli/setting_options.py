"""The options that decide what runs, and the settings that they are parsed to.

``--vary NAME=V1,V2``, ``--setting "NAME=VALUE …"`` and ``--baseline`` come down to the options of one setting each, as
text: ``{"mode": "compile", "threads": "2"}`` is what ``--mode compile --threads 2`` would say.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from modelzoo import setting as settings
from modelzoo.errors import UsageError, suggestion
from modelzoo.option import add_repeatable, duration, parse_words, switch, whole_numbers
from modelzoo.setting import METHOD_OPTIONS, METHODS, OptionValue, Setting, option_name
from modelzoo.workload import Workload
from modelzoo.workload.declaration import SOURCES
from modelzoo.workload.discovery import STANDARD_WORKLOADS

THREADS_PER_CPU = 16
"""More threads per CPU than this measure nothing useful, and starting them may take minutes."""
DEFAULT = "default"
"""What ``--vary`` calls the interpreter that runs the suite, outside of any container."""
AUTO = "auto"
"""What says that the engine chooses how a precision is obtained."""
_OPTION_PREFIX = "option:"
FIELDS = tuple(option_name(name) for name in Setting.__struct_fields__ if name != "options")
"""The options of every setting; a workload's own options come in addition."""
MAX_SETTINGS = 64
"""Settings of one workload; more would take hours, and are more likely a mistake."""
OptionValues = dict[str, str]
"""What one setting names: values by option."""


def add_workloads(parser: argparse.ArgumentParser, precision: str | None = None) -> None:
    """Add the options that select workloads, precisions (by default ``precision``) and the workloads' own options.

    Without ``precision``, the command measures one precision in a call.
    """
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"a workload's name or directory (default: {', '.join(STANDARD_WORKLOADS)})",
    )
    if precision is not None:
        parser.add_argument(
            "--precision",
            metavar="LIST",
            help=f"comma-separated list of {settings.fields()['precision'].help} (default: {precision})",
        )
    _add_option(parser)


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the options that select one workload, and the workload's own options."""
    parser.add_argument("workload", metavar="WORKLOAD", help="the workload's name or directory")
    _add_option(parser)


def _add_option(parser: argparse.ArgumentParser) -> None:
    add_repeatable(parser, "--option", "NAME=VALUE", "set an option of the workload, such as sequence=128 for bert")


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
        help="run in bf16 instead of fp32; plain --bf16 chooses the method that suits the engine, METHOD says "
        + settings.fields()["bf16_method"].help,
    )
    group.add_argument(
        "--fp16", action="store_true", help="run in fp16 instead of fp32, by the method that suits the engine"
    )
    group.add_argument(
        "--int8", action="store_true", help="quantize the model to int8, by the recipe that suits the machine"
    )
    for name, field in settings.fields().items():
        if name == "stages":
            continue  # of the commands that time single processes, see ``options.add_plan``
        option, is_hidden = f"--{settings.option_name(name)}", for_instances and field.per_process
        text = argparse.SUPPRESS if is_hidden else field.help
        if settings.field_type(name) is bool:
            group.add_argument(option, type=switch, nargs="?", const=True, default=False, metavar="on|off", help=text)
        elif name == "batch" and several_batches:
            group.add_argument(option, type=whole_numbers, metavar="N1,N2,…", help=f"{text}; one number or several")
        elif field.metavar:
            # The default of the backend depends on the environment.
            default = None if name == "backend" else settings.DEFAULTS[name]
            group.add_argument(
                option, type=settings.field_type(name), default=default, metavar=field.metavar, help=text
            )
    group.add_argument(
        "--timeout",
        type=duration,
        metavar="TIME",
        help="end a process that does not answer for this long, be it while it loads, compiles or calls the model, and "
        "go on with the other settings: 10m (default: wait, and say after a minute in which call it is)",
    )


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add the options that name several settings."""
    group = parser.add_argument_group(
        "comparison", "The settings that are compared are interleaved. The first is the baseline of the speedups."
    )
    group.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V1,V2,…",
        help="run with each of these values of an option, such as mode=eager,compile or batch=1,8; if repeated, with "
        "every combination; fp32 unless a precision is given",
    )
    text = 'run exactly this setting, such as "mode=compile threads=2", or those on the lines of @FILE'
    add_repeatable(group, "--setting", "SETTING", text)
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


def precision_of(args: argparse.Namespace) -> str:
    """The precision that the options say: fp32 without any.

    Raises:
        UsageError: they contradict each other.
    """
    given = {"--bf16": "bf16", "--fp16": "fp16", "--int8": "int8", "--recipe": "int8"}
    named = [option for option in given if getattr(args, option[2:])]
    for option in named[1:]:
        if given[option] != given[named[0]]:
            raise UsageError(f"{option} together with {named[0]} contradicts itself; leave one out")
    return given[named[0]] if named else "fp32"


def make_setting(
    args: argparse.Namespace, workload: Workload, options: Mapping[str, OptionValue], precision: str
) -> Setting:
    """Return the setting of ``args`` in ``precision``.

    Raises:
        UsageError: a value is out of range, a file does not exist, or an environment variable is not valid.
    """
    if args.input is not None and not Path(args.input).exists():
        raise UsageError(f"--input {args.input} does not exist")
    threads = args.threads if args.threads is not None else _threads_variable()
    limit = THREADS_PER_CPU * (os.cpu_count() or 1)
    if threads is not None and threads > limit:
        raise UsageError(f"--threads {threads}: this machine has {os.cpu_count()} CPUs; give at most {limit}")
    environ: Mapping[str, str] = os.environ
    image = python = None
    if args.image not in (None, DEFAULT):
        from modelzoo.measure.container import read_image

        image, environ = args.image, read_image(args.image).environment
    if args.python not in (None, DEFAULT):
        from modelzoo.measure.launcher import find_interpreter

        python = find_interpreter(args.python)
    given = {name: getattr(args, name) for name in settings.fields() if hasattr(args, name)}
    given.update(
        precision=precision,
        backend=args.backend if args.backend is not None else _backend_variable(environ),
        threads=threads,
        weights=args.weights if args.weights in SOURCES else str(Path(args.weights).absolute()),
        input=None if args.input is None else str(Path(args.input).absolute()),
        python=python,
        image=image,
    )
    for field in METHODS.values():  # those of other precisions are empty
        method = getattr(args, option_name(field))
        given[field] = method if field == METHODS.get(precision) and method != AUTO else None
    return Setting(**given, options=workload.option_values(options, given["weights"]))


def _threads_variable() -> int | None:
    value = os.environ.get("OMP_NUM_THREADS")
    if not value:
        return None
    # OpenMP allows a list, one number per nesting level; the outermost is the one that matters here.
    first = value.split(",")[0].strip()
    if not first.isdigit() or int(first) < 1:
        raise UsageError(f"OMP_NUM_THREADS={value} is not a number of threads; set it to 1 or more, or unset it")
    return int(first)


def _backend_variable(environ: Mapping[str, str]) -> str:
    """The default backend, which an image names in MODELZOO_BACKEND."""
    value = environ.get(settings.BACKEND_VARIABLE) or "auto"
    if value not in settings.choices("backend"):
        allowed = ", ".join(settings.choices("backend"))
        raise UsageError(
            f"{settings.BACKEND_VARIABLE}={value} is not a backend; set it to one of {allowed}, or unset it"
        )
    return value


Axis = tuple[str, list[str]]
"""An option with the values that it takes in turn."""


def parse_axis(text: str) -> Axis:
    """Parse the ``NAME=V1,V2,…`` of ``--vary``; raises ``UsageError``."""
    name, equals, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not (name and equals):
        raise UsageError(f"--vary {text!r} must have the form NAME=V1,V2,…, for example mode=eager,compile")
    if not all(words):
        raise UsageError(f"--vary {text!r} has an empty value; write NAME=V1,V2,…")
    return name, words


def parse_setting(text: str, option: str = "--setting") -> OptionValues:
    """Parse ``NAME=VALUE NAME=VALUE …``; a value with spaces is quoted as in a shell.

    Raises:
        UsageError: it has another form, is empty, or names an option twice.
    """
    given = parse_words(text, f"{option} {text!r}")
    if not given:
        raise UsageError(f"{option} {text!r} names nothing; for the default setting, write mode=eager")
    return given


def parse_settings(texts: Sequence[str]) -> list[OptionValues]:
    """Parse every ``--setting``; ``@FILE`` stands for the lines of a file, in which ``#`` begins a comment.

    Raises:
        UsageError: a setting has another form, or the file cannot be read or has no settings.
    """
    found = []
    for text in texts:
        lines = [text]
        if text.startswith("@"):
            try:
                content = Path(text[1:]).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
                raise UsageError(f"--setting {text} cannot be read: {reason}") from error
            # A comment begins a word: file names may contain a "#".
            lines = [line for each in content.splitlines() if (line := re.sub(r"(^|\s)#.*", "", each)).strip()]
            if not lines:
                raise UsageError(f"--setting {text}: the file names no setting; write one on each line")
        found += [parse_setting(line) for line in lines]
    return found


def combine(axes: Sequence[Axis]) -> list[OptionValues]:
    """Return every combination of the axes' values; the first axis varies slowest.

    Raises:
        UsageError: an axis is named twice, contradicts another, or there are too many combinations.
    """
    names = [name for name, _ in axes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is varied twice; give all of its values in one list")
    columns = {name: [{name: word} for word in words] for name, words in axes}
    if precisions := columns.get("precision"):
        # Each method occurs with the precisions that it belongs to.
        methods = {name: columns.pop(name) for name in METHOD_OPTIONS if name in columns}
        owned = [own_method(each["precision"]) for each in precisions]
        for name in methods:
            if name not in owned:
                raise UsageError(
                    f"{name} is varied, but {METHOD_OPTIONS[name]} is not among the precisions; add it, or leave one "
                    "of the two out"
                )
        pairs = zip(precisions, owned)
        columns["precision"] = [{**each, **method} for each, name in pairs for method in methods.get(name, [{}])]
    check_number(math.prod(map(len, columns.values())))
    return [
        {name: value for each in chosen for name, value in each.items()}
        for chosen in itertools.product(*columns.values())
    ]


def own_method(precision: str) -> str:
    """The option that says how a precision is obtained; empty if it has none."""
    return option_name(METHODS.get(precision, ""))


def check_number(count: int) -> None:
    """Raise ``UsageError`` if ``count`` settings of one workload are too many."""
    if count > MAX_SETTINGS:
        raise UsageError(f"these are {count} settings of one workload, and {MAX_SETTINGS} are the most; vary less")


def check_names(names: Collection[str], options: Collection[str], where: str) -> None:
    """Check that every name is one of ``FIELDS`` or of the workloads' ``options``; raises ``UsageError``."""
    for name in names:
        if name not in FIELDS and name not in options:
            hint = suggestion(name, [*FIELDS, *options])
            own = f"; the workloads' own: {', '.join(sorted(options))}" if options else ""
            raise UsageError(f"{where}: there is no option {name!r} (there are: {', '.join(FIELDS)}{own}){hint}")
