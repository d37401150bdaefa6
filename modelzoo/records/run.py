"""What is stored: one run, and the result of one call of the suite."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any

import msgspec

from modelzoo import __version__
from modelzoo.errors import KINDS
from modelzoo.frozen import Argument, Message, Public, replace
from modelzoo.records.fleet import ShardingReport
from modelzoo.records.machine import Natural
from modelzoo.records.race import Throughput, Tuning
from modelzoo.records.run_report import EnvironmentChanges as EnvironmentChanges
from modelzoo.records.run_report import Observed as Observed
from modelzoo.records.run_report import Prepared as Prepared
from modelzoo.records.run_report import Provenance as Provenance
from modelzoo.records.run_report import RunReport as RunReport
from modelzoo.records.run_report import SideReport as SideReport
from modelzoo.records.run_report import Turn as Turn
from modelzoo.records.serving import Load
from modelzoo.records.timing import Design, StopReason
from modelzoo.records.validity import Validity, ValidityVerdict
from modelzoo.setting import METHODS, Setting, labels

FORMAT_VERSION = (4, 1)
"""Major and minor. A newer minor version only adds fields; another major version cannot be read."""
FORMAT = f"modelzoo-result/{FORMAT_VERSION[0]}" + (f".{FORMAT_VERSION[1]}" if FORMAT_VERSION[1] else "")
THUMBNAILS = 8
"""Images per judgement that are stored as thumbnails …"""
THUMBNAIL_BYTES = 20_000
"""… and the size of each at most."""


def now() -> str:
    """The time in UTC as ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def moment(iso: str | None) -> float | None:
    """Seconds since the Unix epoch, in UTC unless it says otherwise; ``None`` if a stored text is not a time."""
    try:
        found = datetime.fromisoformat(iso or "")
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


class Run(msgspec.Struct, frozen=True):
    """One process that measured one workload under one setting.

    Attributes:
        workload: the workload's name.
        group: index in ``Result.requested`` of what was asked for.
        requested: the setting as asked for.
        round: number of the round, from 0; the processes of a round sample in alternating turns.
        started: when its process was started; UTC, ISO 8601.
        ended: when it ended.
        report: what was measured; ``None`` if the run failed.
        error: why it failed, in one line.
        error_kind: class of the error in ``modelzoo.errors``.
    """

    workload: Public
    group: Natural
    requested: Setting
    round: Natural
    started: Public
    ended: Public | None = None
    report: RunReport | None = None
    error: Message | None = None
    error_kind: Annotated[Public | None, msgspec.Meta(extra_json_schema={"enum": [*KINDS, None]})] = None

    @property
    def steady(self) -> tuple[float, ...]:
        """Seconds of the steady samples; empty if the run failed or nothing was timed."""
        return self.report.timing.steady if self.report is not None and self.report.timing is not None else ()


class SettingRequest(msgspec.Struct, frozen=True):
    """One workload under one setting, as asked for.

    Attributes:
        workload: the workload's name.
        setting: ``None`` stands for what the suite was to decide.
    """

    workload: Public
    setting: Setting


class ValidityReport(msgspec.Struct, frozen=True):
    """What a worker reports of a judgement.

    Attributes:
        validity: the judgement itself.
        prepared: the setting under test as resolved, and the weights of both models.
        tested: the model under test.
        reference: the fp32 model that it was compared with.
        provenance: what it ran with, and on what; ``None`` if that was not recorded.
    """

    validity: Validity
    prepared: Prepared
    tested: SideReport
    reference: SideReport | None = None
    provenance: Provenance | None = None


class Thumbnail(msgspec.Struct, frozen=True):
    """A small copy of a written image, so that a report can show it anywhere.

    Attributes:
        name: name of the image's file.
        jpeg: a JPEG file (base64 in JSON).
    """

    name: str
    jpeg: bytes


class ValidityEntry(msgspec.Struct, frozen=True):
    """One setting's judgement, or the reason why there is none.

    Attributes:
        workload: the workload's name.
        group: index in ``Result.requested`` of what was asked for.
        requested: the setting as asked for.
        exit_code: 0 valid, 1 not valid, 2 could not be judged.
        report: the judgement; ``None`` if there is none.
        error: why there is none, in one line.
        started: when its process was started; UTC, ISO 8601.
        ended: when it ended.
        files: paths of the images and tables that were written.
        thumbnails: of the first images, at most 8.
    """

    workload: Public
    group: Natural
    requested: Setting
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=2)]
    report: ValidityReport | None = None
    error: Message | None = None
    started: Public | None = None
    ended: Public | None = None
    files: tuple[str, ...] = ()
    thumbnails: Annotated[tuple[Thumbnail, ...], msgspec.Meta(max_length=THUMBNAILS)] = ()

    @property
    def verdict(self) -> ValidityVerdict:
        return self.report.validity.verdict if self.report is not None else ValidityVerdict.CANNOT_JUDGE


