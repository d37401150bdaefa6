"""Profile a pass: where it spends its time, by operator and by layer. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from modelzoo.evidence.coverage import Node
from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.recording import RecordedCall, Recording
from modelzoo.records.evidence import Evidence
from modelzoo.records.profile import BETWEEN_OPERATORS, OTHERS, Flops, LayerRow, OperatorRow, Profile, Shape

MOST_ROWS = 300
"""The most operator rows in a profile; a detector calls small operators with thousands of different shapes."""
WHOLE_MODEL = "(whole model)"
NO_LAYERS = "compiled and scripted models have no table by layer"
Operator = tuple[str, tuple[Shape, ...]]
"""Name and shapes."""


def recorded_profile(recording: Recording, kinds: Mapping[str, str], evidence: Evidence | None) -> Profile:
    """Return the profile of a recorded pass of torch.

    Args:
        recording: the pass.
        kinds: the class name of each module by path; empty if modules were not followed.
        evidence: the audit's, for kernel and precision of each operator.
    """
    rest = max(sum(recording.seconds.values()) - sum(each.seconds for each in recording.calls), 0.0)
    return summarize_profile(
        [*recording.calls, RecordedCall(Call(PASS_EVENT, (), None, 0), rest)],
        1,
        modules={path: (kinds.get(path, ""), count) for path, count in recording.modules.items()},
        evidence=evidence,
        flops=recording.counted(),
        problems=recording.problems if kinds else (*recording.problems, NO_LAYERS),
    )


def timed_calls(nodes: Sequence[Node]) -> list[RecordedCall]:
    """The calls of an engine's nodes, whose operations and bytes are not known."""
    return [
        RecordedCall(Call(each.operator, tuple(filter(None, each.shapes)), None, 0), each.seconds / each.count)
        for each in nodes
        for _ in range(each.count)
    ]


def summarize_profile(
    calls: Sequence[RecordedCall],
    iterations: int,
    *,
    modules: Mapping[str, tuple[str, int]] | None = None,
    evidence: Evidence | None = None,
    flops: Flops | None = None,
    problems: Sequence[str] = (),
) -> Profile:
    """Build the profile.

    Args:
        calls: those of all passes.
        iterations: number of passes.
        modules: the class name of each module, and how often it ran, by path.
        evidence: the audit's, for kernel and precision of each operator.
        flops: the operations of one pass.
        problems: what could not be measured.
    """
    seconds = sum(each.seconds for each in calls)
    kernels: dict[Operator, tuple[str, str]] = {}  # if an operator's calls differ, those of the longest
    for use in evidence.operators if evidence else ():
        shapes = tuple(shape for shape in use.shapes if shape)
        kernels.setdefault((use.operator, shapes), (use.implementation, use.precision))
    alike: dict[Operator, list[RecordedCall]] = defaultdict(list)
    for each in calls:
        call = each.call
        alike[(BETWEEN_OPERATORS, ()) if call.name == PASS_EVENT else (call.name, call.shapes)].append(each)
    rows = []
    for (name, shapes), some in alike.items():
        flop = [each.call.flop for each in some]
        kernel, precision = kernels.get((name, shapes), ("", ""))
        taken = sum(each.seconds for each in some)
        rows.append(
            OperatorRow(
                name=name,
                shapes=shapes,
                count=len(some),
                seconds=taken,
                share=taken / seconds if seconds > 0 else 0.0,
                flop=None if None in flop else sum(each for each in flop if each is not None),
                bytes=sum(each.call.bytes for each in some) or None,
                kernel=kernel,
                precision=precision,
            )
        )
    rows.sort(key=lambda row: -row.seconds)
    rows, rest = rows[:MOST_ROWS], rows[MOST_ROWS:]
    if rest:  # their sum, so that the shares still add up
        count, taken = sum(row.count for row in rest), sum(row.seconds for row in rest)
        rows.append(OperatorRow(OTHERS, (), count, taken, sum(row.share for row in rest)))
    layers = _layer_rows(calls, modules or {}, seconds)
    return Profile(iterations, seconds, tuple(rows), layers, flops, tuple(problems))


def _layer_rows(
    calls: Iterable[RecordedCall], modules: Mapping[str, tuple[str, int]], seconds: float
) -> tuple[LayerRow, ...]:
    alike: dict[str, list[RecordedCall]] = {path: [] for path in modules}
    for each in calls:
        for path in set(each.layers):  # each once, because a module may call itself
            alike[path].append(each)
    rows = []
    for path, some in alike.items():
        taken = sum((each.seconds for each in some), 0.0)
        rows.append(
            LayerRow(
                path=path or WHOLE_MODEL,
                kind=modules[path][0],
                count=modules[path][1],
                seconds=taken,
                own_seconds=sum((each.seconds for each in some if each.layers[-1] == path), 0.0),
                share=taken / seconds if seconds > 0 else 0.0,
                flop=sum(each.call.flop or 0 for each in some) or None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.own_seconds))
