"""Shards of a data set judged by a worker, and their results merged by another: the parent's side."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Callable, Optional

from modelzoo.errors import WorkerError
from modelzoo.measure.jobs import (
    JobEnvironment,
    OnEvent,
    Request,
    assignment,
    job_environment,
    listener,
    prepare,
    required,
)
from modelzoo.measure.launcher import Launcher
from modelzoo.measure.process import WorkerProcess
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import Shard, ShardPlan, ShardResult
from modelzoo.records.protocol import (
    Assignment,
    Concluded,
    ConcludeJob,
    Preparation,
    ShardCompared,
    ShardJob,
    ShardsEnded,
    ShardsPlanned,
    ShardTurn,
)
from modelzoo.records.run import Prepared
from modelzoo.records.validity import Validity, ValidityRequest

OnExhibit = Callable[[Exhibit], None]


class Shards:
    """The data set of one setting, which a worker divides and judges shard by shard.

    Entering the ``with`` block resolves the setting, starts the worker and reads the plan; leaving it ends the worker,
    whatever it is doing.

    Attributes:
        plan: how the data set is divided.

    Raises:
        ModelzooError: the setting cannot run, or its predictions cannot be judged.
    """

    plan: ShardPlan

    def __init__(
        self,
        request: Request,
        validity: ValidityRequest,
        shard_items: Optional[int],
        on_event: OnEvent,
        on_exhibit: OnExhibit,
    ) -> None:
        (self._setting,) = request.settings
        self._request, self._validity, self._shard_items = request, validity, shard_items
        self._on_event, self._on_exhibit = on_event, on_exhibit
        self._preparation: Optional[Preparation] = None
        self._worker: Optional[WorkerProcess] = None

    def __enter__(self) -> Shards:
        (self._preparation,) = prepare(self._request, self._on_event)
        launcher, environment = self._launcher_and_environment()
        job = ShardJob(self._assignment(environment), self._validity, self._shard_items)
        self._worker = WorkerProcess(launcher, job, environment.variables, self._listen(), self._request.timeout)
        self._worker.__enter__()
        try:
            self._worker.advance()
            self.plan = self._worker.result(ShardsPlanned).plan
        except BaseException:
            self._worker.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            self._worker.__exit__(kind, error, trace)

    @property
    def prepared(self) -> Prepared:
        """The setting as resolved, and its weights."""
        return required(self._found)

    @property
    def _found(self) -> Preparation:
        assert self._preparation is not None
        return self._preparation

    def judge(self, shard: Shard) -> ShardResult:
        """Judge one shard.

        Raises:
            ModelzooError: it could not be judged, or the worker died.
        """
        found = self._turn(ShardTurn(shard)).result
        if found is None or found.shard != shard:
            raise WorkerError(f"the worker answered for another shard than number {shard.number}")
        return found

    def content(self, shard: Shard) -> str:
        """Return the SHA-256 of the files of the items of ``shard``, see ``ShardResult.content``."""
        return self._turn(ShardTurn(shard, judge=False)).content

    def conclude(self, results: Iterable[bytes]) -> Validity:
        """Merge the results of all shards in a worker of their own, and judge them.

        Args:
            results: each a ``ShardResult`` as JSON, without line breaks.
        """
        launcher, environment = self._launcher_and_environment()
        job = ConcludeJob(self._assignment(environment), self._validity)
        with WorkerProcess(launcher, job, environment.variables, self._listen(), self._request.timeout) as worker:
            for line in results:
                worker.send(line + b"\n")
            worker.send(b"\n")
            worker.advance()
            return worker.result(Concluded).validity

    def _turn(self, turn: ShardTurn) -> ShardCompared:
        assert self._worker is not None
        self._worker.resume()
        self._worker.send(encode_json(turn) + b"\n")
        if not self._worker.advance():
            self._worker.result(ShardsEnded)  # it has not, so this raises how it ended
        return self._worker.result(ShardCompared)

    def _launcher_and_environment(self) -> tuple[Launcher, JobEnvironment]:
        launcher = self._request.launcher_of(self._setting)
        return launcher, job_environment(self._found.validation_variables, launcher.environment())

    def _assignment(self, environment: JobEnvironment) -> Assignment:
        return assignment(self._request.workload, self._setting, self._found, environment)

    def _listen(self) -> Callable[..., None]:
        return listener(self._request.workload.name, self._setting.label, 0, self._on_event, self._on_exhibit)
