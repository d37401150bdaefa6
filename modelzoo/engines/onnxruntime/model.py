"""An exported model in an ONNX Runtime session."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.engine import ExportedModel
from modelzoo.engines.export.onnx import MODEL, WITH_HEADS, input_names
from modelzoo.engines.export.store import flat_arrays, read_batch
from modelzoo.engines.export.structure import rebuild
from modelzoo.engines.onnxruntime.evidence import build_evidence, kernel_digest
from modelzoo.engines.onnxruntime.flops import count_flops
from modelzoo.engines.onnxruntime.options import PROVIDERS, SessionSettings
from modelzoo.engines.onnxruntime.profile_log import ProfileLogError, parse_calls, parse_profile
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.evidence.observation import Event
from modelzoo.evidence.profile import summarize_profile
from modelzoo.evidence.profiler import nest_spans
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.export import Export
from modelzoo.records.profile import Flops, Profile
from modelzoo.setting import ResolvedSetting

if TYPE_CHECKING:
    import onnxruntime

PROFILED_PASSES = 2
NO_LAYERS = "an exported model has no table by layer"


class OnnxRuntimeModel(ExportedModel):
    """A session for the model, with the options of a setting.

    What ONNX Runtime tells of kernels comes from its profiler, which a session has from its beginning or not at all,
    and which takes time. So it is a second session that is profiled, with the same model and the same other options.
    """

    compile_seconds = None

    def __init__(self, workload: str, setting: ResolvedSetting, options: SessionSettings, export: Export) -> None:
        super().__init__(workload, setting)
        self._options = options
        self._directory, self._batch = Path(export.path), read_batch(export)
        with self.explained_errors():
            self._session = self._open(MODEL)
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

    def reason_of(self, error: Exception) -> str | None:
        is_own = type(error).__module__.startswith("onnxruntime.")
        return str(error).strip().partition("\n")[0] if is_own else None

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        try:
            digest = kernel_digest(self._profiled(args, 1, warm_up=0), self._setting.bf16_method)
        except ProfileLogError as error:
            return Unavailable(str(error))
        return digest or Unavailable("ONNX Runtime's profile names no kernel that multiplies matrices")

    def audit(self, args: tuple[Any, ...], *, passes: int, canary: Canary | None) -> Observed[Evidence]:
        try:
            events = self._profiled(args, passes)
        except ProfileLogError as error:
            return Unavailable(str(error))
        setting = self._setting
        return build_evidence(events, passes, canary, setting.precision, setting.bf16_method, counted=self._batch.flops)

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        try:
            return count_flops(parse_calls(self._profile_of(args, 1)))
        except ProfileLogError as error:
            return Unavailable(str(error))

    def profile(self, args: tuple[Any, ...], *, trace: Path | None, evidence: Evidence | None) -> Observed[Profile]:
        try:
            text = self._profile_of(args, 1 + PROFILED_PASSES)
            events, flops = nest_spans(parse_profile(text, PROFILED_PASSES)), count_flops(parse_calls(text))
        except ProfileLogError as error:
            return Unavailable(str(error))
        if trace is not None:
            trace.write_bytes(text)  # it is a Chrome trace
        return summarize_profile(
            events,
            (),
            PROFILED_PASSES,
            evidence=evidence,
            flops=flops,
            trace=str(trace) if trace is not None else None,
            problems=(NO_LAYERS,),
        )

    def _open(self, file: str, profile: Path | None = None) -> onnxruntime.InferenceSession:
        import onnxruntime

        options = self._options.options(profile=profile)
        return onnxruntime.InferenceSession(str(self._directory / file), options, providers=list(PROVIDERS))

    def _profiled(self, args: tuple[Any, ...], passes: int, *, warm_up: int = 1) -> tuple[Event, ...]:
        """Run ``passes`` calls on prepared ``args`` in a profiled session, and return the nodes that ran.

        Raises:
            ProfileLogError: the profiler's file cannot be read.
        """
        return nest_spans(parse_profile(self._profile_of(args, warm_up + passes), passes))

    def _profile_of(self, args: tuple[Any, ...], calls: int) -> bytes:
        """Run ``calls`` calls in a profiled session, and return the contents of the profiler's file."""
        with tempfile.TemporaryDirectory() as directory, self.explained_errors():
            session = self._open(MODEL, Path(directory) / "profile")
            for _ in range(calls):
                session.run(self._outputs, *args)
            return Path(session.end_profiling()).read_bytes()
