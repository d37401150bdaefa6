"""How the rows of a call differ: what all of them share, a short name for each, and the conditions of each. Pure.

Conditions may distort what a call found. They are grouped by their code, with the rows they concern and the hint, the
most harmful first. Failures are conditions, too; each is said once.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TypeVar

from modelzoo.document import Notice
from modelzoo.formatting import Merged, counted, launcher_names
from modelzoo.records.machine import Machine
from modelzoo.records.run import Provenance
from modelzoo.records.workload import WeightsKind
from modelzoo.results.obstructions import effect
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import SHOWN, Setting, launchers, option_name, value_text
from modelzoo.views.proof import agreement_text
from modelzoo.warning import Severity, WarningCode, WarningMessage, rank

K = TypeVar("K")
V = TypeVar("V")
UNKNOWN = ""
"""Text of a value that was left open and never decided, because nothing ran."""
NUMBER = "#"
"""Name of the column that tells equal settings apart, as in a comparison of A with A."""
_WITHOUT_NAME = ("precision", "mode")
"""Fields whose values are clear without the field's name."""
_ALWAYS_SHARED = ("precision", "batch", "threads", "weights")
"""Fields that are named if all rows share them even if they are at their default, in this order."""
NAMED_SETTINGS = 4
"""Settings of a workload are named up to this many, then only counted."""
VERIFICATION = {
    "full": "verified",
    "partial": "partly verified",
    "none": "unverified",
}
"""How far it was shown that pretrained weights are the published ones."""
SEVERITY_WORD = {Severity.INVALIDATES: "invalid", Severity.DISTORTS: "warning", Severity.NOTE: "note"}
"""What a condition begins with."""


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the second of each pair by the first, both in their order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def by_workload(shown: Sequence[SummaryRow]) -> dict[str, list[SummaryRow]]:
    """Return the rows by workload, in their order."""
    return grouped((each.workload, each) for each in shown)


def texts(shown: Sequence[SummaryRow]) -> list[dict[str, str]]:
    """Return for each row the text of every field of its setting and of every option of its workload.

    Equal settings of a workload are numbered; otherwise there is no ``NUMBER``.
    """
    several = {precision for precision, methods in _methods(shown).items() if len(methods) > 1}
    described = []
    for each in shown:
        setting = each.setting
        words = {**_field_texts(setting), "weights": _weights(each)}
        if setting.precision in several and setting.method:
            words["precision"] += f"={setting.method}"
        words |= {name: UNKNOWN for name in ("batch", "threads") if getattr(setting, name) is None}
        for name, value in sorted(setting.options.items()):
            words.setdefault(name, value_text(value))
        described.append(words)
    for name in launchers():
        short = launcher_names([value for each in shown if (value := getattr(each.setting, name)) is not None])
        for values in described:
            values[name] = short.get(values[name], values[name])
    keys = [(each.workload, tuple(values.items())) for each, values in zip(shown, described)]
    if len(set(keys)) < len(keys):
        for index, values in enumerate(described):
            values[NUMBER] = str(1 + keys[:index].count(keys[index]))
    return described


def _field_texts(setting: Setting) -> dict[str, str]:
    words = {option_name(name): value_text(getattr(setting, name)) for name in SHOWN}
    return {**words, "input": "default" if setting.input is None else PurePath(setting.input).name}


def _weights(each: SummaryRow) -> str:
    """The kind of weights that were used, and that they may not be the published ones; the name of a path."""
    if each.weights is WeightsKind.PATH:
        return PurePath(each.setting.weights).name
    if each.weights is None or each.first is None:
        return ""
    verification = each.first.prepared.weights.verification
    prefix = "" if verification is None or verification == "full" else f"{VERIFICATION[verification]} "
    return f"{prefix}{each.weights.value}"


def varied(shown: Sequence[SummaryRow]) -> list[str]:
    """Return the names of what differs between rows: one column each.

    An option is compared within its workload only, because workloads have different ones.
    """
    described = texts(shown)
    found = []
    for name in dict.fromkeys(name for values in described for name in values):
        is_common = name == NUMBER or name in map(option_name, SHOWN)
        seen = {
            ("" if is_common else each.workload, values[name])
            for each, values in zip(shown, described)
            if name in values
        }
        seen -= {("", UNKNOWN)}
        if len(seen) > len({workload for workload, _ in seen}):
            found.append(name)
    return found


