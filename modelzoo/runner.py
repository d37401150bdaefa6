"""Run settings in fresh processes, interleaved, and store each run as it comes. The parent's side.

Rounds go A B, B A, A B …, so that a machine which drifts slows both alike.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

from modelzoo import machine, precision
from modelzoo.errors import KINDS, EnvironmentProblem, ModelzooError, WorkerError
from modelzoo.result import Run, now
from modelzoo.setting import Plan, Setting
from modelzoo.workload import ROOT, Workload

PROCESSES = 3
"""Fresh processes for each setting: the fewest that show how much processes differ."""

Progress = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """One workload with the settings to compare, the first being the baseline."""

    workload: Workload
    settings: tuple[Setting, ...]
    plan: Plan
    processes: int = PROCESSES
    profiling: bool = False
    trace: str | None = None
    audit: bool = True


def order(settings: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, index of the setting): forwards in even rounds, backwards in odd ones."""
    for round_number in range(rounds):
        indices = range(settings)
        for index in indices if round_number % 2 == 0 else reversed(indices):
            yield round_number, index


def run(request: Request, progress: Progress) -> Iterator[Run]:
    """Yield each run as it ends; one that fails is yielded too, with its reason.

    A setting that the user's call made impossible is not tried again in later rounds; a worker that
    died is.
    """
    hopeless: dict[int, str] = {}
    weights: dict[str, Any] = {}
    for round_number, index in order(len(request.settings), request.processes):
        setting = request.settings[index]
        if index in hopeless:
            continue
        started = now()
        context = {"workload": request.workload.name, "setting": setting.label, "round": round_number}

        def tell(message: Mapping[str, Any], context: Mapping[str, Any] = context) -> None:
            progress({**context, **message})

        report, error, kind = None, None, None
        try:
            key = json.dumps([setting.weights, setting.seed, setting.options], sort_keys=True)
            if key not in weights:
                weights[key] = call_worker(job(request, setting, "prepare"), tell)
            report = call_worker(
                {
                    **job(request, setting, "measure"),
                    "weights": weights[key],
                    "audit": request.audit,
                    # One process a setting is enough for what costs passes and does not vary.
                    "first": round_number == 0,
                    "profiling": request.profiling,
                    "trace": _trace(request, index),
                },
                tell,
            )
        except WorkerError as problem:
            error, kind = str(problem), WorkerError.__name__
        except ModelzooError as problem:
            error, kind = str(problem), type(problem).__name__
            hopeless[index] = error
        yield Run(request.workload.name, setting.to_json(), round_number, started, report, error, kind)


def validate(request: Request, setting: Setting, judging: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Judge one setting in a fresh process; ``judging`` holds what ``ValidityRequest`` takes.

    oneDNN's math mode is not set by variable here, where it would reach the fp32 reference too.

    Raises:
        ModelzooError: it could not be judged.
    """
    context = {"workload": request.workload.name, "setting": setting.label, "round": 0}

    def tell(message: Mapping[str, Any]) -> None:
        progress({**context, **message})

    weights = call_worker(job(request, setting, "prepare"), tell)
    work = job(request, setting, "validate")
    for name in work["environment"]["applied"]:
        work["environment"]["variables"].pop(name, None)
    return call_worker({**work, "weights": weights, "request": dict(judging)}, tell)


def _trace(request: Request, index: int) -> str | None:
    """One file a setting: ``trace.json``, ``trace-1.json`` …."""
    if request.trace is None or index == 0:
        return request.trace
    path = Path(request.trace)
    return str(path.with_name(f"{path.stem}-{index}{path.suffix}"))


def job(request: Request, setting: Setting, kind: str) -> dict[str, Any]:
    """What a worker needs to know, and the environment it will be given."""
    environment = precision.scrub(setting, os.environ)
    threads = setting.threads or machine.usable_threads().count
    variables = {
        **environment.variables,
        # Read when the OpenMP and BLAS libraries load, before torch can say anything.
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return {
        "kind": kind,
        "directory": str(request.workload.directory),
        "setting": setting.to_json(),
        "plan": asdict(request.plan),
        "threads": threads,
        "parent": os.getpid(),
        "environment": {
            "variables": variables,
            "removed": dict(environment.removed),
            "applied": dict(environment.applied),
            "way": environment.way,
        },
    }


def call_worker(work: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Start a worker, pass its progress on, and return what it has done.

    Raises:
        WorkerError: it died; the message holds the signal or the last line it wrote.
        ModelzooError: the error it reported, as its own class.
    """
    variables = work["environment"]["variables"]
    sent = {**work, "environment": {k: v for k, v in work["environment"].items() if k != "variables"}}
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "modelzoo.worker", str(writing)],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=dict(variables),
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the worker
        )
        os.close(writing)
        last: dict[str, Any] = {}
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it died at once; the reason is read below
                process.stdin.write(json.dumps(sent).encode())
                process.stdin.close()
            with os.fdopen(reading, "rb") as stream:
                for message in messages(stream):
                    last = message
                    if "phase" in message:
                        progress(message)
            process.wait()
        except BaseException:
            _kill(process)
            raise
        if "done" in last:
            return dict(last["done"])
        if "error" in last:
            raise KINDS.get(last["error_kind"], ModelzooError)(last["error"])
        said.seek(0)
        raise _death(process.returncode, said.read().decode(errors="replace"))


def messages(stream: Any) -> Iterable[dict[str, Any]]:
    """The JSON objects, one a line, that arrive on a pipe until it closes."""
    for line in stream:
        try:
            yield json.loads(line)
        except ValueError:
            return  # a worker killed while it wrote leaves half a line


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _death(code: int, output: str) -> ModelzooError:
    """Why a worker that reported nothing ended."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory? try a smaller --batch)" if name == "SIGKILL" else ""
        if name == "SIGILL":
            hint = " (this build of torch has instructions that this CPU lacks)"
        return WorkerError(f"the worker process was ended by {name}{hint}")
    if any("No module named" in line for line in lines[-1:]):
        missing = lines[-1].split("No module named", 1)[1].strip()
        return EnvironmentProblem(
            f"{sys.executable} has no module {missing}: run ./scripts/run once, then use .venv/bin/python"
        )
    return WorkerError(f"the worker process ended with code {code}: {lines[-1] if lines else 'no output'}")
