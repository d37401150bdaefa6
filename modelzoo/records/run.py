"""What is stored: one run, and the result of one call of the suite."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Optional

from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.ceilings import Ceilings
from modelzoo.records.evidence import Evidence
from modelzoo.records.libraries import Libraries
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.roofline import Bound
from modelzoo.records.timing import Timing
from modelzoo.records.validity import Validity
from modelzoo.records.workload import Count, Weights
from modelzoo.setting import Plan, ResolvedSetting, Setting, labels
from modelzoo.version import __version__
from modelzoo.warning import WarningMessage

FORMAT = "modelzoo-result/2"
THUMBNAILS = 8
"""Pictures per judgement that are stored as thumbnails …"""
THUMBNAIL_BYTES = 20_000
"""… and the size of each at most."""


def now() -> str:
    """The time in UTC as ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class EnvironmentChanges:
    """What was done to a worker's environment variables: names with the values removed and the values set."""

    removed: dict[str, str] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """One stretch of sampling: seconds since the worker began to sample, at its start and at its end."""

    start: float
    end: float


@dataclass(frozen=True)
class RunReport:
    """What a worker reports of the setting that it ran. Times in seconds, memory in bytes.

    Attributes:
        workload, title, unit: the workload's name, what it is, and what its throughput counts.
        digest: SHA-256 of the workload's file; together with ``weights`` and ``inputs_digest`` it says what ran.
        setting: as resolved: every value is filled in.
        items: what each item of the batch is.
        inputs_digest: SHA-256 of the input tensors.
        timing: ``None`` under an emulator, where nothing is timed.
        canary: the operators' errors against fp64; ``canary_verdict`` says in a word what they show.
        switches: process-wide switches that were set, by name.
        counts: numbers that the model's work depends on.
        peak_memory: of this process.
        cpus: the logical CPUs that the process could run on.
        usage: what else used the CPUs meanwhile.
        evidence: which kernels ran in which precision; ``evidence_problem`` says why there is none.
        flops: the operations of one pass; ``flops_problem`` says why there are none.
        bound: how near the run came to this machine's ``ceilings``, which are stored with it.
        turns: when this process sampled.
    """

    workload: str
    title: str
    unit: str
    setting: ResolvedSetting
    plan: Plan
    weights: Weights
    items: tuple[str, ...]
    timing: Optional[Timing]
    import_seconds: float
    build_seconds: float
    compile_seconds: Optional[float]
    canary: Optional[Canary]
    canary_verdict: Optional[CanaryVerdict]
    switches: tuple[str, ...]
    environment: EnvironmentChanges
    counts: tuple[Count, ...]
    peak_memory: int
    machine: Machine
    libraries: Optional[Libraries]
    usage: Optional[CpuUsage]
    warnings: tuple[WarningMessage, ...]
    evidence: Optional[Evidence] = None
    evidence_problem: Optional[str] = None
    flops: Optional[Flops] = None
    flops_problem: Optional[str] = None
    bound: Optional[Bound] = None
    ceilings: Optional[Ceilings] = None
    profile: Optional[Profile] = None
    profile_problem: Optional[str] = None
    engine: str = "torch"
    versions: dict[str, str] = field(default_factory=dict)
    digest: Optional[str] = None
    inputs_digest: Optional[str] = None
    cpus: Optional[tuple[int, ...]] = None
    turns: Optional[tuple[Turn, ...]] = None


@dataclass(frozen=True)
class Run:
    """One process that measured one workload under one setting.

    ``group`` is the index in ``Result.asked`` of what was asked for. ``report`` is ``None`` if the run failed;
    ``error`` is then the reason, in one line, and ``error_kind`` its class in ``modelzoo.errors``.
    """

    workload: str
    group: int
    asked: Setting
    round: int
    started: str
    ended: Optional[str] = None
    report: Optional[RunReport] = None
    error: Optional[str] = None
    error_kind: Optional[str] = None

    @property
    def steady(self) -> tuple[float, ...]:
        """Seconds of the steady samples; empty if the run failed or nothing was timed."""
        return self.report.timing.steady if self.report is not None and self.report.timing is not None else ()


