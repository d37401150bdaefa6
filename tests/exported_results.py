"""What processes of an engine that runs exported models report, for tests of what is made of results."""

from __future__ import annotations

from typing import Any

from modelzoo.frozen import replace
from modelzoo.records.workload import Conversion, Export, MatchedDetections, OutputAgreement, OutputError

ENGINE = "onnxruntime"
EXPORT = Export("/cache/exports/toy", "batch-0", Conversion("torch.onnx.export", "torch 2.10", 17), "a" * 64, "b" * 64)
SAME = OutputAgreement((OutputError("0", 10, 2e-7, 1.0, 1e-6),), True)
OTHER = OutputAgreement((OutputError("0", 10, 2e-3, 1.0, 1e-2),), True)
DETECTS_SAME = replace(SAME, detections=MatchedDetections(10, 10, 10))
IN_BF16 = replace(OTHER, has_bound=False)


def exported(agreement: OutputAgreement | None = None, **changes: Any) -> dict[str, Any]:
    """The fields of a report with this agreement."""
    versions = {"torch": "2.10.0", ENGINE: "1.23.2"}
    return {"engine": ENGINE, "export": EXPORT, "agreement": agreement, "versions": versions, **changes}
