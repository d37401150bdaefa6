"""Judge one setting's predictions, with fp32 as the reference: the ``validate`` job, and the jobs that judge shards.

A worker that judges shards loads both models once, at its first shard; another worker merges what they gave.
``modelzoo.measure.shard_calls`` is the parent's side. A shard counts only where all that its predictions depend on is
equal.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from msgspec.structs import asdict

from modelzoo.engines import create_engine
from modelzoo.engines.protocol import Engine
from modelzoo.errors import InputError
from modelzoo.files import files_sha256
from modelzoo.formatting import DIGEST_DIGITS
from modelzoo.machine.facts import read_machine
from modelzoo.machine.linux import allowed_cpus
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.reporting import provenance
from modelzoo.records.fleet import JudgedBy, Shard, ShardResult
from modelzoo.records.machine import Machine
from modelzoo.records.protocol import (
    Assignment,
    Concluded,
    ConcludeJob,
    Exhibited,
    Judged,
    Message,
    Paused,
    Progress,
    ShardCompared,
    ShardJob,
    ShardsEnded,
    ShardsPlanned,
    ShardTurn,
    ValidateJob,
)
from modelzoo.records.run import Prepared, ValidityReport
from modelzoo.setting import value_text
from modelzoo.validity.judging import compare, conclude, merge, plan_shards, shard_content
from modelzoo.validity.predictors import Pair, bound_task, load_pair, validate
from modelzoo.validity.task import Task
from modelzoo.version import __version__
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import REPOSITORY_FILES
from modelzoo.workload.declaration import make_inputs
from modelzoo.workload.discovery import code_sha256, load_workload

LOCAL_FIELDS = ("weights", "input", "python", "image")
"""Fields of a setting that name files of a host; the weights' checksum and the versions say what they are."""
JUDGING = ("engines", "records", "validity", "workload")
"""The packages of the suite that decide what a shard holds. A checkout changes while its version stays the same."""
Send = Callable[[Message], None]


def judge(job: ValidateJob, send: Callable[[Message], None]) -> Judged:
    """Judge the setting of ``job`` in this process, and record what both models ran.

    Raises:
        ModelzooError: the setting cannot run, or its predictions cannot be judged.
    """
    own, prepared = job.assignment, job.assignment.prepared
    machine, cpus, engine, work = _opened(own)
    send(Progress("load"))
    with engine.explained_errors():
        inputs = make_inputs(work, prepared.setting, prepared.weights)
        found = validate(
            engine,
            work,
            prepared.setting,
            prepared.weights,
            inputs,
            job.request,
            export=prepared.export,
            progress=lambda judged: send(Progress("judge", judged=judged)),
            exhibit=lambda exhibit: send(Exhibited(exhibit)),
        )
    origin = provenance(own, engine, machine, cpus)
    return Judged(ValidityReport(found.validity, prepared, found.tested, found.reference, origin))


def _opened(own: Assignment) -> tuple[Machine, frozenset[int], Engine, Workload]:
    """The machine and the CPUs of this process, and the engine and the workload of ``own``, loaded and checked."""
    # Before the engine is loaded: OpenMP libraries may bind this thread to one CPU, and libraries set variables.
    machine, cpus = read_machine(), frozenset(allowed_cpus())
    engine = create_engine(own.setting.engine)
    engine.load()
    work = load_workload(Path(own.directory))
    check_resolution(engine, work, own, machine.threads.count)
    return machine, cpus, engine, work


