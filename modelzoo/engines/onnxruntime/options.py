"""Session options: all that change speed or arithmetic are set explicitly, so that a default cannot differ.

They are described in ONNX Runtime's ``onnxruntime_session_options_config_keys.h``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.setting import ResolvedSetting

if TYPE_CHECKING:
    import onnxruntime

PROVIDERS = ("CPUExecutionProvider",)
FAST_MATH = "mlas.enable_gemm_fastmath_arm64_bfloat16"
"""Rounds the operands of fp32 products to bf16. It exists on ARM only."""
DISABLED_OPTIMIZERS = "optimization.disable_specified_optimizers"
GEMM_FUSION = "MatMulAddFusion"
"""Turns layers (``MatMul`` and ``Add``) into ``Gemm``, which has no bf16 kernel: with 1.32 on an emulated Neoverse N2,
fast math leaves a layer in fp32 with this fusion (error 3e-7), and runs it in bf16 without (2e-3)."""
ERRORS_ONLY = 3
"""Log severity: warnings are about devices that this engine does not use, and about options that it sets."""


@dataclass(frozen=True)
class SessionSettings:
    """The options of a session.

    Attributes:
        threads: of the pool within an operator, the calling thread included. If it is set, ONNX Runtime binds no thread
            to a CPU.
        fast_math: whether products may round fp32 operands to bf16.
        spinning: whether idle threads of the pool wait actively for a while. It is ONNX Runtime's default.
    """

    threads: int
    fast_math: bool
    spinning: bool

    @property
    def attributes(self) -> dict[str, object]:
        """Attributes of ``SessionOptions``; enumerators by name."""
        return {
            "intra_op_num_threads": self.threads,
            "inter_op_num_threads": 1,
            "execution_mode": "ORT_SEQUENTIAL",
            "graph_optimization_level": "ORT_ENABLE_ALL",
            "enable_cpu_mem_arena": True,
            "enable_mem_pattern": True,
            "enable_mem_reuse": True,
            "use_deterministic_compute": False,
        }

    @property
    def entries(self) -> dict[str, str]:
        """Further options, by the name of their configuration key."""
        return {
            "session.intra_op.allow_spinning": str(int(self.spinning)),
            "session.inter_op.allow_spinning": "0",
            FAST_MATH: str(int(self.fast_math)),
            "session.set_denormal_as_zero": "0",
            "session.disable_prepacking": "0",
            **({DISABLED_OPTIMIZERS: GEMM_FUSION} if self.fast_math else {}),
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All options as text for the record."""
        pairs = {**self.attributes, **self.entries, "providers": ",".join(PROVIDERS)}
        return tuple(f"{name}={value}" for name, value in pairs.items())

    def options(self, *, profile: Path | None = None) -> onnxruntime.SessionOptions:
        """Return ONNX Runtime's object.

        Args:
            profile: prefix of the file that the profiler writes; ``None``: nothing is profiled.
        """
        import onnxruntime

        found = onnxruntime.SessionOptions()
        found.log_severity_level = ERRORS_ONLY
        for name, value in self.attributes.items():
            kind = {"execution_mode": onnxruntime.ExecutionMode}.get(name)
            kind = kind or {"graph_optimization_level": onnxruntime.GraphOptimizationLevel}.get(name)
            setattr(found, name, value if kind is None else getattr(kind, str(value)))
        for key, text in self.entries.items():
            found.add_session_config_entry(key, text)
        if profile is not None:
            found.enable_profiling = True
            found.profile_file_prefix = str(profile)
        return found


def session_settings(setting: ResolvedSetting) -> SessionSettings:
    """Return the options with which ``setting`` runs in this process.

    Threads of ONNX Runtime that spin while torch computes in the same process slow it down up to 50 times
    (microsoft/onnxruntime#13808). So they must not wherever torch is loaded: in validation, never in a measurement.
    """
    return SessionSettings(
        threads=setting.threads, fast_math=setting.bf16_method == "fastmath", spinning="torch" not in sys.modules
    )
