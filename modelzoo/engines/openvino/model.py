"""An exported model, compiled by OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.engine import ExportedModel
from modelzoo.engines.export.store import flat_arrays, read_batch
from modelzoo.engines.export.structure import rebuild
from modelzoo.engines.openvino.conversion import MODEL
from modelzoo.engines.openvino.evidence import Audited, build_evidence, kernel_digest
from modelzoo.engines.openvino.options import DEVICE, require_options
from modelzoo.engines.openvino.runtime_model import read_layers, time_of_passes
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.observation import Event
from modelzoo.evidence.profile import summarize_profile
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.export import Export
from modelzoo.records.profile import Flops, Profile
from modelzoo.setting import ResolvedSetting

if TYPE_CHECKING:
    import openvino
    from numpy.typing import NDArray

PROFILED_PASSES = 2
NO_FLOPS = "operations are counted in torch's operators: see the row of --engine torch"
NO_TRACE = "OpenVINO reports how long each layer took, but not when it ran, so there is no trace"
ANY_SIZE = -1


class OpenVinoModel(ExportedModel):
    """A model compiled for the shapes of the batch, with the options of a setting.

    Times of layers are taken in a second compiled model, which differs in the option ``PERF_COUNT`` only.
    """

    def __init__(
        self, workload: str, setting: ResolvedSetting, core: openvino.Core, options: Mapping[str, str], export: Export,
        args: tuple[Any, ...],
    ) -> None:  # fmt: skip
        super().__init__(workload, setting)
        self._core, self._options = core, options
        self._file, self._batch = Path(export.path) / MODEL, read_batch(export)
        self._shapes = [list(array.shape) for array in flat_arrays(args)]
        started = perf_counter()
        with self.explained_errors():
            self._compiled = self._compile(self._shapes)
        self.compile_seconds = perf_counter() - started
        require_options(self._compiled, options)
        self._request = self._compiled.create_infer_request()
        self._requests = {str(self._shapes): self._request}

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
        digest = kernel_digest(read_layers(self._compiled))
        return digest or Unavailable("OpenVINO's runtime model has no layer that multiplies matrices")

    def audit(self, args: tuple[Any, ...], *, passes: int, canary: Canary | None) -> Evidence:
        audited, setting = self._timed_layers(args, passes), self._setting
        return build_evidence(audited, canary, setting.precision, setting.bf16_method, counted=self._batch.flops)

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        return Unavailable(NO_FLOPS)

    def profile(self, args: tuple[Any, ...], *, trace: Path | None, evidence: Evidence | None) -> Profile:
        audited = self._timed_layers(args, PROFILED_PASSES)
        return summarize_profile(
            _events(audited),
            (),
            audited.passes,
            evidence=evidence,
            problems=(NO_FLOPS, "an exported model has no table by layer", *([NO_TRACE] if trace is not None else [])),
        )

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
        if str(shapes) not in self._requests:
            open_shapes = [
                [size if size == own else ANY_SIZE for size, own in zip(given, batch)]
                for given, batch in zip(shapes, self._shapes)
            ]
            if str(open_shapes) not in self._requests:
                self._requests[str(open_shapes)] = self._compile(open_shapes).create_infer_request()
            return self._requests[str(open_shapes)]
        return self._requests[str(shapes)]

    def _timed_layers(self, args: tuple[Any, ...], passes: int) -> Audited:
        """Run ``passes`` passes, after a first one, and take the time of each layer."""
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
        is_same = kernel_digest(layers) == kernel_digest(read_layers(self._compiled))
        return Audited(
            layers=layers,
            seconds=time_of_passes(first, layers, passes),
            total=total,
            passes=passes,
            isa=_isa(compiled),
            problems=() if is_same else ("the model that was timed runs other kernels than the one that was audited",),
        )


def _outputs(request: openvino.InferRequest, count: int) -> list[NDArray[Any]]:
    """Copies of the first outputs: the next call overwrites them."""
    return [request.get_output_tensor(number).data.copy() for number in range(count)]


def _isa(compiled: openvino.CompiledModel) -> str:
    """The instruction set, from ``meta=1.0;ov=2026.4.1;isa=Intel AVX-512 …``; empty if OpenVINO does not say."""
    if "RUNTIME_REQUIREMENTS" not in compiled.get_property("SUPPORTED_PROPERTIES"):
        return ""
    requirements = str(compiled.get_property("RUNTIME_REQUIREMENTS"))
    return next((each[4:] for each in requirements.split(";") if each.startswith("isa=")), "")


def _events(audited: Audited) -> list[Event]:
    """The layers as calls of operators, in every pass."""
    timed = [layer for layer in audited.layers if layer.average is not None]
    known = sum(audited.seconds.get(layer.name, 0.0) for layer in timed)
    events: list[Event] = []
    for _ in range(audited.passes):
        caller = len(events)
        events.append(Event(PASS_EVENT, max(audited.total - known, 0.0) / audited.passes, -1))
        events += [
            Event(layer.kind, audited.seconds.get(layer.name, 0.0) / audited.passes, caller, layer.shapes)
            for layer in timed
        ]
    return events
