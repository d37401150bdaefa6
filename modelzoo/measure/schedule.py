"""Run settings in fresh processes, interleaved, and store each run as it comes. The parent's side.

Rounds go A B, B A, A B …, and within a round A and B sample by turns, so that a machine which drifts slows both
alike.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from modelzoo.engines.torch import switches
from modelzoo.engines.torch.bf16_method import requested_bf16_method, resolve_bf16_method
from modelzoo.errors import ModelzooError, WorkerError
from modelzoo.machine import limits
from modelzoo.machine.worker_environment import MATH_MODE_VARIABLE, inherited_math_mode, worker_environment
from modelzoo.measure.process import Child, Progress, call
from modelzoo.results.store import Run, now
from modelzoo.setting import Plan, Setting
from modelzoo.workload.declaration import Workload
from modelzoo.workload.discovery import CHECKOUT

PROCESSES = 3
"""Fresh processes for each setting: the fewest that show how much processes differ."""


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
        for index in _indices(settings, round_number):
            yield round_number, index


def _indices(settings: int, round_number: int) -> Sequence[int]:
    return range(settings) if round_number % 2 == 0 else range(settings)[::-1]


def run(request: Request, progress: Progress) -> Iterator[Run]:
    """Yield each run as it ends; one that fails is yielded too, with its reason.

    The workers of a round live at the same time and sample by turns, one at a time, so that each moment of
    the machine is shared by all of them. A setting that the user's call made impossible is not tried again in
    later rounds; a worker that died is.
    """
    hopeless: set[int] = set()
    weights: dict[str, Any] = {}
    for round_number in range(request.processes):
        with ExitStack() as stack:
            paused: list[_Entrant] = []
            for index in _indices(len(request.settings), round_number):
                if index in hopeless:
                    continue
                entrant = _Entrant(request, index, round_number, hopeless, progress)
                try:
                    entrant.start(weights, stack)
                    if entrant.child.advance():
                        paused.append(entrant)
                        continue
                    done = entrant.run()
                except ModelzooError as problem:
                    done = entrant.failed(problem)
                yield done
            for entrant in by_turns(paused):
                yield entrant.run()


def by_turns(paused: Sequence[_Entrant]) -> Iterator[_Entrant]:
    """Let workers sample one after another, turn by turn, until each knows enough; yield each that ends."""
    waiting = list(paused)
    while waiting:
        go_on = not all(entrant.child.precise for entrant in waiting)
        for entrant in list(waiting):
            entrant.child.resume(go_on)
            if not entrant.child.advance():
                waiting.remove(entrant)
                yield entrant


class _Entrant:
    """One setting in one round."""

    child: Child

    def __init__(self, request: Request, index: int, round_number: int, hopeless: set[int], progress: Progress) -> None:
        self._request, self._index, self._round, self._hopeless = request, index, round_number, hopeless
        self._setting = request.settings[index]
        self._started = now()
        context = {"workload": request.workload.name, "setting": self._setting.label, "round": round_number}
        self._tell: Progress = lambda message: progress({**context, **message})

    def start(self, weights: dict[str, Any], stack: ExitStack) -> None:
        """Start the worker; ``weights`` keeps what was resolved for all rounds."""
        setting, request = self._setting, self._request
        key = json.dumps([setting.weights, setting.seed, setting.options], sort_keys=True)
        if key not in weights:
            weights[key] = call(job(request, setting, "prepare"), self._tell)
        work = {
            **job(request, setting, "measure"),
            "weights": weights[key],
            "audit": request.audit,
            # One process a setting is enough for what costs passes and does not vary.
            "first": self._round == 0,
            "profiling": request.profiling,
            "trace": _trace(request, self._index),
            "turns": len(request.settings) > 1,
        }
        self.child = stack.enter_context(Child(work, self._tell))

    def run(self) -> Run:
        """The run of a worker that has ended."""
        try:
            report = self.child.result()
        except ModelzooError as problem:
            return self.failed(problem)
        return self._run(report, None, None)

    def failed(self, problem: ModelzooError) -> Run:
        """The run of a worker that failed; what the call itself made impossible is remembered."""
        if not isinstance(problem, WorkerError):
            self._hopeless.add(self._index)
        return self._run(None, str(problem), type(problem).__name__)

    def _run(self, report: dict[str, Any] | None, error: str | None, kind: str | None) -> Run:
        name, asked = self._request.workload.name, self._setting.to_json()
        return Run(name, asked, self._round, self._started, report, error, kind)


def validate(request: Request, setting: Setting, judging: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Judge one setting in a fresh process; ``judging`` holds what ``ValidityRequest`` takes.

    oneDNN's math mode is set by variable only where torch has no switch for it: it reaches the fp32 reference too,
    which then has to do without oneDNN.

    Raises:
        ModelzooError: it could not be judged.
    """
    context = {"workload": request.workload.name, "setting": setting.label, "round": 0}

    def tell(message: Mapping[str, Any]) -> None:
        progress({**context, **message})

    weights = call(job(request, setting, "prepare"), tell)
    work = job(request, setting, "validate")
    for name in () if switches.needs_math_mode_variable() else work["environment"]["applied"]:
        work["environment"]["variables"].pop(name, None)
    return call({**work, "weights": weights, "request": dict(judging)}, tell)


def _trace(request: Request, index: int) -> str | None:
    """One file a setting: ``trace.json``, ``trace-1.json`` …."""
    if request.trace is None or index == 0:
        return request.trace
    path = Path(request.trace)
    return str(path.with_name(f"{path.stem}-{index}{path.suffix}"))


def job(request: Request, setting: Setting, kind: str) -> dict[str, Any]:
    """What a worker needs to know, and the environment it will be given."""
    inherited = inherited_math_mode(os.environ)
    # Whether torch has oneDNN is not known here; without it the variable has no effect.
    bf16_method = resolve_bf16_method(
        setting, architecture=platform.machine(), has_onednn=True, inherited_mode=inherited
    )
    wanted = {MATH_MODE_VARIABLE: "BF16"} if bf16_method == "fastmath" else {}
    inherited_variables, changes = worker_environment(os.environ, wanted)
    threads = setting.threads or limits.usable_threads().count
    variables = {
        **inherited_variables,
        # Read when the OpenMP and BLAS libraries load, before torch can say anything.
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])),
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
            "removed": changes.removed,
            "applied": changes.applied,
            "bf16_method": requested_bf16_method(setting, inherited),
        },
    }
