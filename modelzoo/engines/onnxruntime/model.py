"""An exported model in an ONNX Runtime session, the session's options, and the canary under these options.

All options that change speed or arithmetic are set explicitly, so that a default cannot differ. They are described in
ONNX Runtime's ``onnxruntime_session_options_config_keys.h``.

The canary has an operator for each entry point of MLAS, ONNX Runtime's library of kernels, that may have a bf16 kernel
of its own: those of ``modelzoo.evidence.canary``, and ``projection``, a product with constant weights and no bias. A
``linear`` becomes the operator ``Gemm``, a ``projection`` stays a ``MatMul`` and its weights are packed.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.engines.export.engine import ListingModel
from modelzoo.engines.export.onnx import MODEL, WITH_HEADS, input_names
from modelzoo.engines.export.source import rebuild
from modelzoo.engines.export.store import flat_arrays, read_batch
from modelzoo.engines.onnxruntime.profile_log import NO_WEIGHTS, ProfileLogError, Weights, read_profile
from modelzoo.engines.onnxruntime.quantization import CALIBRATION, STATIC, convolution_weights, initializer_bytes
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.evidence.canary import CanaryCase, canary_cases, check_output
from modelzoo.evidence.nodes import ListedPasses, node_digest
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import KernelDigest
from modelzoo.records.profile import Flops
from modelzoo.records.run_report import Compilation
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting

if TYPE_CHECKING:
    import onnxruntime
    from numpy.typing import NDArray


PROVIDERS = ("CPUExecutionProvider",)
FAST_MATH = "mlas.enable_gemm_fastmath_arm64_bfloat16"
"""Rounds the operands of fp32 products to bf16. It exists on ARM only."""
DISABLED_OPTIMIZERS = "optimization.disable_specified_optimizers"
GEMM_FUSION = "MatMulAddFusion"
"""Turns layers (``MatMul`` and ``Add``) into ``Gemm``, which has no bf16 kernel: with 1.32 on an emulated Neoverse N2,
fast math leaves a layer in fp32 with this fusion (error 3e-7), and runs it in bf16 without (2e-3)."""
ERRORS_ONLY = 3
"""Log severity: warnings are about devices that this engine does not use, and about options that it sets."""


class SessionSettings(msgspec.Struct, frozen=True):
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


OPSET = 17
IR_VERSION = 8
"""That of ONNX 1.12, the release of ``OPSET``: older versions of ONNX Runtime reject models with a newer one."""


def run_canary(options: onnxruntime.SessionOptions, providers: tuple[str, ...], recipe: str | None = None) -> Canary:
    """Run the operators in one session with ``options``; with a ``recipe`` for int8, those that it quantizes."""
    import onnxruntime

    cases = (*canary_cases(), _projection()) if recipe is None else (_projection(),)
    model = canary_model(cases)
    if recipe is not None:
        model = _quantized(model, recipe, dict(_inputs(cases)))
    session = onnxruntime.InferenceSession(model, options, providers=list(providers))
    outputs = session.run([case.operator for case in cases], dict(_inputs(cases)))
    checks = (
        check_output(case.operator, case.exact, output, is_quantized=recipe is not None)
        for case, output in zip(cases, outputs)
    )
    return Canary(tuple(checks))


def _quantized(model: bytes, recipe: str, feed: dict[str, NDArray[Any]]) -> bytes:
    import onnx

    from modelzoo.engines.onnxruntime.quantization import quantize

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / MODEL
        quantize(onnx.load_model_from_string(model), place, recipe, (feed,))
        return place.read_bytes()


def _projection() -> CanaryCase:
    linear = next(case for case in canary_cases() if case.operator == "linear")
    weight, bias = linear.constants
    return CanaryCase("projection", linear.inputs, (weight.T.copy(),), linear.exact - bias)


def _inputs(cases: tuple[CanaryCase, ...]) -> list[tuple[str, NDArray[Any]]]:
    return [(f"{case.operator}.{number}", each) for case in cases for number, each in enumerate(case.inputs)]


def canary_model(cases: tuple[CanaryCase, ...]) -> bytes:
    """Return ``cases`` as a serialized ONNX model, whose outputs are named like the operators."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants = [], []
    for case in cases:
        weights = [
            numpy_helper.from_array(each, f"{case.operator}.c{number}") for number, each in enumerate(case.constants)
        ]
        operands = [f"{case.operator}.{number}" for number in range(len(case.inputs))] + [each.name for each in weights]
        kind, attributes = _node_of(case)
        nodes.append(helper.make_node(kind, operands, [case.operator], **attributes))
        constants += weights
    graph = helper.make_graph(
        nodes,
        "canary",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape) for name, each in _inputs(cases)],
        [helper.make_tensor_value_info(case.operator, TensorProto.FLOAT, case.exact.shape) for case in cases],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString()
    return serialized


def _node_of(case: CanaryCase) -> tuple[str, dict[str, Any]]:
    """The ONNX operator of a case, and its attributes."""
    if case.operator == "linear":
        return "Gemm", {"transB": 1}
    if case.operator in ("matmul", "projection"):
        return "MatMul", {}
    height, width = case.constants[0].shape[2:]
    return "Conv", {"pads": [height // 2, width // 2, height // 2, width // 2]}


class OnnxRuntimeModel(ListingModel):
    """A session for the model, with the options of a setting.

    What ONNX Runtime tells of kernels comes from its profiler, which a session has from its beginning or not at all,
    and which takes time. So it is a second session that is profiled, with the same model and the same other options.
    """

    def __init__(self, workload: str, setting: ResolvedSetting, options: SessionSettings, export: Export) -> None:
        super().__init__(workload, setting)
        self._options = options
        self._directory, self._batch = Path(export.path), read_batch(export)
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

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        found = self.listed(args, 1, warm_up=0)
        if isinstance(found, Unavailable):
            return found
        return node_digest(found.nodes) or Unavailable(
            "ONNX Runtime's profile names no kernel that multiplies matrices"
        )

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        found = self.listed(args, 1, warm_up=0)
        return found if isinstance(found, Unavailable) else found.flops or super().flops(args)

    def listed(self, args: tuple[Any, ...], passes: int, *, warm_up: int = 1) -> Observed[ListedPasses]:
        with tempfile.TemporaryDirectory() as directory, self.explained_errors():
            session = self._open(MODEL, Path(directory) / "profile")
            for _ in range(warm_up + passes):
                session.run(self._outputs, *args)
            text = Path(session.end_profiling()).read_bytes()
        try:
            return read_profile(text, passes, self._weights, fast_math=self._setting.bf16_method == "fastmath")
        except ProfileLogError as error:
            return Unavailable(str(error))

    @cached_property
    def _weights(self) -> Weights:
        """Those of quantized convolutions, whose shapes the profiler does not show."""
        return convolution_weights(self._directory / MODEL) if self._setting.recipe == STATIC else NO_WEIGHTS

    def _open(self, file: str, profile: Path | None = None) -> onnxruntime.InferenceSession:
        import onnxruntime

        options = self._options.options(profile=profile)
        return onnxruntime.InferenceSession(str(self._directory / file), options, providers=list(PROVIDERS))
