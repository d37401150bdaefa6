"""A data set that a worker divides into shards, judges shard by shard, and concludes: the parent's side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType

from modelzoo.errors import WorkerError
from modelzoo.measure.jobs import OnEvent, Request, prepare, required, start_worker
from modelzoo.measure.process import Remote
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import Shard, ShardPlan, ShardResult
from modelzoo.records.run import Prepared
from modelzoo.records.validity import Validity, ValidityRequest

OnExhibit = Callable[[Exhibit], None]


@dataclass(frozen=True)
class Shards:
    """The data set of one setting, which a worker has divided and judges shard by shard.

    Attributes:
        prepared: the setting as resolved, and its weights.
        plan: how the data set is divided.
        worker: judges them.
    """

    prepared: Prepared
    plan: ShardPlan
    worker: Remote

    def judge(self, shard: Shard) -> ShardResult:
        """Judge one shard.

        Raises:
            ModelzooError: it could not be judged, or the worker died.
        """
        found = self.worker.call("compare", shard, result=ShardResult)
        if found.shard != shard:
            raise WorkerError(f"the worker answered for another shard than number {shard.number}")
        return found

    def content(self, shard: Shard) -> str:
        """Return the SHA-256 of the files of the items of ``shard``, see ``ShardResult.content``."""
        return self.worker.call("content", shard, result=str)

    def conclude(self, results: Iterable[ShardResult]) -> Validity:
        """Merge the results of all shards, whoever judged them, and judge the whole.

        Args:
            results: in the order of the items.
        """
        for each in results:
            self.worker.call("merge", each, result=NoneType)
        return self.worker.call("conclude", result=Validity)


@contextmanager
def divided(
    request: Request,
    validity: ValidityRequest,
    shard_items: int | None,
    on_event: OnEvent,
    on_exhibit: OnExhibit,
) -> Iterator[Shards]:
    """Resolve the only setting of ``request``, and have a worker divide the data set; it ends with the block.

    Args:
        shard_items: items per shard; ``None``: a hundredth of the data set.

    Raises:
        ModelzooError: the setting cannot run, or its predictions cannot be judged.
    """
    (preparation,) = prepare(request, on_event)
    with start_worker(request, 0, preparation, on_event, validity=validity, on_exhibit=on_exhibit) as worker:
        yield Shards(required(preparation), worker.call("divide", shard_items, result=ShardPlan), worker)
