"""How a workload is run: everything that can change the number, in one frozen object."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from modelzoo.errors import UsageError

PRECISIONS = ("fp32", "bf16")
BF16_METHODS = ("fastmath", "autocast", "cast")
MODES = ("eager", "compile", "script")
BACKENDS = ("auto", "onednn", "blas")
BACKEND_VARIABLE = "MODELZOO_BACKEND"
"""The variable that names the backend where ``--backend`` does not."""
TARGET_HALF_WIDTH = 0.01
"""Sampling stops when the median's 95 % interval is within ± this share of it."""


@dataclass(frozen=True)
class Setting:
    """What is asked for. ``None`` means "the worker decides and records what it took".

    ``bf16_method`` is how bf16 is had: ``fastmath`` (fp32 tensors, kernels round inside), ``autocast`` or
    ``cast`` (the model's own type). ``options`` are the workload's own (``size``, ``sequence`` …).
    """

    precision: str = "fp32"
    bf16_method: str | None = None
    mode: str = "eager"
    backend: str = "auto"
    device: str = "cpu"
    batch: int | None = None
    threads: int | None = None
    channels_last: bool = False
    weights: str = "auto"
    seed: int = 0
    input: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _one_of("--precision", self.precision, PRECISIONS)
        _one_of("--mode", self.mode, MODES)
        _one_of("--backend", self.backend, BACKENDS)
        if self.bf16_method is not None:
            _one_of("--bf16", self.bf16_method, BF16_METHODS)
        for name in ("batch", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be 1 or more, not {value}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed must be from 0 to 2**63 - 1, not {self.seed}")

    @property
    def label(self) -> str:
        """A short name for tables: the precision, and what differs from the defaults."""
        parts = [self.precision + (f"={self.bf16_method}" if self.bf16_method else "")]
        if self.mode != "eager":
            parts.append(self.mode)
        if self.backend != "auto":
            parts.append(self.backend)
        if self.channels_last:
            parts.append("channels-last")
        return " ".join(parts)

    def reference(self) -> Setting:
        """What predictions of this setting are held against: fp32, eager, nothing special."""
        return self.replace(precision="fp32", bf16_method=None, mode="eager", backend="auto", channels_last=False)

    def replace(self, **changes: Any) -> Setting:
        """Return a copy with ``changes``."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{option} must be one of {', '.join(allowed)}, not {value!r}")


@dataclass(frozen=True)
class Plan:
    """How long to measure one process. ``None`` for a count means "adapt".

    Seconds are wall-clock; ``max_seconds`` bounds the steady phase only.
    """

    warmup: int | None = None
    iterations: int | None = None
    max_seconds: float = 10.0
    half_width: float = TARGET_HALF_WIDTH

    def __post_init__(self) -> None:
        if self.warmup is not None and self.warmup < 0:
            raise UsageError(f"--warmup must be 0 or more, not {self.warmup}")
        if self.iterations is not None and self.iterations < 1:
            raise UsageError(f"--iterations must be 1 or more, not {self.iterations}")
        if not self.max_seconds > 0:
            raise UsageError(f"--max-seconds must be over 0, not {self.max_seconds:g}")
