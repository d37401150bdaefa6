"""ONNX Runtime as an engine: the CPU provider, one session per process.

All options that change speed or arithmetic are set explicitly, so that a default cannot differ. They are described in
ONNX Runtime's ``onnxruntime_session_options_config_keys.h``.

The canary has an operator for each entry point of MLAS, ONNX Runtime's library of kernels, that may have a bf16 kernel
of its own: those of ``modelzoo.evidence.canary``, and ``projection``, a product with constant weights and no bias. A
``linear`` becomes the operator ``Gemm``, a ``projection`` stays a ``MatMul`` and its weights are packed.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.engine import ExportedEngine, ExportedModel, ExportedSession
from modelzoo.engines.export.source import rebuild
from modelzoo.engines.export.store import export_once, flat_arrays, read_batch
from modelzoo.engines.onnxruntime.onnx import (
    CALIBRATION,
    GRAPH_OPSET,
    MODEL,
    RECIPES,
    STATIC,
    TRACED_OPSET,
    WITH_HEADS,
    calibration,
    convolution_weights,
    initializer_bytes,
    input_names,
    onnx_conversion,
    quantize,
    quantize_files,
    quantized_conversion,
    write_onnx,
)
from modelzoo.engines.onnxruntime.profile_log import NO_WEIGHTS, Weights, read_profile
from modelzoo.engines.protocol import Observed, RawOutputs
from modelzoo.errors import UsageError
from modelzoo.evidence.canary import CanaryCase, canary_case, canary_cases, compared
from modelzoo.evidence.coverage import AttributedAudit
from modelzoo.machine import installation
from modelzoo.machine.installation import installed_release
from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Libraries
from modelzoo.records.run_report import Compilation
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    import onnxruntime

    from modelzoo.engines.export.source import TorchSource


PROVIDERS = ("CPUExecutionProvider",)
FAST_MATH = "mlas.enable_gemm_fastmath_arm64_bfloat16"
"""Rounds the operands of fp32 products to bf16. It exists on ARM only."""
DISABLED_OPTIMIZERS = "optimization.disable_specified_optimizers"
GEMM_FUSION = "MatMulAddFusion"
"""Turns layers (``MatMul`` and ``Add``) into ``Gemm``, which has no bf16 kernel: with 1.32 on an emulated Neoverse N2,
fast math leaves a layer in fp32 with this fusion (error 3e-7), and runs it in bf16 without (2e-3)."""
ERRORS_ONLY = 3
"""Log severity: warnings are about devices that this engine does not use, and about options that it sets."""


def session_options(setting: ResolvedSetting) -> dict[str, str]:
    """Return the options with which ``setting`` runs in this process, by the name of the attribute or of the key.

    ``intra_op_num_threads`` includes the calling thread; if it is set, ONNX Runtime binds no thread to a CPU. By
    default, idle threads wait actively for a while. Those that do so while torch computes in the same process slow it
    down up to 50 times (microsoft/onnxruntime#13808), so they must not wherever torch is loaded: in validation, never
    in a measurement.
    """
    fast_math = setting.bf16_method == "fastmath"
    return {
        "intra_op_num_threads": str(setting.threads),
        "inter_op_num_threads": "1",
        "execution_mode": "ORT_SEQUENTIAL",
        "graph_optimization_level": "ORT_ENABLE_ALL",
        "enable_cpu_mem_arena": "True",
        "enable_mem_pattern": "True",
        "enable_mem_reuse": "True",
        "use_deterministic_compute": "False",
        "session.intra_op.allow_spinning": str(int("torch" not in sys.modules)),
        "session.inter_op.allow_spinning": "0",
        FAST_MATH: str(int(fast_math)),
        "session.set_denormal_as_zero": "0",
        "session.disable_prepacking": "0",
        **({DISABLED_OPTIMIZERS: GEMM_FUSION} if fast_math else {}),
        "providers": ",".join(PROVIDERS),
    }


def native_options(options: Mapping[str, str], *, profile: Path | None = None) -> onnxruntime.SessionOptions:
    """Return ONNX Runtime's object.

    Args:
        options: as ``session_options`` returns them.
        profile: prefix of the file that the profiler writes; ``None``: nothing is profiled.
    """
    import onnxruntime

    found = onnxruntime.SessionOptions()
    found.log_severity_level = ERRORS_ONLY
    for name, text in options.items():
        if "." in name:
            found.add_session_config_entry(name, text)
        elif name != "providers":  # which are no attribute
            before = getattr(found, name)  # a number, a truth value, or one of an enumeration
            names = getattr(type(before), "__members__", {"True": True, "False": False})
            setattr(found, name, names[text] if text in names else int(text))
    if profile is not None:
        found.enable_profiling = True
        found.profile_file_prefix = str(profile)
    return found


IR_VERSION = 8
"""That of ONNX 1.12, the release of ``TRACED_OPSET``: older versions of ONNX Runtime reject models with a newer one."""


def run_canary(options: Mapping[str, str], recipe: str | None = None) -> Canary:
    """Run the operators in one session with ``options``; with a ``recipe`` for int8, those that it quantizes."""
    import onnxruntime

    cases = (*canary_cases(), _projection()) if recipe is None else (_projection(),)
    feed = {f"{case.operator}.{number}": each for case in cases for number, each in enumerate(case.inputs)}
    model = canary_model(cases)
    if recipe is not None:
        with tempfile.TemporaryDirectory() as directory:
            plain, made = Path(directory) / MODEL, Path(directory) / "quantized.onnx"
            plain.write_bytes(model)
            quantize(plain, made, recipe, (feed,))
            model = made.read_bytes()
    session = onnxruntime.InferenceSession(model, native_options(options), providers=list(PROVIDERS))
    outputs = session.run([case.operator for case in cases], feed)
    return compared(cases, outputs, is_quantized=recipe is not None)


def _projection() -> CanaryCase:
    linear = canary_case("linear")
    weight, bias = linear.constants
    return CanaryCase("projection", linear.inputs, (weight.T.copy(),), linear.exact - bias)


_CANARY_NODES: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("MatMul", {}),
    "linear": ("Gemm", {"transB": 1}),
    "conv": ("Conv", {"pads": [1, 1, 1, 1]}),
    "pointwise": ("Conv", {}),
    "projection": ("MatMul", {}),
}
"""The ONNX operator of each case, and its attributes."""


def canary_model(cases: tuple[CanaryCase, ...]) -> bytes:
    """Return ``cases`` as a serialized ONNX model, whose outputs are named like the operators."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, outputs = [], [], []
    inputs: list[Any] = []
    for case in cases:
        name, (kind, attributes) = case.operator, _CANARY_NODES[case.operator]
        given: list[Any] = [
            helper.make_tensor_value_info(f"{name}.{number}", TensorProto.FLOAT, each.shape)
            for number, each in enumerate(case.inputs)
        ]
        weights = [numpy_helper.from_array(each, f"{name}.c{number}") for number, each in enumerate(case.constants)]
        nodes.append(helper.make_node(kind, [each.name for each in (*given, *weights)], [name], **attributes))
        inputs += given
        constants += weights
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, case.exact.shape))
    graph = helper.make_graph(nodes, "canary", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", TRACED_OPSET)], ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString()
    return serialized


class OnnxRuntimeModel(ExportedModel):
    """A session for the model, with the options of a setting.

    What ONNX Runtime tells of kernels comes from its profiler, which a session has from its beginning or not at all,
    and which takes time. So it is a second session that is profiled, with the same model and the same other options.
    """

    def __init__(self, workload: str, session: ExportedSession, export: Export) -> None:
        self._options, self._batch, self._directory = session.options, read_batch(export), Path(export.path)
        super().__init__(workload, session.setting, self._batch.flops)
        started = perf_counter()
        with self.explained_errors():
            self._session = self._open(MODEL)
        calibration = export.conversion.options.get(CALIBRATION)
        self.compilation = Compilation(perf_counter() - started, calibration=str(calibration) if calibration else None)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._outputs = [each.name for each in self._session.get_outputs()]

    def call(self, feed: dict[str, Any]) -> Any:
        """Run the model on arrays by name, as servers do; the outputs are arrays in ONNX Runtime's memory."""
        return self._session.run(self._outputs, feed)

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        arrays = zip(input_names(self._batch.inputs), flat_arrays(args))
        # The exporter leaves out inputs that the outputs do not depend on.
        return ({name: array for name, array in arrays if name in self._inputs},)

    def predict(self, *args: Any) -> Any:
        import torch

        with self.explained_errors():
            found = self.call(*self.prepare(args))
        return rebuild(self._batch.outputs, [torch.from_numpy(each) for each in found])

    def outputs(self, args: tuple[Any, ...]) -> RawOutputs:
        with self.explained_errors():
            found = self.call(*args)
            heads = self._open(WITH_HEADS).run(None, *args)[len(found) :] if self._batch.heads else ()
        return RawOutputs(tuple(found), tuple(heads))

    def stored_bytes(self) -> int:
        return initializer_bytes(self._directory / MODEL)

    def reason_of(self, error: Exception) -> str | None:
        is_own = type(error).__module__.startswith("onnxruntime.")
        return str(error).strip().partition("\n")[0] if is_own else None

    def listed(self, args: tuple[Any, ...], passes: int) -> Observed[AttributedAudit]:
        with tempfile.TemporaryDirectory() as directory, self.explained_errors():
            session = self._open(MODEL, Path(directory) / "profile")
            for _ in range(1 + passes):
                session.run(self._outputs, *args)
            text = Path(session.end_profiling()).read_bytes()
        return read_profile(text, passes, self._weights, fast_math=self._setting.bf16_method == "fastmath")

    @cached_property
    def _weights(self) -> Weights:
        """Those of quantized convolutions, whose shapes the profiler does not show."""
        return convolution_weights(self._directory / MODEL) if self._setting.recipe == STATIC else NO_WEIGHTS

    def _open(self, file: str, profile: Path | None = None) -> onnxruntime.InferenceSession:
        import onnxruntime

        options = native_options(self._options, profile=profile)
        return onnxruntime.InferenceSession(str(self._directory / file), options, providers=list(PROVIDERS))


ARM = ("aarch64", "arm64")
ATTENTION = (1, 23)
"""The first release with opset 23, and its operator ``Attention`` on the CPU."""


class OnnxRuntimeEngine(ExportedEngine):
    """ONNX Runtime 1.17 or newer."""

    name, title = "onnxruntime", "ONNX Runtime"
    packages = (name, "onnx")
    bf16_method = "fastmath"

    def options(self, setting: ResolvedSetting) -> Mapping[str, str]:
        return session_options(setting)

    def model(self, session: ExportedSession, workload: Workload, inputs: Inputs, export: Export) -> OnnxRuntimeModel:
        return OnnxRuntimeModel(workload.name, session, export)

    def canary(self, session: ExportedSession) -> Canary:
        return run_canary(session.options, session.setting.recipe)

    def libraries(self) -> Libraries:
        import onnxruntime

        line = f"onnxruntime {onnxruntime.__version__}: {onnxruntime.get_build_info().partition(': ')[2]}"
        return installation.read_engine_libraries(line, "mlas", self._threads)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.precision not in ("fp32", "bf16", "int8"):
            raise UsageError(f"--precision {setting.precision}: ONNX Runtime runs fp32, int8 and, on ARM CPUs, bf16")
        if setting.precision == "bf16" and platform.machine() not in ARM:
            raise UsageError(
                f"--precision bf16: ONNX Runtime has no bf16 kernels on {platform.machine()} ({FAST_MATH} exists on "
                "ARM only); use fp32 or another --engine"
            )
        if setting.bf16_method not in (None, "fastmath"):
            raise UsageError(f"--bf16={setting.bf16_method}: ONNX Runtime has fast math only; use --bf16=fastmath")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        conversion, recipe = onnx_conversion(source, newest_opset()), setting.recipe
        batches = calibration(source) if recipe == STATIC else ()
        if recipe is not None:
            conversion = quantized_conversion(conversion, recipe, batches)

        def write(place: Path) -> None:
            write_onnx(source, conversion, place)
            if recipe is not None:
                quantize_files(place, recipe, batches)

        return export_once(source, self.name, conversion, write)

    def resolve_recipe(self, setting: Setting) -> str | None:
        if setting.precision != "int8":
            return None
        if setting.recipe not in RECIPES:
            known = ", ".join(name for name in RECIPES if name is not None)
            raise UsageError(
                f"recipe={setting.recipe} is one of torch's, and ONNX Runtime has {known}; or use --engine torch"
            )
        return RECIPES[setting.recipe]


def newest_opset() -> int:
    """The newest ONNX operators that the installed version runs, as far as this suite exports any."""
    return GRAPH_OPSET if installed_release("onnxruntime") >= ATTENTION else TRACED_OPSET
