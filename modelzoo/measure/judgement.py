"""Judge one setting's predictions, with fp32 as the reference: as a whole, or shard by shard.

A worker that judges shards loads both models once, at its first shard. ``modelzoo.measure.jobs`` is the parent's
side. A shard counts only where all that its predictions depend on is equal.
"""

from __future__ import annotations

import socket
import time
import uuid
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path

from msgspec.structs import asdict

from modelzoo import __version__
from modelzoo.engines import create_engine
from modelzoo.engines.protocol import Engine
from modelzoo.errors import InputError
from modelzoo.files import files_sha256
from modelzoo.formatting import DIGEST_DIGITS
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine
from modelzoo.machine.linux import allowed_cpus
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.reporting import provenance
from modelzoo.records.fleet import JudgedBy, Shard, ShardPlan, ShardResult
from modelzoo.records.partial import JudgedSoFar, PartialResult
from modelzoo.records.protocol import Assignment, Progress, Send
from modelzoo.records.run import Prepared, ValidityReport
from modelzoo.records.validity import Validity
from modelzoo.setting import value_text
from modelzoo.validity.judging import compare, conclude, merge, plan_shards, shard_content
from modelzoo.validity.predictors import Reports, bound_task, load_pair, validate
from modelzoo.validity.task import Predictor, Task
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import REPOSITORY_FILES
from modelzoo.workload.declaration import make_inputs
from modelzoo.workload.discovery import code_sha256, load_workload

LOCAL_FIELDS = ("weights", "input", "python", "image")
"""Fields of a setting that name files of a host; the weights' checksum and the versions say what they are."""
JUDGING = ("engines", "records", "validity", "workload", "zoo")
"""The packages of the suite that decide what a shard holds. A checkout changes while its version stays the same."""


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


class Judging:
    """Judges the predictions of the setting of ``job``.

    Args:
        job: what is judged, with ``validity``.
        send: sends progress and exhibits to the parent.

    Raises:
        ModelzooError: in any call: the setting cannot run, or its predictions cannot be judged.
    """

    active = nullcontext()

    def __init__(self, job: Assignment, send: Send) -> None:
        assert job.validity is not None
        self._job, self._request, self._send = job, job.validity, send
        # Before the engine is loaded: OpenMP libraries may bind this thread to one CPU, and libraries set variables.
        self._machine, self._cpus = read_machine(), frozenset(allowed_cpus())
        self._engine = create_engine(job.setting.engine)
        self._engine.load()
        self._work = load_workload(Path(job.directory))
        check_resolution(self._engine, self._work, job, self._machine.threads.count)
        self._merged: list[PartialResult] = []

    def _progress(self, judged: JudgedSoFar) -> None:
        self._send(Progress("judge", judged=judged))

    def judge(self) -> ValidityReport:
        """Judge all predictions, and record what both models ran."""
        self._send(Progress("load"))
        prepared = self._job.prepared
        with self._engine.explained_errors():
            inputs = make_inputs(self._work, prepared.setting, prepared.weights)
            found = validate(
                self._engine, self._work, prepared, inputs, self._request, progress=self._progress, exhibit=self._send
            )
        return replace(found, provenance=provenance(self._job, self._engine, self._machine, self._cpus))

    @cached_property
    def _task(self) -> Task:
        return bound_task(self._work, self._job.prepared, self._request)

    def divide(self, shard_items: int | None) -> ShardPlan:
        """Divide the data set into shards.

        Args:
            shard_items: items per shard; ``None``: a hundredth of the data set.
        """
        self._send(Progress("plan"))
        with self._engine.explained_errors():
            return plan_shards(self._task, shard_facts(self._job.prepared, self._work, self._engine), shard_items)

    def content(self, shard: Shard) -> str:
        """Return the SHA-256 of the files of the items of ``shard``, see ``ShardResult.content``."""
        try:
            return shard_content(self._task, shard)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be read: {error.strerror}") from error

    @cached_property
    def _pair(self) -> tuple[Predictor, Predictor, Reports]:
        """Both models, loaded at the first shard that is judged."""
        self._send(Progress("load"))
        own = self._job.prepared
        inputs = make_inputs(self._work, own.setting, own.weights)
        return load_pair(self._engine, self._work, own, inputs)

    @cached_property
    def _by(self) -> JudgedBy:
        origin = provenance(self._job, self._engine, self._machine, self._cpus)
        return JudgedBy(uuid.uuid4().hex, socket.gethostname(), *self._pair[2](False), origin)

    def compare(self, shard: Shard) -> ShardResult:
        """Judge one shard."""
        with self._engine.explained_errors():
            content, (reference, tested, _), by = self.content(shard), self._pair, self._by
            began = time.monotonic()
            result = compare(
                self._task,
                reference,
                tested,
                range(shard.start, shard.stop),
                progress=self._progress,
                exhibit=self._send,
            )
            seconds = time.monotonic() - began
            if self.content(shard) != content:
                raise InputError(f"the data changed while shard {shard.number} was judged; run the same command again")
        return ShardResult(shard, content, result, by, seconds)

    def merge(self, result: ShardResult) -> None:
        """Take the result of one shard, whoever judged it; they come in the order of the items."""
        self._merged.append(result.result)

    def conclude(self) -> Validity:
        """Judge the merged results of all shards as one pass over all items would be judged."""
        with self._engine.explained_errors():
            return conclude(self._task, merge(self._merged), self._send)
