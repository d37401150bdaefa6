"""What the default run ends with: four models in two precisions, judged, on a machine that is not quiet."""

from __future__ import annotations

from fake_runs import evidence, judgement, make, result_of

from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result, Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for

SPEEDUPS = {"bert": 2.21, "resnet50": 1.001, "ssdlite": 1.02, "maskrcnn": 1.74}
"""How much faster bf16 is than fp32."""


def result(processes: int = 4) -> Result:
    """A result: of four models one is not faster, and of one it cannot be told."""
    runs = [
        _run(name, setting, 0.08 * (index + 1) / factor, number)
        for index, (name, speedup) in enumerate(SPEEDUPS.items())
        for setting, factor in ((Setting(), 1.0), (Setting("bf16"), speedup))
        for number in range(processes)
    ]
    found = result_of(*runs)
    groups = {request.workload: group for group, request in enumerate(found.requested) if request.setting != Setting()}
    judged = [
        replace(judgement(verdict), workload=name, group=groups[name])
        for name, verdict in zip(SPEEDUPS, [ValidityVerdict.VALID] * 3 + [ValidityVerdict.CANNOT_JUDGE])
    ]
    return replace(found, validity=tuple(judged))


def _run(name: str, setting: Setting, seconds: float, number: int) -> Run:
    noise = 0.03 if name == "ssdlite" and setting.precision == "bf16" else 0.002
    level = seconds * (1 + noise * (-1, 1.3, -0.4, 0.1)[number % 4])
    samples = [level * (1 + 0.01 * (place % 3)) for place in range(120)]
    proof = ProofVerdict.FP32 if setting.precision == "fp32" else ProofVerdict.ACTIVE
    return make(
        samples, workload=name, setting=setting, round=number, evidence=evidence(proof), warnings=_warnings(name)
    )


def _warnings(name: str) -> tuple[WarningMessage, ...]:
    found = [
        warning_for(WarningCode.OTHER_LOAD, cores=1.2 if name == "bert" else 0.4),
        warning_for(WarningCode.FORCED_KERNELS, names="OPENBLAS_CORETYPE=Haswell"),
        warning_for(WarningCode.SMT, threads=2, command="taskset -c 0-3 before the command"),
        warning_for(WarningCode.MISSING_WEIGHTS, reason="no published checkpoint"),
        warning_for(WarningCode.OUTLIERS, count=3, total=120),
    ]
    return tuple(found)
