"""The options that commands share, and what they are parsed to."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from modelzoo import setting as settings
from modelzoo.errors import UsageError
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import PROCESSES, OptionValue, Plan, Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import STANDARD_WORKLOADS
from modelzoo.workload.weights import SOURCES

THREADS_PER_CPU = 16
"""More threads per CPU than this measure nothing useful, and starting them may take minutes."""
_OPTION_PREFIX = "option:"


class Parser(argparse.ArgumentParser):
    """Reports errors in one line with exit code 2, and does not accept abbreviated options."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def explicit_bf16(arguments: Sequence[str]) -> list[str]:
    """Write a bare ``--bf16`` as ``--bf16=auto``, so that it does not take the next word as its value."""
    return ["--bf16=auto" if word == "--bf16" else word for word in arguments]


def add_workloads(parser: argparse.ArgumentParser, precision: str) -> None:
    """Add the options that select workloads, precisions (by default ``precision``) and the workloads' own options."""
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"a workload's name or directory (default: {', '.join(STANDARD_WORKLOADS)})",
    )
    parser.add_argument(
        "--precision", metavar="LIST", help=f"comma-separated list of fp32 and bf16 (default: {precision})"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an option of a workload, such as sequence=128 for bert; may be repeated",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the result's file."""
    parser.add_argument("--json", metavar="FILE", help="write the result to FILE (default: results/TIME.json)")


def add_setting(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide what runs; ``run`` and ``validate`` share them."""
    group = parser.add_argument_group("setting")
    group.add_argument(
        "--bf16",
        metavar="METHOD",
        help="run in bf16 instead of fp32: --bf16=fastmath, --bf16=autocast or --bf16=cast; plain --bf16 chooses the "
        "method that suits the backend",
    )
    group.add_argument(
        "--mode",
        default="eager",
        metavar="MODE",
        help="eager (default), compile (inductor with freezing) or script (traced or scripted, then frozen)",
    )
    group.add_argument(
        "--backend",
        metavar="BACKEND",
        help="auto, onednn, or blas (oneDNN switched off: OpenBLAS or MKL); default: MODELZOO_BACKEND, else auto",
    )
    group.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu (default), cuda, cuda:1, npu …")
    group.add_argument("--batch", type=int, metavar="N", help="items per forward pass (default: the workload's)")
    group.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="intra-operator threads (default: OMP_NUM_THREADS, else the smallest of CPU affinity, cgroup quota "
        "and physical cores)",
    )
    group.add_argument("--channels-last", action="store_true", help="use the channels-last memory format")
    group.add_argument(
        "--weights",
        default="auto",
        metavar="SOURCE",
        help="auto (default: cached, else downloaded, else random), pretrained, random, or the path of a checkpoint",
    )
    group.add_argument("--input", metavar="PATH", help="your own picture, directory of pictures, or text file")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed for random weights, crops and samples (default 0)"
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how long to measure, and what is recorded besides the time."""
    default = Plan()
    group = parser.add_argument_group("measurement")
    group.add_argument(
        "--processes",
        type=int,
        default=PROCESSES,
        metavar="N",
        help=f"fresh processes per setting (default {PROCESSES})",
    )
    group.add_argument(
        "--iterations",
        type=int,
        metavar="N",
        help="steady-state iterations (default: until the interval is within ±1 %%, or --max-seconds)",
    )
    group.add_argument("--warmup", type=int, metavar="N", help="warm-up iterations (default: until timings stabilise)")
    group.add_argument(
        "--max-seconds",
        type=float,
        default=default.max_seconds,
        metavar="SECONDS",
        help=f"time limit for steady-state sampling in each process (default {default.max_seconds:g}; inf: no limit)",
    )
    group.add_argument("--profiling", action="store_true", help="print operator tables, profiled after the timing")
    group.add_argument("--trace", metavar="FILE", help="write a Chrome/Perfetto trace, recorded after the timing")
    group.add_argument("--no-audit", action="store_true", help="skip the audit, which proves which kernels ran")
    group.add_argument(
        "--strict",
        action="store_true",
        help="exit with code 1 unless the precision is proven and no reference kernel ran",
    )


def add_validity(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide what predictions are judged on, and by which thresholds."""
    group = parser.add_argument_group("validity")
    group.add_argument(
        "--data",
        metavar="PATH",
        help="ImageNet-style folder, COCO instances_*.json or SQuAD JSON (default: a small built-in set)",
    )
    group.add_argument("--limit", type=int, metavar="N", help="judge at most N items, sampled with --seed")
    group.add_argument(
        "--tolerance",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="replace a threshold; may be repeated",
    )
    group.add_argument(
        "--output",
        metavar="DIR",
        help="directory for pictures, tables and plots (default: output/ in the workload's directory, or in "
        "MODELZOO_RESULTS if that is set)",
    )
    group.add_argument(
        "--explain", action="store_true", help="report the error of every layer, as a CSV file and a plot"
    )


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


@dataclass(frozen=True)
class Judging:
    """How predictions are judged, and the directory that pictures and plots are written to."""

    request: ValidityRequest
    output: Path


def make_judging(args: argparse.Namespace, workload: Workload) -> Judging:
    """Return what ``args`` ask for; the output directory exists afterwards.

    Raises:
        UsageError: a value is out of range, a path does not exist or cannot be written to.
    """
    from modelzoo.validity.thresholds import check_tolerances

    tolerance = tolerances(args.tolerance)
    check_tolerances(tolerance)
    if args.data is not None and not Path(args.data).exists():
        raise UsageError(f"--data {args.data} does not exist")
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {args.limit}")
    output = _output(args.output, workload)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {output}: {error.strerror}; name another directory with --output DIR"
        ) from error
    request = ValidityRequest(
        data=None if args.data is None else str(Path(args.data).absolute()),
        limit=args.limit,
        tolerance=tolerance,
        explain=args.explain,
    )
    return Judging(request, output)


def tolerances(given: Sequence[str]) -> dict[str, float]:
    """Return ``NAME=VALUE`` options as numbers; raises ``UsageError``."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--tolerance {text!r} must have the form NAME=NUMBER")
    return found


def _output(named: str | None, workload: Workload) -> Path:
    """``--output``, else beside the results if MODELZOO_RESULTS is set, else in the workload's own directory."""
    if named:
        return Path(named).absolute() / workload.name
    results = os.environ.get("MODELZOO_RESULTS")
    return Path(results).absolute() / "output" / workload.name if results else workload.directory / "output"


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
    return Setting(
        precision="bf16" if args.bf16 else "fp32",
        bf16_method=None if args.bf16 in (None, "auto") else args.bf16,
        mode=args.mode,
        backend=args.backend if args.backend is not None else _backend_variable(),
        device=args.device,
        batch=args.batch,
        threads=threads,
        channels_last=args.channels_last,
        weights=args.weights if args.weights in SOURCES else str(Path(args.weights).absolute()),
        seed=args.seed,
        input=None if args.input is None else str(Path(args.input).absolute()),
        options=workload.option_values(options),
    )


def _threads_variable() -> int | None:
    value = os.environ.get("OMP_NUM_THREADS")
    if not value:
        return None
    # OpenMP allows a list, one number per nesting level; the outermost is the one that matters here.
    first = value.split(",")[0].strip()
    if not first.isdigit() or int(first) < 1:
        raise UsageError(f"OMP_NUM_THREADS={value} is not a number of threads; set it to 1 or more, or unset it")
    return int(first)


def _backend_variable() -> str:
    """The default backend, which an image names in MODELZOO_BACKEND."""
    value = os.environ.get(settings.BACKEND_VARIABLE) or "auto"
    if value not in settings.BACKENDS:
        allowed = ", ".join(settings.BACKENDS)
        raise UsageError(
            f"{settings.BACKEND_VARIABLE}={value} is not a backend; set it to one of {allowed}, or unset it"
        )
    return value


def make_plan(args: argparse.Namespace) -> Plan:
    """Return the plan of ``args``; raises ``UsageError``."""
    if args.processes < 1:
        raise UsageError(f"--processes must be 1 or more, not {args.processes}")
    # JSON has no infinity.
    return Plan(args.warmup, args.iterations, None if args.max_seconds == math.inf else args.max_seconds)


def precisions(text: str) -> list[str]:
    """Return ``fp32,bf16`` as a list without repetitions; raises ``UsageError``."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in found if word not in settings.PRECISIONS]
    if unknown or not found:
        raise UsageError(f"--precision must be a list of {', '.join(settings.PRECISIONS)}, not {text!r}")
    return list(dict.fromkeys(found))