class Latency(msgspec.Struct, frozen=True, tag="latency"):
    """How latencies were measured; empty if only predictions were judged.

    Attributes:
        designs: how the rounds of each workload were planned, by the order of the workloads.
    """

    designs: tuple[Design, ...] = ()

    def plus(self, design: Design) -> Latency:
        """Return a copy with ``design`` in place of an earlier one of its workload."""
        kept = [each for each in self.designs if each.workload != design.workload]
        return replace(self, designs=(*kept, design))


Payload = Latency | Tuning | Throughput | Load
"""What only one kind of call measures."""


class Result(msgspec.Struct, frozen=True):
    """Everything that one call of the suite measured and judged, with the call itself.

    Attributes:
        command: the command line.
        created: when the call began; UTC, ISO 8601.
        requested: all that was asked for, the baseline of each workload first.
        runs: in the order in which they ended.
        validity: in the order in which they were judged.
        version: version of the suite.
        payload: what the call measured beside its runs, by the kind of the call: latencies, a search (``modelzoo
            tune``), what many instances achieved together (``modelzoo throughput``), or what was measured under load
            (``modelzoo load``). The runs of the last two tell what the instances were, without timing.
        sharding: of each judgement by several hosts, how the data set was divided among them.
        commit: the suite's git commit if it ran from a checkout, with ``+`` if files had been changed.
        format: name and version of the format.
        name: what ``--label`` calls the result, for comparisons; empty if it has no name.
    """

    command: tuple[Argument, ...]
    created: Public
    requested: tuple[SettingRequest, ...] = ()
    runs: tuple[Run, ...] = ()
    validity: tuple[ValidityEntry, ...] = ()
    payload: Payload = Latency()
    sharding: tuple[ShardingReport, ...] = ()
    version: Public = __version__
    commit: Public | None = None
    format: Annotated[Public, msgspec.Meta(extra_json_schema={"const": FORMAT})] = FORMAT
    name: str = ""

    def plus(self, entry: Run | ValidityEntry | ShardingReport) -> Result:
        """Return a copy with ``entry`` appended to what it has of this kind."""
        name = {Run: "runs", ValidityEntry: "validity"}.get(type(entry), "sharding")
        grown: dict[str, Any] = {name: (*getattr(self, name), entry)}
        return replace(self, **grown)

    @property
    def latency(self) -> Latency:
        """The plans of the rounds; none if latencies are not what the call measured."""
        return self.payload if isinstance(self.payload, Latency) else Latency()

    def design(self, workload: str) -> Design | None:
        """How the rounds of ``workload`` were planned; ``None`` if that was not recorded."""
        return next((each for each in self.latency.designs if each.workload == workload), None)

    def is_precise(self, workload: str) -> bool:
        """Whether sampling ended because the intervals of ``workload`` were narrow enough."""
        design = self.design(workload)
        return design is not None and design.stop_reason is StopReason.PRECISE

    def label(self, group: int) -> str:
        """The label that tells a group from the other settings of its workload."""
        workload = self.requested[group].workload
        same = [index for index, requested in enumerate(self.requested) if requested.workload == workload]
        return labels([self.requested[index].setting for index in same])[same.index(group)]

    def labels_as_run(self) -> list[str]:
        """The label of each group, with the bf16 method or the recipe that its first finished run resolved."""
        resolved = [entry.setting for entry in self.requested]
        for run in reversed(self.runs):
            if run.report is not None:
                chosen = {field: getattr(run.report.setting, field) for field in METHODS.values()}
                resolved[run.group] = resolved[run.group].replace(**chosen)
        found = [""] * len(resolved)
        for workload in {entry.workload for entry in self.requested}:
            groups = [group for group, entry in enumerate(self.requested) if entry.workload == workload]
            for group, label in zip(groups, labels([resolved[group] for group in groups])):
                found[group] = label
        return found

    def groups(self) -> dict[int, list[Run]]:
        """Runs by group, in the order asked for, each group in the order of its rounds; empty groups are left out."""
        found: dict[int, list[Run]] = {index: [] for index in range(len(self.requested))}
        for run in sorted(self.runs, key=lambda run: run.round):
            found.setdefault(run.group, []).append(run)
        return {group: runs for group, runs in found.items() if runs}

    def only_error(self) -> Run | None:
        """A failed run, if there are runs and all of them failed for one and the same reason."""
        errors = {run.error for run in self.runs}
        return self.runs[0] if len(errors) == 1 and None not in errors else None

    def judged(self) -> dict[int, ValidityEntry]:
        """The judgements by group."""
        return {entry.group: entry for entry in self.validity}
