"""What ``--redact`` does with every string of every record that a result or a report of ``modelzoo doctor`` holds.

A field that is added to a record and can hold a string must be declared here: a test fails if one is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Callable, TypeVar

from modelzoo.frozen import field_names, replace
from modelzoo.records import (
    accelerator,
    canary,
    coverage,
    doctor,
    evidence,
    exhibits,
    faults,
    hosts,
    libraries,
    load,
    machine,
    partial,
    profile,
    run,
    run_report,
    throughput,
    timing,
    tuning,
    validity,
    workload,
)
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage

T = TypeVar("T")


class Privacy(Enum):
    """What happens to a string. Keys of maps stay.

    SHOWN: it stays as it is: what was measured, with which software, on which hardware.
    TEXT: it stays, without the private names, paths and values of variables in it.
    WORD: part of a command line; it stays if it is an option, a number or a word of the suite.
    OWN_DATA: a name or a quotation from the user's data; that of the built-in data sets stays.
    The others are replaced as a whole, by PATH-1, IMAGE-1 …, or by ``(hidden)``.
    """

    SHOWN = "shown"
    TEXT = "text"
    WORD = "word"
    OWN_DATA = "ITEM"
    PATH = "PATH"
    IMAGE = "IMAGE"
    HOST = "HOST"
    NAME = "NAME"
    VALUE = "(hidden)"


_SHOWN, _TEXT, _WORD, _OWN, _PATH = Privacy.SHOWN, Privacy.TEXT, Privacy.WORD, Privacy.OWN_DATA, Privacy.PATH
_SETTING = {
    "precision bf16_method recipe engine mode backend device linear malloc thp": _SHOWN,
    "weights options": _WORD,
    "input python": _PATH,
    "image": Privacy.IMAGE,
}
_DECLARED: dict[type, dict[str, Privacy]] = {
    run.Result: {"created version commit format": _SHOWN, "command": _WORD, "name": Privacy.NAME},
    run.SettingRequest: {"workload": _SHOWN},
    Setting: _SETTING,
    ResolvedSetting: _SETTING,
    run.Run: {"workload started ended error_kind": _SHOWN, "error": _TEXT},
    run.ValidityEntry: {"workload started ended": _SHOWN, "error": _TEXT, "files": _PATH},
    run.Thumbnail: {"name": _PATH},
    run_report.RunReport: {
        "workload unit switches inputs_digest calibration_digest": _SHOWN,
        "title": _TEXT,
        "items": Privacy.VALUE,
    },
    run_report.ChangedSwitch: {"name asked found": _SHOWN},
    run_report.Provenance: {"engine digest fingerprint": _SHOWN, "versions": _TEXT},
    run_report.GenerationPhase: {"name": _SHOWN, "evidence_problem": _TEXT},
    run_report.EnvironmentChanges: {"removed applied": Privacy.VALUE},
    run_report.Observed: {
        "canary_problem evidence_problem flops_problem profile_problem agreement_problem": _TEXT,
    },
    workload.Weights: {"name path": _PATH, "sha256": _SHOWN, "problem": _TEXT},
    workload.Export: {"path batch": _PATH, "state_sha256 sha256 converted": _SHOWN, "parts": _TEXT},
    workload.Conversion: {"exporter version options": _TEXT},
    workload.Count: {"name source": _TEXT},
    workload.OutputError: {"name": _SHOWN},
    machine.Machine: {
        "cpu product architecture features governor huge_pages allocator container hypervisor emulator": _SHOWN,
        "system kernel libc python cloud instance_type image_id": _SHOWN,
        "image": Privacy.IMAGE,
        "environment": Privacy.VALUE,
    },
    machine.Cache: {"name": _SHOWN},
    machine.NumaNode: {"cpus": _SHOWN},
    machine.Threads: {"cpus_allowed": _SHOWN},
    machine.Placement: {"problem policy_problem": _TEXT},
    libraries.Libraries: {"versions build_line backends": _TEXT},
    libraries.Build: {
        "compiler onednn mkl openmp capability blas lapack build_type flags settings": _TEXT,
    },
    libraries.ComputeLibrary: {"file version": _TEXT},
    libraries.Library: {"api kind version architecture threading owner": _SHOWN, "file": _TEXT},
    timing.Timing: {"watched": _SHOWN},
    timing.Series: {"name unit": _SHOWN},
    timing.PipelineStage: {"name": _SHOWN},
    timing.Design: {"workload": _SHOWN},
    canary.OperatorCheck: {"operator kernels": _SHOWN, "detail": _TEXT},
    evidence.KernelDigest: {"sha256": _SHOWN},
    evidence.KernelCalls: {"kernel precision": _SHOWN},
    evidence.Evidence: {
        "requested bf16_method reference_kernels onednn_version onednn_isa": _SHOWN,
        "blas problems unread_lines": _TEXT,
    },
    evidence.OtherPrecision: {"precisions kernels": _SHOWN},
    evidence.NotUsed: {"precision kernels library dequantized": _SHOWN},
    evidence.ClassVerdict: {"precisions": _SHOWN},
    evidence.Product: {"operator operands layers kernels logged shown precision": _SHOWN, "detail": _TEXT},
    faults.ProductCall: {"operator wanted": _SHOWN},
    faults.Argument: {"name dtype value": _SHOWN},
    coverage.TimeShare: {"name": _SHOWN},
    evidence.OperatorUse: {"operator implementation precision": _SHOWN},
    coverage.Coverage: {"uncounted unexplained": _SHOWN},
    profile.Flops: {"by_operator missing": _SHOWN},
    profile.Profile: {"problems": _TEXT},
    profile.OperatorRow: {"name kernel precision": _SHOWN},
    profile.LayerRow: {"path kind": _SHOWN},
    profile.Ceilings: {"fingerprint torch device": _SHOWN},
    profile.Gemm: {"precision operator": _SHOWN},
    profile.UnavailableProduct: {"precision operator": _SHOWN, "reason": _TEXT},
    profile.Bound: {"precision": _SHOWN},
    accelerator.AcceleratorUse: {"sensors": _SHOWN, "problems": _TEXT},
    accelerator.Accelerator: {"kind name capability driver runtime interface": _SHOWN, "lacks": _TEXT},
    accelerator.Reading: {"throttled": _SHOWN},
    WarningMessage: {"code": _SHOWN, "message hint values": _TEXT},
    validity.Validity: {
        "workload task metric item cluster counts figures": _SHOWN,
        "reference_name tested_name": _TEXT,
    },
    validity.Check: {"name": _SHOWN},
    validity.DataNote: {"names": _OWN},
    validity.WorstLayer: {"name": _SHOWN},
    partial.Unrepeatable: {"layer": _SHOWN},
    validity.ClassChange: {"name": _SHOWN},
    validity.MetricChange: {"metric": _SHOWN},
    validity.Table: {"title note": _TEXT},
    validity.TableColumn: {"title cells": _TEXT},
    exhibits.ShownClasses: {"names": _SHOWN},
    exhibits.PictureObjects: {"name": _OWN},
    partial.ChangedObject: {"picture": _OWN, "label": _SHOWN},
    exhibits.CategoryLosses: {"shape": _SHOWN},
    exhibits.CategoryAp: {"name": _SHOWN},
    exhibits.PassageScores: {"name": _SHOWN},
    partial.ClassifiedPicture: {"name": _OWN},
    partial.AnsweredQuestion: {"id question expected": _OWN},
    partial.ScoredAnswer: {"text": _OWN},
    partial.LayerError: {"name kind": _SHOWN},
    tuning.Tuning: {"workload": _SHOWN, "varied": _WORD},
    tuning.LeftOut: {"field": _SHOWN, "value": _WORD, "problem": _TEXT},
    throughput.Throughput: {"workload unit": _SHOWN},
    throughput.ConfigurationRun: {"started ended": _SHOWN},
    throughput.InstanceRun: {"kernels error_kind": _SHOWN, "error": _TEXT},
    throughput.CannotRun: {"problem": _TEXT},
    throughput.MachinePrice: {"currency date": _SHOWN, "source": _PATH},
    load.Load: {"workload unit": _SHOWN},
    load.LoadSession: {"started": _SHOWN},
    load.LoadRun: {"started": _SHOWN},
    load.InstanceUse: {"error": _TEXT},
    hosts.ShardingReport: {"item_name processors": _SHOWN},
    hosts.FleetHost: {"host": Privacy.HOST, "problem": _TEXT, "result": _PATH},
    hosts.PrecisionDifference: {"check verdict first_verdict": _SHOWN, "host first_host": Privacy.HOST},
    doctor.DoctorReport: {"schema": _SHOWN},
}
FIELDS: dict[type, dict[str, Privacy]] = {
    kind: {name: privacy for names, privacy in fields.items() for name in names.split()}
    for kind, fields in _DECLARED.items()
}
"""Every field that can hold strings, by its record."""


def mapped(record: T, treat: Callable[[Privacy, str], str], finish: Callable[[Any, Any], Any]) -> T:
    """Return a copy of ``record`` with every string in it replaced.

    Args:
        record: a result, or any record of one.
        treat: returns what takes the place of a string.
        finish: is called with each record and its copy, and returns what takes the place of the latter.
    """
    found: T = _Mapping(treat, finish).record(record)
    return found


class _Mapping:
    def __init__(self, treat: Callable[[Privacy, str], str], finish: Callable[[Any, Any], Any]) -> None:
        self._treat, self._finish, self._is_built_in = treat, finish, False

    def record(self, record: Any) -> Any:
        if isinstance(record, validity.Validity):
            self._is_built_in = record.small
        declared = FIELDS.get(type(record), {})
        changes = {
            name: self._value(value, self._privacy(record, name, declared.get(name)))
            for name in field_names(record)
            if (value := getattr(record, name)) is not None
        }
        return self._finish(record, replace(record, **changes))

    def _privacy(self, record: Any, name: str, declared: Any) -> Any:
        """As declared, except what is published: a checkpoint's name, and the built-in data sets."""
        if declared is Privacy.OWN_DATA and self._is_built_in:
            return Privacy.SHOWN
        is_published = isinstance(record, workload.Weights) and record.kind is not workload.WeightsKind.PATH
        return Privacy.SHOWN if is_published and name == "name" else declared

    def _value(self, value: Any, privacy: Any) -> Any:
        if isinstance(value, (bool, int, float, bytes, Enum)) or value is None:
            return value
        if isinstance(value, str):
            if privacy is None:
                raise LookupError(f"no privacy is declared for a field that holds {value[:20]!r}")
            return value if privacy is Privacy.SHOWN else self._treat(privacy, value)
        if isinstance(value, dict):
            return {key: self._value(each, privacy) for key, each in value.items()}
        if isinstance(value, tuple):
            # Samples are numbers; there may be millions.
            is_numbers = value and isinstance(value[0], (float, int)) and not isinstance(value[0], Enum)
            return value if is_numbers else tuple(self._value(each, privacy) for each in value)
        return self.record(value)


def strings(record: Any) -> Iterable[tuple[Privacy, str]]:
    """Every string in ``record`` that is not simply shown, with its declaration."""
    found: dict[tuple[Privacy, str], None] = {}

    def note(privacy: Privacy, text: str) -> str:
        found[privacy, text] = None
        return text

    mapped(record, note, lambda _, copy: copy)
    return list(found)
