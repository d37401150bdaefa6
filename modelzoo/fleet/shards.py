"""Shards of a data set on this disk: opened for judging, stored one by one, and merged into one judgement."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from modelzoo.errors import InputError, UsageError
from modelzoo.files import write_atomically
from modelzoo.frozen import replace
from modelzoo.measure.jobs import OnEvent, OnExhibit, Request, Shards, divided
from modelzoo.plan import Plan
from modelzoo.records.codec import encode_json
from modelzoo.records.fleet import (
    FleetHost,
    JudgedBy,
    JudgedPart,
    PrecisionDifference,
    Shard,
    ShardedCall,
    ShardingReport,
    ShardPlan,
    ShardResult,
)
from modelzoo.records.run import SideReport, ValidityReport
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import find_workload, load_workload, workloads_directory


def sharded_call(
    work: Workload, setting: Setting, request: ValidityRequest, items: int | None = None, timeout: float | None = None
) -> ShardedCall:
    """Return what is to be judged as any process says it, wherever that is: paths are absolute."""
    comes_along = work.directory.parent == workloads_directory().resolve()
    paths = {name: value for name in ("weights", "input", "python") if (value := getattr(setting, name)) is not None}
    absolute = {name: str(Path(value).absolute()) for name, value in paths.items() if Path(value).exists()}
    workload = work.directory.name if comes_along else work.place
    return ShardedCall(workload, setting.replace(**absolute), request, items, timeout)


def open_shards(
    call: ShardedCall, on_exhibit: OnExhibit, on_event: OnEvent = lambda event: None
) -> AbstractContextManager[Shards]:
    """Return what judges ``call``; entering it divides the data set.

    Raises:
        UsageError: there is no such workload.
    """
    request = Request(load_workload(find_workload(call.workload)), (call.setting,), Plan(), timeout=call.timeout)
    return divided(request, call.request, call.shard_items, on_event, on_exhibit)


def facts_differ(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Say which facts two plans do not share: ``torch: 2.10.0 instead of 2.9.1``."""
    names = list(dict.fromkeys((*here, *there)))
    return [
        f"{name}: {there.get(name, 'none') or 'none'} instead of {here.get(name, 'none') or 'none'}"
        for name in names
        if here.get(name) != there.get(name)
    ]


class ShardFiles:
    """Finished shards in one directory. Files of other data sets and settings do no harm.

    Raises:
        UsageError: the directory cannot be created or written to.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {directory}: {error.strerror}; name another --shards-dir DIR") from error
        if not os.access(directory, os.W_OK | os.X_OK):  # or the first finished shard would show it
            raise UsageError(f"cannot write to {directory}: no permission; name another --shards-dir DIR")

    def write(self, result: ShardResult) -> None:
        """Store a finished shard.

        Raises:
            UsageError: it cannot be written.
        """
        path = self._path(result.shard)
        try:
            write_atomically(path, encode_json(result) + b"\n")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}; name another --shards-dir DIR") from error

    def read(self, shard: Shard) -> ShardResult | None:
        """Return the stored result of ``shard``; ``None`` if there is none, or none that can be read."""
        try:
            found = msgspec.json.decode(self._path(shard).read_bytes(), type=ShardResult)
        except (OSError, msgspec.MsgspecError):  # a damaged file costs its shard, which is judged again
            return None
        # A plan with other shards in front of it gives it another number.
        return found if found.shard == shard else None

    def missing(self, shards: Shards) -> list[Shard]:
        """The shards that are to be judged: those without a file, and those whose items have other files now."""
        stored = [(shard, self.read(shard)) for shard in shards.plan.shards]
        return [
            shard
            for shard, found in stored
            if found is None or (found.content and found.content != shards.content(shard))
        ]

    def results(self, plan: ShardPlan) -> Iterator[ShardResult]:
        """Yield every shard of ``plan``, in order.

        Raises:
            InputError: one has been removed.
        """
        for shard in plan.shards:
            found = self.read(shard)
            if found is None:
                raise InputError(f"a finished shard was removed from {self.directory}; run the same command again")
            yield found

    def _path(self, shard: Shard) -> Path:
        return self.directory / f"{shard.identity[:32]}.json"


def part_of(plan: ShardPlan, number: int, count: int) -> Sequence[Shard]:
    """Return part ``number`` of ``count``, from 1: whole shards, as many in each part as can be.

    Raises:
        UsageError: there are fewer shards than parts.
    """
    total = len(plan.shards)
    if count > total:
        raise UsageError(
            f"--shard {number}/{count}: the data set divides into {total} shards at most, of whole batches; divide it "
            f"into {total} or fewer"
        )
    return plan.shards[(number - 1) * total // count : number * total // count]


def read_part(path: Path) -> JudgedPart:
    """Read a file of ``modelzoo validate --shard``.

    Raises:
        InputError: it cannot be read, or is another file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=JudgedPart)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InputError(f"{path} is no file of 'modelzoo validate --shard': {error}") from error


