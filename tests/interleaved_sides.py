"""Results that have two sides in the same rounds, as ``modelzoo check`` stores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fake_runs import evidence, result_of
from proven_results import proven

from modelzoo.frozen import replace
from modelzoo.records.evidence import Evidence, OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.run import Latency, Result, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.setting import Setting

BASE = Setting(python="/envs/torch-2.13.0/bin/python")
HEAD = Setting(python="/envs/torch-2.14.1/bin/python")
SHAPES = ((1, 64, 56, 56), (64, 64, 3, 3))
CLASSIFIER = ((1, 2048), (2048, 1000))


def checked(
    ratios: dict[str, Sequence[float]],
    *,
    base: dict[str, Any] | None = None,
    head: dict[str, Any] | None = None,
    looks: tuple[int, ...] = (),
    stop: StopReason = StopReason.BUDGET,
) -> Result:
    """The result of a check: of each workload, how many times longer head takes in each round."""
    runs, requested, designs = [], [], []
    for workload, each in ratios.items():
        group = len(requested)
        requested += [SettingRequest(workload, BASE), SettingRequest(workload, HEAD)]
        for number, ratio in enumerate(each):
            level = 0.1 * (1 + 0.01 * (number % 3))
            first = proven(level, number, BASE, workload, **(base or {}))
            second = proven(level * ratio, number, HEAD, workload, **(head or {}))
            runs += [replace(first, group=group), replace(second, group=group + 1)]
        maximum = looks[-1] if looks else len(each)
        designs.append(Design(workload, 0.05, 60.0, None, looks=looks, maximum=maximum, stop_reason=stop))
    return replace(result_of(*runs, requested=requested), payload=Latency(designs=tuple(designs)))


def use(kernel: str, shapes: tuple[tuple[int, ...], ...] = SHAPES, seconds: float = 0.2, **changes: Any) -> OperatorUse:
    """A convolution whose shapes were computed in ``kernel``, four times in two passes."""
    found = OperatorUse(
        operator="aten::mkldnn_convolution",
        operator_class=OperatorClass.CONV,
        shapes=shapes,
        implementation=kernel,
        precision="fp32",
        decided_by=ProofSource.BOTH,
        count=4,
        seconds=seconds,
        kernel_seconds=seconds,
    )
    return replace(found, **changes)


def audited(*uses: OperatorUse) -> Evidence:
    """Two audited passes with these products, in fp32."""
    return replace(evidence(ProofVerdict.FP32), operators=uses)