@dataclass(frozen=True)
class Asked:
    """One workload under one setting, as asked for."""

    workload: str
    setting: Setting


@dataclass(frozen=True)
class SideReport:
    """One of the two models of a judgement: how it ran, and what proves its precision.

    ``evidence_problem`` says why there is no evidence.
    """

    setting: Optional[ResolvedSetting] = None
    canary_verdict: Optional[CanaryVerdict] = None
    canary_summary: str = ""
    canary: Optional[Canary] = None
    evidence: Optional[Evidence] = None
    evidence_problem: Optional[str] = None


@dataclass(frozen=True)
class ValidityReport:
    """What a worker reports of a judgement.

    Attributes:
        validity: the judgement itself.
        setting: the setting under test, as resolved.
        tested: the model under test.
        reference: the fp32 model that it was compared with.
        digest: SHA-256 of the workload's file.
    """

    validity: Validity
    setting: ResolvedSetting
    weights: Weights
    tested: SideReport
    reference: Optional[SideReport] = None
    engine: str = "torch"
    versions: dict[str, str] = field(default_factory=dict)
    digest: Optional[str] = None
    machine: Optional[Machine] = None
    libraries: Optional[Libraries] = None
    cpus: Optional[tuple[int, ...]] = None


@dataclass(frozen=True)
class Thumbnail:
    """A small copy of a written picture, as JPEG (base64 in JSON), so that a report can show it anywhere."""

    name: str
    jpeg: bytes


@dataclass(frozen=True)
class ValidityEntry:
    """One setting's judgement, or the reason why there is none.

    Attributes:
        group: index in ``Result.asked``.
        exit_code: 0 valid, 1 not valid, 2 could not be judged.
        files: what was written.
        thumbnails: of the first pictures written, at most ``THUMBNAILS``.
    """

    workload: str
    group: int
    asked: Setting
    exit_code: int
    report: Optional[ValidityReport] = None
    error: Optional[str] = None
    started: Optional[str] = None
    ended: Optional[str] = None
    files: tuple[str, ...] = ()
    thumbnails: tuple[Thumbnail, ...] = ()


@dataclass(frozen=True)
class Result:
    """Everything that one call of the suite measured and judged, with the call itself.

    ``asked`` lists all that was asked for, the baseline of each workload first; runs come in the order in which they
    ended. ``commit`` is the suite's git commit if it ran from a checkout.
    """

    command: tuple[str, ...]
    created: str
    asked: tuple[Asked, ...] = ()
    runs: tuple[Run, ...] = ()
    validity: tuple[ValidityEntry, ...] = ()
    version: str = __version__
    commit: Optional[str] = None
    format: str = FORMAT

    def plus(self, run: Run) -> Result:
        """Return a copy with ``run`` appended."""
        return replace(self, runs=(*self.runs, run))

    def plus_validity(self, entry: ValidityEntry) -> Result:
        """Return a copy with ``entry`` appended."""
        return replace(self, validity=(*self.validity, entry))

    def label(self, group: int) -> str:
        """The label that tells a group from the other settings of its workload."""
        workload = self.asked[group].workload
        same = [index for index, asked in enumerate(self.asked) if asked.workload == workload]
        return labels([self.asked[index].setting for index in same])[same.index(group)]

    def groups(self) -> dict[int, list[Run]]:
        """Runs by group, in the order asked for, each group in the order of its rounds; empty groups are left out."""
        found: dict[int, list[Run]] = {index: [] for index in range(len(self.asked))}
        for run in sorted(self.runs, key=lambda run: run.round):
            found.setdefault(run.group, []).append(run)
        return {group: runs for group, runs in found.items() if runs}

    def only_error(self) -> Optional[Run]:
        """A failed run, if there are runs and all of them failed for one and the same reason."""
        errors = {run.error for run in self.runs}
        return self.runs[0] if len(errors) == 1 and None not in errors else None

    def judged(self) -> dict[int, ValidityEntry]:
        """The judgements by group."""
        return {entry.group: entry for entry in self.validity}