def whole(plan: ShardPlan, call: ShardedCall, parts: Mapping[Path, JudgedPart]) -> list[ShardResult]:
    """Return every shard of ``plan`` from the parts, in order.

    Raises:
        InputError: a part was judged otherwise than this machine would, or with other thresholds; one is missing.
    """
    for path, part in parts.items():
        differences = facts_differ(plan.facts, part.facts)
        if replace(part.call.request, data=call.request.data) != call.request:
            differences.append("other thresholds or --explain")
        if differences:
            raise InputError(f"{path} was judged otherwise than here ({'; '.join(differences[:3])})")
    found = {result.shard: result for part in parts.values() for result in part.results}
    missing = [shard for shard in plan.shards if shard not in found]
    if missing:
        count = next(iter(parts.values())).count
        absent = sorted(set(range(1, count + 1)) - {part.number for part in parts.values()})
        named = f": --shard {', '.join(f'{number}/{count}' for number in absent)}" if absent else ""
        raise InputError(f"{len(missing)} of {len(plan.shards)} shards are missing{named}; judge them, and merge all")
    return [found[shard] for shard in plan.shards]


def conclude(
    shards: Shards, group: int, results: Iterable[ShardResult], reused: int = 0
) -> tuple[ValidityReport, ShardingReport]:
    """Judge the results of all shards as one pass over all items would be judged, and say who judged what.

    The proof is that of the process that judged the first shard.

    Args:
        shards: opened on this host, which has the data set as well.
        group: index of what was asked for.
        results: in the order of the items.
        reused: number of those that an earlier call has left.
    """
    judges: dict[str, JudgedBy] = {}
    hosts: dict[str, FleetHost] = {}

    def noted() -> Iterator[ShardResult]:
        for each in results:
            judges.setdefault(each.by.session, each.by)
            host = hosts.get(each.by.host, FleetHost(each.by.host))
            items, seconds = host.items + each.shard.items, host.seconds + each.seconds
            hosts[host.host] = replace(host, items=items, seconds=seconds)
            yield each

    validity = shards.conclude(noted())
    by, plan = list(judges.values()), shards.plan
    report = ShardingReport(
        group,
        plan.item_name,
        plan.items,
        len(plan.shards),
        reused,
        hosts=tuple(hosts.values()),
        processors=tuple(sorted({each.provenance.machine.cpu for each in by})),
        otherwise=tuple(proven_otherwise(by)),
    )
    return ValidityReport(validity, shards.prepared, by[0].tested, by[0].reference, by[0].provenance), report


def proven_otherwise(judges: Sequence[JudgedBy]) -> Iterator[PrecisionDifference]:
    """Whose models ran in another precision than those of the first: one metric would cover both."""
    first = judges[0]
    for each in judges[1:]:
        for of_reference, there, here in ((False, first.tested, each.tested), (True, first.reference, each.reference)):
            for check in ("canary", "audit"):
                wanted, found = _verdict(check, there), _verdict(check, here)
                if found != wanted:
                    yield PrecisionDifference(of_reference, check, each.host, found, first.host, wanted)
                    break


def _verdict(check: str, side: SideReport) -> str | None:
    canary, evidence = side.observed.canary_verdict, side.observed.evidence
    verdict = canary if check == "canary" else evidence and evidence.verdict
    return None if verdict is None else str(verdict)
