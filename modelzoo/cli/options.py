"""The command line's options, shared by ``modelzoo`` and the workloads' own scripts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from modelzoo import setting
from modelzoo.errors import UsageError
from modelzoo.measure.schedule import PROCESSES
from modelzoo.setting import Plan, Setting
from modelzoo.workload.declaration import Workload
from modelzoo.workload.weights import SOURCES

THREADS_PER_CPU = 16
"""More than this many threads a CPU measures nothing, and starting them may take minutes."""


class Parser(argparse.ArgumentParser):
    """Errors in one line, exit code 2, and no guessing of abbreviated options."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def bare_bf16(arguments: Sequence[str]) -> list[str]:
    """``--bf16`` alone means "the right way"; written out so that it never eats the next word."""
    return ["--bf16=auto" if word == "--bf16" else word for word in arguments]


def add_workloads(parser: argparse.ArgumentParser, precision: str) -> None:
    """Which workloads, in which precisions (``precision`` by default), with which options of their own."""
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="a name or a directory (default: all four)")
    parser.add_argument("--precision", help=f"a list of fp32 and bf16 (default: {precision})")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option that one workload has"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Where the result goes."""
    parser.add_argument("--json", metavar="FILE", help="where the result goes (default: results/TIME.json)")


def add_setting(parser: argparse.ArgumentParser) -> None:
    """Options that decide what runs; timing and validation share them."""
    group = parser.add_argument_group("setting")
    group.add_argument(
        "--bf16",
        metavar="WAY",
        help="bf16 instead of fp32; --bf16 picks the way that is right for the backend, "
        "--bf16=fastmath|autocast|cast forces one",
    )
    group.add_argument("--mode", default="eager", help="eager (default), compile (inductor, frozen), script")
    group.add_argument(
        "--backend",
        help="auto, onednn, or blas (oneDNN off: OpenBLAS or MKL); default: MODELZOO_BACKEND, else auto",
    )
    group.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, npu")
    group.add_argument("--batch", type=int, help="items in a forward batch (default: the workload's)")
    group.add_argument(
        "--threads",
        type=int,
        help="default: OMP_NUM_THREADS, else min(affinity, cgroup quota, physical cores)",
    )
    group.add_argument("--channels-last", action="store_true", help="channels-last memory format")
    group.add_argument(
        "--weights",
        default="auto",
        metavar="|".join((*SOURCES, "PATH")),
        help="auto: cached, downloaded, or random",
    )
    group.add_argument("--input", metavar="PATH", help="your own picture, folder of pictures, or text file")
    group.add_argument("--seed", type=int, default=0, help="seed of random weights and crops (default 0)")


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Options that decide how long it is measured, and what is kept."""
    default = Plan()
    group = parser.add_argument_group("measurement")
    group.add_argument(
        "--processes", type=int, default=PROCESSES, help=f"fresh processes a setting (default {PROCESSES})"
    )
    group.add_argument("--iterations", type=int, help="steady iterations (default: until ±1 %% or --max-seconds)")
    group.add_argument("--warmup", type=int, help="warm-up iterations (default: until the level is settled)")
    group.add_argument(
        "--max-seconds",
        type=float,
        default=default.max_seconds,
        help=f"limit of the steady phase of a process (default {default.max_seconds:g})",
    )
    group.add_argument("--profiling", action="store_true", help="operator tables, taken after the timing")
    group.add_argument("--trace", metavar="FILE", help="Chrome/Perfetto trace, taken after the timing")
    group.add_argument("--no-audit", action="store_true", help="skip the proof of which kernels ran")
    group.add_argument(
        "--strict",
        action="store_true",
        help="exit code 1 unless the precision is proven and no reference kernel ran",
    )


def add_validity(parser: argparse.ArgumentParser) -> None:
    """Options that decide what predictions are judged on, and by which bounds."""
    group = parser.add_argument_group("validity")
    group.add_argument(
        "--data",
        metavar="PATH",
        help="ImageNet-style folder, COCO instances_*.json or SQuAD JSON (default: a small set of the suite's own)",
    )
    group.add_argument("--limit", type=int, metavar="N", help="judge N items, drawn by --seed")
    group.add_argument(
        "--tolerance", action="append", default=[], metavar="NAME=VALUE", help="another bound for one check"
    )
    group.add_argument(
        "--output",
        metavar="DIR",
        help="where pictures and plots go (default: output/ in the workload, or in MODELZOO_RESULTS)",
    )
    group.add_argument("--explain", action="store_true", help="error by layer: where does it drift first?")


def tolerances(given: Sequence[str]) -> dict[str, float]:
    """``NAME=VALUE`` options as numbers; raises ``UsageError``."""
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


def make_request(args: argparse.Namespace, workload: Workload) -> dict[str, Any]:
    """What ``modelzoo.validity.sides`` is asked for; raises ``UsageError``."""
    from modelzoo.validity.thresholds import verified

    tolerance = tolerances(args.tolerance)
    verified(tolerance)
    if args.data is not None and not Path(args.data).exists():
        raise UsageError(f"--data {args.data} does not exist")
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {args.limit}")
    place = _output(args.output, workload)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {place}: {error.strerror}; name another place by --output DIR") from error
    return {
        "output": str(place),
        "data": None if args.data is None else str(Path(args.data).absolute()),
        "limit": args.limit,
        "tolerance": tolerance,
        "explain": args.explain,
    }


def _output(named: str | None, workload: Workload) -> Path:
    """Where pictures and plots go: ``--output``, else beside the results that MODELZOO_RESULTS places, else the
    workload's own directory."""
    if named:
        return Path(named).absolute() / workload.name
    results = os.environ.get("MODELZOO_RESULTS")
    return Path(results).absolute() / "output" / workload.name if results else workload.directory / "output"


