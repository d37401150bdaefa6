"""Compile options: all that change speed or arithmetic are set explicitly, so that a default cannot differ.

They are described in OpenVINO's ``openvino/runtime/properties.hpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modelzoo.errors import EnvironmentProblem
from modelzoo.setting import ResolvedSetting

if TYPE_CHECKING:
    import openvino

DEVICE = "CPU"
PRECISION_HINT = "INFERENCE_PRECISION_HINT"
THREADS = "INFERENCE_NUM_THREADS"
_UNCHECKED = ("ENABLE_HYPER_THREADING",)
"""What a compiled model reports of these depends on the machine too."""


def compile_options(setting: ResolvedSetting) -> dict[str, str]:
    """Return the options with which ``setting`` is compiled.

    Without a precision hint, OpenVINO computes in bf16 wherever the CPU has it. Its threads are not bound to CPUs,
    because neither those of torch nor those of ONNX Runtime are. Logical CPUs of one core are allowed, as the number of
    threads is given.
    """
    is_fp32 = setting.precision == "fp32"
    return {
        PRECISION_HINT: "f32" if is_fp32 else "bf16",
        "EXECUTION_MODE_HINT": "ACCURACY" if is_fp32 else "PERFORMANCE",
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        THREADS: str(setting.threads),
        "ENABLE_CPU_PINNING": "NO",
        "ENABLE_HYPER_THREADING": "YES",
        "SCHEDULING_CORE_TYPE": "ANY_CORE",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
        "CPU_DENORMALS_OPTIMIZATION": "NO",
    }


def option_names(options: Mapping[str, str]) -> tuple[str, ...]:
    """The options as text for the record."""
    return tuple(f"{name}={value}" for name, value in options.items())


def require_options(compiled: openvino.CompiledModel, options: Mapping[str, str]) -> None:
    """Check that ``compiled`` has ``options``.

    Raises:
        EnvironmentProblem: OpenVINO decided otherwise; the message names the first difference.
    """
    for name, wanted in options.items():
        found = property_text(compiled.get_property(name))
        if found != wanted and name not in _UNCHECKED:
            raise EnvironmentProblem(
                f"OpenVINO compiled the model with {name}={found} instead of {wanted}; choose a setting that this "
                "machine supports, or use --engine torch"
            )


def property_text(value: Any) -> str:
    """Return the value of a property as it is written in options."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if hasattr(value, "get_type_name"):  # openvino.Type
        return str(value.get_type_name())
    return str(getattr(value, "name", value))
