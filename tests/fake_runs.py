"""Runs as a worker would report them, for tests of what is made of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelzoo.results.store import Run
from modelzoo.setting import Setting

ERRORS = {"fp32": 2e-7, "reduced": 2e-4, "bf16": 2.9e-3}


def canary(level: str) -> dict[str, Any]:
    """A stored canary whose three operators all ran at ``level``."""
    return {
        "operators": [
            {"operator": name, "error": ERRORS[level], "level": level, "detail": ""}
            for name in ("matmul", "linear", "conv")
        ]
    }


def make(
    seconds: Sequence[float] | None,
    *,
    workload: str = "toy",
    setting: Setting | None = None,
    round: int = 0,
    error: str | None = None,
    kind: str = "WorkerError",
    level: str | None = None,
    word: str | None = None,
    bf16_method: str | None = None,
    advice: Sequence[tuple[str, str, str]] = (),
    **changes: Any,
) -> Run:
    """A run with these steady samples; with ``error`` it failed, without samples it could not time."""
    setting = setting or Setting()
    if error is not None:
        return Run(workload, setting.to_json(), round, "2026-01-01T00:00:00+00:00", None, error, kind)
    level = level or ("fp32" if setting.precision == "fp32" else "bf16")
    phases = {
        "cold": 9.0,
        "warmup": [2.0, 1.5],
        "steady": list(seconds or ()),
        "warmup_end": "settled",
        "stop": "interval",
        "issue": [],
        "device": [],
    }
    report = {
        "workload": workload,
        "title": "a toy",
        "unit": "rows",
        "setting": {**setting.replace(batch=setting.batch or 4, threads=1).to_json(), "bf16_method": bf16_method},
        "weights": {"kind": "random", "name": "", "path": "", "sha256": "abc", "reason": "", "seed": 0},
        "phases": phases if seconds else None,
        "compile_seconds": None,
        "canary": canary(level),
        "canary_word": word or ("fp32" if setting.precision == "fp32" else "active"),
        "peak_memory": 1 << 30,
        "counts": [],
        "evidence": None,
        "flops": None,
        "bound": None,
        "profile": None,
        "advice": [{"code": c, "message": m, "hint": h} for c, m, h in advice],
        **changes,
    }
    return Run(workload, setting.to_json(), round, "2026-01-01T00:00:00+00:00", report)