def short_names(shown: Sequence[SummaryRow]) -> list[str]:
    """Return a name for each row of one workload: only what differs, in the notation of ``--setting``.

    If nothing differs, because there is only one, it is the precision. Rows that have names keep them.
    """
    if all(each.name for each in shown):
        return [each.name for each in shown]
    names = varied(shown) or ["precision"]
    return [
        " ".join(_named(name, values[name]) for name in names if values.get(name, UNKNOWN) != UNKNOWN)
        for values in texts(shown)
    ]


def full_names(shown: Sequence[SummaryRow], *, with_workload: bool = True) -> list[str]:
    """Return the short name of each row among those of its workload, with the workload if there are several."""
    found = by_workload(shown)
    names = {workload: iter(short_names(rows)) for workload, rows in found.items()}
    prefixes = (f"{row.workload} " if with_workload and len(found) > 1 else "" for row in shown)
    return [f"{prefix}{next(names[row.workload])}" for prefix, row in zip(prefixes, shown)]


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are: ``a, b, c, d and 3 more``."""
    more = f" and {len(names) - NAMED_SETTINGS} more" if len(names) > NAMED_SETTINGS else ""
    return f"{', '.join(names[:NAMED_SETTINGS])}{more}"


def pair_names(shown: Sequence[SummaryRow]) -> tuple[str, str] | None:
    """Return the names of the two settings that are compared; ``None`` unless they are the same for all workloads.

    A workload whose second setting never began does not count.
    """
    groups = by_workload(shown).values()
    pairs = {tuple(short_names(rows)) for rows in groups if len(rows) > 1}
    if len(pairs) != 1 or any(len(rows) > 2 for rows in groups):
        return None
    base, other = pairs.pop()
    return base, other


def _named(name: str, value: str) -> str:
    if name == NUMBER:
        return f"#{value}"
    return value if name in _WITHOUT_NAME else f"{name}={value}"


def shared(shown: Sequence[SummaryRow]) -> list[str]:
    """Return what all rows have in common, in a few words each: ``batch 1``, ``2 threads``, ``random weights`` …

    A value at its default is not worth words, except for the batch size, the threads and the weights. Options are
    named if all rows are of one workload, whose name then comes first.
    """
    described, differing = texts(shown), varied(shown)
    common = {name: value for name, value in described[0].items() if name not in differing and value != UNKNOWN}
    defaults = _field_texts(Setting())
    one_workload = len(by_workload(shown)) == 1
    words = [shown[0].workload] if one_workload else []
    for name in _ALWAYS_SHARED:
        if name in common:
            value = common[name]
            threads = f"{value} thread{'s' if value != '1' else ''}"
            known = {"precision": value, "weights": f"{value} weights", "threads": threads}
            words.append(known.get(name, f"{name} {value}"))
    for name, value in common.items():
        is_option = name not in defaults
        if name not in _ALWAYS_SHARED and (one_workload if is_option else value != defaults[name]):
            words.append("all stages" if (name, value) == ("stages", "on") else f"{name}={value}")
    by = [f"{name} by {methods[0]}" for name, methods in _methods(shown).items() if len(methods) == 1]
    counts = sorted({each.processes for each in shown if each.processes})
    processes = [f"{Merged(counts)} process{'' if counts == [1] else 'es'} per setting"] if counts else []
    return [*words, *by, *processes]


def _methods(shown: Sequence[SummaryRow]) -> dict[str, list[str]]:
    """How each precision was obtained, by precision."""
    pairs = [(each.setting.precision, each.setting.method or "") for each in shown if each.setting.method]
    return grouped(dict.fromkeys(pairs))


def machine(shown: Sequence[SummaryRow]) -> str:
    """Return what the rows ran on, as far as known and the same for all, and the versions of the engines.

    ``c7g.4xlarge, Neoverse-V1, 16 vCPUs, torch 2.10.0 (onednn+acl, openblas)``.
    """
    reports = [report for each in shown for report in each.reports]
    devices = {report.accelerator.device.name for report in reports if report.accelerator is not None}
    where = [report.provenance for report in reports]
    return ran_on([each.machine for each in where], where, sorted(devices))


def ran_on(machines: Sequence[Machine], where: Sequence[Provenance], devices: Sequence[str] = ()) -> str:
    """Return what is known of machines and what ran on them; see ``machine``.

    Args:
        machines: the machines.
        where: of the processes.
        devices: names of accelerators.
    """
    numbers = ((each.logical, "vCPU") if each.hypervisor else (each.cores, "core") for each in machines)
    parts = [
        _common(each.instance_type or each.cloud or "" for each in machines),
        # Without what says nothing: trade marks, the word CPU, and the nominal frequency.
        _common(" ".join(re.sub(r"\((?:R|TM)\)|\bCPU\b|@.*", " ", each.cpu).split()) for each in machines),
        # A virtual machine does not know its cores.
        _common(counted(*each) for each in numbers),
        *devices,
    ]
    parts.append(_torch([each for each in where if each.engine == "torch"] or where))
    engines = {each.engine: each.versions.get(each.engine, "") for each in where if each.engine != "torch"}
    parts += [f"{name} {version}" for name, version in engines.items() if version]
    return ", ".join(filter(None, parts))


def _common(words: Iterable[str]) -> str:
    """What all of them are; empty if they differ."""
    found = set(words)
    return found.pop() if len(found) == 1 else ""


def _torch(where: Sequence[Provenance]) -> str:
    """The versions, and by which libraries it computes matrix products on a CPU."""
    versions = list(dict.fromkeys(each.versions.get("torch", "") for each in where))
    if not versions or not all(versions):
        return ""
    libraries = (each.libraries for each in where)
    backends = _common(", ".join(each.backends) if each is not None else "" for each in libraries)
    return f"torch {' and '.join(versions)}" + (f" ({backends})" if backends else "")


def conditions(rows: Sequence[SummaryRow]) -> list[Notice]:
    """Return what failed, and what may distort these rows, the most harmful first."""
    by_error = grouped((error, f"{row.workload} {row.label}") for row in rows for error in row.errors)
    found = [Notice(Severity.INVALIDATES, "failed", ", ".join(names), error) for error, names in by_error.items()]
    by_code = grouped((each.warning.code, (row, each.warning)) for row in rows for each in row.warnings)

    def harm(code: str) -> tuple[Severity, float, int]:
        """The severity, what took the largest share of the time, then the place among ``WarningCode``."""
        severity, place = rank(code)
        return severity, -max(effect(row, found) for row, found in by_code[code]), place

    for code in sorted(by_code, key=harm):
        severity, _ = rank(code)
        message, hint = merged(by_code[code])
        where = concerns(list({id(row): row for row, _ in by_code[code]}.values()), rows)
        found.append(Notice(severity, SEVERITY_WORD[severity], where, message, hint))
    return found


def merged(reported: Sequence[tuple[SummaryRow, WarningMessage]]) -> tuple[str, str]:
    """Return one message and one hint for the warnings of a code of several rows.

    Numbers that differ become a range; of words that differ, each is said once.
    """
    warnings = [warning for _, warning in reported]
    messages, hints = ({each.message: None for each in warnings}, {each.hint: None for each in warnings})
    message, hint = "; ".join(messages), "; ".join(hints)
    code, names = WarningCode.__members__.get(warnings[0].code), [set(each.values) for each in warnings]
    differs = len(messages) > 1 or len(hints) > 1
    if differs and code is not None and names[0] and all(each == names[0] for each in names):
        values = {name: Merged(each.values[name] for each in warnings) for name in names[0]}
        with contextlib.suppress(LookupError, ValueError, TypeError):  # of another version
            message, hint = code.value[1].format_map(values), code.value[2].format_map(values)
    agreements = [row.agreement for row, _ in reported if row.agreement is not None and row.agreement.is_same is False]
    if reported[0][1].code == WarningCode.OTHER_OUTPUTS.name and agreements:
        message += f": {agreement_text(agreements)}"
    return message, hint


def concerns(concerned: Sequence[SummaryRow], rows: Sequence[SummaryRow]) -> str:
    """Name some of all ``rows``: ``resnet50, ssd bf16``; empty if they are all of them."""
    if len(concerned) == len(rows):
        return ""
    every = by_workload(rows)
    parts = []
    for workload, some in by_workload(concerned).items():
        names = dict(zip(map(id, every[workload]), short_names(every[workload])))
        if len(some) == len(every[workload]):
            parts.append(workload)
        elif len(some) > NAMED_SETTINGS:
            of = f" of {workload}" if len(every) > 1 else ""
            parts.append(f"{len(some)} of {len(every[workload])} settings{of}")
        else:
            listed = ", ".join(names[id(each)] for each in some)
            parts.append(f"{workload} {listed}" if len(every) > 1 else listed)
    return "; ".join(parts)
