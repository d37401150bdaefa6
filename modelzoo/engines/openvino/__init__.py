"""OpenVINO as an engine: its CPU plugin, one stream per process, and models in its format (IR).

Options that change speed or arithmetic are all set explicitly, so that a default cannot differ. They are described in
OpenVINO's ``openvino/runtime/properties.hpp``. torch and openvino are imported when they are used. A model's files:

model.xml, model.bin     the graph and its constants, with the outputs of the torch module and, of detectors, those
                         of the raw heads
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.engine import ExportedEngine, ExportedModel, ExportedSession
from modelzoo.engines.export.source import rebuild
from modelzoo.engines.export.store import export_once, flat_arrays, read_batch
from modelzoo.engines.openvino.evidence import LIBRARY, layer_nodes, read_layers, timed_nodes
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence.canary import canary_cases, compared
from modelzoo.evidence.coverage import AttributedAudit
from modelzoo.evidence.verdict import node_digest
from modelzoo.machine import installation
from modelzoo.machine.installation import installed_version
from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Libraries
from modelzoo.records.evidence import KernelDigest, LogSource
from modelzoo.records.run_report import Compilation
from modelzoo.records.workload import Conversion, Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    import openvino
    from numpy.typing import NDArray

    from modelzoo.engines.export.source import TorchSource


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


MODEL = "model.xml"


def write_openvino(source: TorchSource, directory: Path) -> None:
    """Write the files of ``source`` into ``directory``.

    ``openvino.convert_model`` does the same, and also reports its use to Intel unless the user has opted out.

    Raises:
        UsageError: an operator has no counterpart in OpenVINO, or the outputs do not depend on an input.
    """
    import openvino
    import torch
    from openvino.frontend import FrontEndManager, OpConversionFailure
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    def refused(reason: str) -> UsageError:
        return UsageError(
            f"{source.workload.name} cannot be exported for openvino: {reason}; run it with --engine torch"
        )

    flat, frontend = source.flat_module(), FrontEndManager()
    with warnings.catch_warnings(), torch.no_grad():
        # Tracing warns of every Python value that becomes a constant. Whether the converted model is right is found out
        # by comparing its outputs with torch's.
        warnings.simplefilter("ignore")
        decoder = TorchScriptPythonDecoder(flat, example_input=source.flat_inputs, trace_kwargs={"check_trace": False})
        pytorch = frontend.load_by_framework("pytorch")
        loaded = pytorch.load(decoder)
        for place, tensor in zip(loaded.get_inputs(), source.flat_inputs):
            # A scripted function in the graph leaves the types of the inputs unknown.
            loaded.set_element_type(place, openvino.Type(tensor.numpy().dtype))
            loaded.set_partial_shape(place, openvino.PartialShape([-1] * tensor.dim()))
        try:
            model = pytorch.convert(loaded)
        except OpConversionFailure as error:
            # The last lines sum up which operators failed; those before tell where in OpenVINO's sources.
            summary = str(error).rpartition("Summary:")[2]
            lines = [line.strip(" -") for line in summary.splitlines() if line.startswith("-- ")]
            raise refused("; ".join(lines) or "an operator has no counterpart") from error
    expected = len(source.flat_inputs)
    if len(model.inputs) != expected:
        raise refused(f"{len(model.inputs)} of its {expected} inputs are left")
    openvino.save_model(model, directory / MODEL, compress_to_fp16=False)


def run_canary(core: openvino.Core, options: Mapping[str, str]) -> Canary:
    """Run the operators of ``modelzoo.evidence.canary`` in one model that is compiled with ``options``."""
    import openvino
    from openvino import opset8

    cases, inputs, outputs = canary_cases(), [], []
    for case in cases:
        given = [opset8.parameter(list(each.shape), openvino.Type.f32) for each in case.inputs]
        weight, bias = (*map(opset8.constant, case.constants), None, None)[:2]
        if case.operator in ("matmul", "linear"):
            right = given[1] if weight is None else weight
            found = opset8.matmul(given[0], right, transpose_a=False, transpose_b=weight is not None)
        else:
            padding = [size // 2 for size in case.constants[0].shape[2:]]
            found = opset8.convolution(given[0], weight, [1, 1], padding, padding, [1, 1])
            bias = opset8.constant(case.constants[1][None, :, None, None])
        inputs += given
        outputs.append(found if bias is None else opset8.add(found, bias))
    model = openvino.Model(outputs, inputs, "canary")
    request = core.compile_model(model, DEVICE, dict(options)).create_infer_request()
    request.infer([each for case in cases for each in case.inputs])
    return compared(cases, _outputs(request, len(cases)))


ANY_SIZE = -1


class OpenVinoModel(ExportedModel):
    """A model compiled for the shapes of the batch, with the options of a setting.

    Times of layers are taken in a second compiled model, which differs in the option ``PERF_COUNT`` only.
    """

    def __init__(self, workload: str, session: ExportedSession, export: Export, args: tuple[Any, ...]) -> None:
        self._core, self._options = _core(), session.options
        self._file, self._batch = Path(export.path) / MODEL, read_batch(export)
        super().__init__(workload, session.setting, self._batch.flops)
        self._shapes = [list(array.shape) for array in flat_arrays(args)]
        started = perf_counter()
        with self.explained_errors():
            self._compiled = self._compile(self._shapes)
        self.compilation = Compilation(perf_counter() - started)
        require_options(self._compiled, self._options)
        self._request = self._compiled.create_infer_request()
        self._requests: dict[str, openvino.InferRequest] = {}

    def call(self, *arrays: NDArray[Any]) -> Any:
        """Run the model; neither inputs nor outputs are copied."""
        return self._request.infer(list(arrays), share_inputs=True, share_outputs=True)

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(flat_arrays(args))

    def predict(self, *args: Any) -> Any:
        import torch

        arrays = flat_arrays(args)
        with self.explained_errors():
            request = self._request_for([list(array.shape) for array in arrays])
            request.infer(arrays, share_inputs=True)
            found = _outputs(request, self._batch.outputs.count)
        return rebuild(self._batch.outputs, [torch.from_numpy(each) for each in found])

    def outputs(self, args: tuple[Any, ...]) -> RawOutputs:
        with self.explained_errors():
            self.call(*args)
            found = _outputs(self._request, self._batch.outputs.count)
            heads: list[NDArray[Any]] = []
            if self._batch.heads:
                request = self._compile(self._shapes, heads=True).create_infer_request()
                request.infer(list(args))
                heads = _outputs(request, len(found) + len(self._batch.heads))[len(found) :]
        return RawOutputs(tuple(found), tuple(heads))

    def reason_of(self, error: Exception) -> str | None:
        if not isinstance(error, RuntimeError):
            return None
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1] if lines else "no reason given"

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        # All calls run the compiled kernels; those of layers whose shapes depend on the data are known after a call.
        self.call(*args)
        digest = node_digest(layer_nodes(read_layers(self._compiled)))
        return digest or Unavailable("OpenVINO's runtime model has no layer that multiplies matrices")

    def _compile(
        self, shapes: Sequence[Sequence[int]], *, heads: bool = False, timed: bool = False
    ) -> openvino.CompiledModel:
        """Compile the model.

        Args:
            shapes: of the inputs; ``ANY_SIZE`` stands for any size.
            heads: keep the outputs of the raw heads too.
            timed: take the time of each layer.
        """
        import openvino

        model = self._core.read_model(self._file)
        if not heads:
            model = openvino.Model(model.get_results()[: self._batch.outputs.count], model.get_parameters(), "model")
        model.reshape({number: openvino.PartialShape(list(shape)) for number, shape in enumerate(shapes)})
        options = {**self._options, "PERF_COUNT": "YES" if timed else "NO"}
        return self._core.compile_model(model, DEVICE, options)

    def _request_for(self, shapes: list[list[int]]) -> openvino.InferRequest:
        """A request that takes inputs of ``shapes``: if they are not those of the batch, of a model for any size."""
        if shapes == self._shapes:
            return self._request
        sizes = [
            [size if size == own else ANY_SIZE for size, own in zip(given, batch)]
            for given, batch in zip(shapes, self._shapes)
        ]
        if str(sizes) not in self._requests:
            self._requests[str(sizes)] = self._compile(sizes).create_infer_request()
        return self._requests[str(sizes)]

    def listed(self, args: tuple[Any, ...], passes: int) -> AttributedAudit:
        with self.explained_errors():
            compiled = self._compile(self._shapes, timed=True)
            request = compiled.create_infer_request()
            request.infer(list(args), share_inputs=True, share_outputs=True)
            first = read_layers(compiled)
            started = perf_counter()
            for _ in range(passes):
                request.infer(list(args), share_inputs=True, share_outputs=True)
            total = perf_counter() - started
            layers = read_layers(compiled)
        is_same = node_digest(layer_nodes(layers)) == node_digest(layer_nodes(read_layers(self._compiled)))
        problems = () if is_same else ("the model that was timed runs other kernels than the one that was audited",)
        nodes = timed_nodes(first, layers, passes, total)
        # Such as ``meta=1.0;ov=2026.4.1;isa=Intel AVX-512 …``.
        knows = "RUNTIME_REQUIREMENTS" in compiled.get_property("SUPPORTED_PROPERTIES")
        said = str(compiled.get_property("RUNTIME_REQUIREMENTS")).split(";") if knows else []
        return AttributedAudit(
            nodes,
            passes,
            LogSource.ENGINE,
            LIBRARY,
            lists_all=True,
            onednn_isa=next((each[4:] for each in said if each.startswith("isa=")), ""),
            problems=problems,
        )


def _outputs(request: openvino.InferRequest, count: int) -> list[NDArray[Any]]:
    """Copies of the first outputs: the next call overwrites them."""
    return [request.get_output_tensor(number).data.copy() for number in range(count)]


def _core() -> openvino.Core:
    import openvino

    return openvino.Core()


BF16_METHOD = "hint"
"""The hint ``INFERENCE_PRECISION_HINT``: OpenVINO decides which layers it computes in bf16, and converts in between."""


class OpenVinoEngine(ExportedEngine):
    """OpenVINO 2024.6 or newer."""

    name, title = "openvino", "OpenVINO"
    packages = (name,)
    bf16_method = BF16_METHOD

    def options(self, setting: ResolvedSetting) -> Mapping[str, str]:
        return compile_options(setting)

    def model(self, session: ExportedSession, workload: Workload, inputs: Inputs, export: Export) -> OpenVinoModel:
        return OpenVinoModel(workload.name, session, export, inputs.args)

    def canary(self, session: ExportedSession) -> Canary:
        return run_canary(_core(), session.options)

    def libraries(self) -> Libraries:
        import openvino

        return installation.read_engine_libraries(f"openvino {openvino.get_version()}", "openvino", self._threads)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.precision not in ("fp32", "bf16"):
            raise UsageError(f"--precision {setting.precision}: OpenVINO runs fp32 and bf16 here")
        if setting.bf16_method not in (None, BF16_METHOD):
            raise UsageError(
                f"--bf16={setting.bf16_method}: OpenVINO takes a hint and decides itself which layers run in bf16; use "
                f"--bf16={BF16_METHOD}"
            )
        if setting.precision == "bf16" and "BF16" not in _core().get_property(DEVICE, "OPTIMIZATION_CAPABILITIES"):
            raise EnvironmentProblem("--precision bf16: OpenVINO has no bf16 kernels for this CPU; use fp32")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        version = f"openvino {installed_version('openvino')}, torch {installed_version('torch')}"
        conversion = Conversion(
            "openvino.frontend.pytorch", version, options={"trace": True, "compress_to_fp16": False}
        )
        return export_once(source, self.name, conversion, lambda place: write_openvino(source, place))