def shard_facts(prepared: Prepared, work: Workload, engine: Engine) -> dict[str, str]:
    """What all predictions depend on, as text by name. Not the host: its processor is recorded with each shard."""
    setting, weights = prepared.setting, Path(prepared.weights.path)
    suite = Path(__file__).parent.parent
    sources = [path for name in JUDGING for path in (suite / name).rglob("*.py")]
    facts = {
        "modelzoo": __version__,
        "source code of modelzoo": files_sha256(suite, sources)[:DIGEST_DIGITS],
        "workload files": code_sha256(work.directory)[:DIGEST_DIGITS],
        "weights": f"{prepared.weights.name} ({prepared.weights.sha256[:DIGEST_DIGITS]})",
    }
    if weights.is_dir():  # the model's layout and its tokenizer
        beside = [weights / name for name in REPOSITORY_FILES if (weights / name).is_file()]
        facts["files beside the weights"] = files_sha256(weights, beside)[:DIGEST_DIGITS]
    facts.update({name: version for name, version in engine.versions().items() if name != "python"})
    for name, value in asdict(setting).items():
        if name not in (*LOCAL_FIELDS, "options"):
            facts[name.replace("_", "-")] = value_text(value)
    facts.update({f"option {name}": value_text(value) for name, value in setting.options.items()})
    return facts


def judge_shards(job: ShardJob, send: Send, turns: Iterable[ShardTurn]) -> ShardsEnded:
    """Divide the data set, then do what the parent asks for, one turn after the other.

    Raises:
        ModelzooError: the setting cannot run, or its predictions cannot be judged.
    """
    own = job.assignment
    machine, cpus, engine, work = _opened(own)
    with engine.explained_errors():
        send(Progress("plan"))
        task = _task(job, work)
        send(ShardsPlanned(plan_shards(task, shard_facts(own.prepared, work, engine), job.shard_items)))
        judging = _Judging(job, work, engine, task, machine, cpus, send)
        send(Paused())
        for turn in turns:
            send(judging.take(turn))
            send(Paused())
    return ShardsEnded()


def conclude_shards(job: ConcludeJob, send: Send, results: Iterable[ShardResult]) -> Concluded:
    """Merge the results of all shards, and judge them as one pass over all items would be judged.

    Raises:
        ModelzooError: the predictions cannot be judged.
    """
    engine = create_engine(job.assignment.setting.engine)
    engine.load()
    work = load_workload(Path(job.assignment.directory))
    with engine.explained_errors():
        task = _task(job, work)
        merged = merge([each.result for each in results])
        return Concluded(conclude(task, merged, lambda exhibit: send(Exhibited(exhibit))))


def _task(job: ShardJob | ConcludeJob, work: Workload) -> Task:
    prepared = job.assignment.prepared
    return bound_task(work, prepared.setting, prepared.weights, job.request)


@dataclass
class _Judging:
    """The models, loaded at the first shard that is judged, and what they run."""

    job: ShardJob
    work: Workload
    engine: Engine
    task: Task
    machine: Machine
    cpus: frozenset[int]
    send: Send
    pair: Optional[Pair] = None
    by: Optional[JudgedBy] = None

    def take(self, turn: ShardTurn) -> ShardCompared:
        """Judge a shard, or only look at the files of its items."""
        content = self._content(turn.shard)
        if not turn.judge:
            return ShardCompared(content)
        pair, by = self._loaded()
        began, shard = time.monotonic(), turn.shard
        result = compare(
            self.task,
            pair.reference.predictor,
            pair.tested.predictor,
            range(shard.start, shard.stop),
            progress=lambda judged: self.send(Progress("judge", judged=judged)),
            exhibit=lambda exhibit: self.send(Exhibited(exhibit)),
        )
        seconds = time.monotonic() - began
        if self._content(shard) != content:
            raise InputError(f"the data changed while shard {shard.number} was judged; run the same command again")
        return ShardCompared(content, ShardResult(shard, content, result, by, seconds))

    def _content(self, shard: Shard) -> str:
        try:
            return shard_content(self.task, shard)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be read: {error.strerror}") from error

    def _loaded(self) -> tuple[Pair, JudgedBy]:
        if self.pair is None or self.by is None:
            self.send(Progress("load"))
            own = self.job.assignment.prepared
            inputs = make_inputs(self.work, own.setting, own.weights)
            self.pair = load_pair(self.engine, self.work, own.setting, own.weights, inputs, own.export)
            origin = provenance(self.job.assignment, self.engine, self.machine, self.cpus)
            self.by = JudgedBy(uuid.uuid4().hex, socket.gethostname(), *self.pair.reports(), origin)
        return self.pair, self.by