def add_workload_options(parser: argparse.ArgumentParser, workload: Workload) -> None:
    """The workload's own options, as ``--name``."""
    if not workload.options:
        return
    group = parser.add_argument_group(f"only for {workload.name}")
    for option in workload.options:
        group.add_argument(
            f"--{option.name}", dest=f"option:{option.name}", help=f"{option.help} (default {option.default})"
        )


def own_options(args: argparse.Namespace) -> dict[str, Any]:
    """The workload's own options that were given."""
    prefix = "option:"
    return {k[len(prefix) :]: v for k, v in vars(args).items() if k.startswith(prefix) and v is not None}


def make_setting(args: argparse.Namespace, workload: Workload, options: dict[str, Any]) -> Setting:
    """The setting of ``args``, in fp32 unless ``--bf16`` was given.

    Raises:
        UsageError: a value is out of range, a file does not exist, a variable holds nonsense.
    """
    bf16_method = None if args.bf16 in (None, "auto") else args.bf16
    if args.input is not None and not Path(args.input).exists():
        raise UsageError(f"--input {args.input} does not exist")
    threads = args.threads if args.threads is not None else _threads_variable()
    most = THREADS_PER_CPU * (os.cpu_count() or 1)
    if threads is not None and threads > most:
        raise UsageError(f"--threads {threads}: this machine has {os.cpu_count()} CPUs; give at most {most}")
    return Setting(
        precision="bf16" if args.bf16 else "fp32",
        bf16_method=bf16_method,
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
    # OpenMP allows a list, one count for each nesting level; the first is ours.
    first = value.split(",")[0].strip()
    if not first.isdigit() or int(first) < 1:
        raise UsageError(f"OMP_NUM_THREADS={value} is no number of threads; set it to 1 or more, or unset it")
    return int(first)


def _backend_variable() -> str:
    """The default backend: what an image is built for, named by MODELZOO_BACKEND."""
    value = os.environ.get(setting.BACKEND_VARIABLE) or "auto"
    if value not in setting.BACKENDS:
        allowed = ", ".join(setting.BACKENDS)
        raise UsageError(f"{setting.BACKEND_VARIABLE}={value} is no backend; set it to one of {allowed}, or unset it")
    return value


def make_plan(args: argparse.Namespace) -> Plan:
    """The plan of ``args``; raises ``UsageError``."""
    if args.processes < 1:
        raise UsageError(f"--processes must be 1 or more, not {args.processes}")
    return Plan(args.warmup, args.iterations, args.max_seconds)


def precisions(text: str) -> list[str]:
    """``fp32,bf16`` as a list; raises ``UsageError``."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in found if word not in setting.PRECISIONS]
    if unknown or not found:
        raise UsageError(f"--precision must be a list of {', '.join(setting.PRECISIONS)}, not {text!r}")
    return list(dict.fromkeys(found))
