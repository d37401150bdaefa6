"""Jittor's ResNet50 as a model of the suite: its export, the model itself, and what proves its precision.

Jittor runs one network, with the weights of torchvision's. ``export`` runs where torch is, everything else in Jittor's
own environment. The exported model is a file with the tensors of the torch module; the architecture is that of
``jittor.models.resnet50``, and the comparison of outputs shows that it is the same one.

The proof is the log of the oneDNN that Jittor calls, and a canary. Jittor's own kernels, such as batch norm and
activations, are not in that log; their time stays unattributed. That none of them multiplies matrices, the operations
show that torch counts in the same model.

``python -m modelzoo.engines.jittor.model``, the last step of ``scripts/setup-jittor``, compiles Jittor, and checks that
it computes with oneDNN. Jittor compiles its core when it is imported for the first time, and kernels
when a model runs for the first time; both are kept in its cache.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from modelzoo.engines import jittor as environment
from modelzoo.engines.export.engine import ExportedModel
from modelzoo.engines.export.store import export_once
from modelzoo.engines.jittor import import_jittor, onednn, onednn_version, reason_of
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.errors import EnvironmentProblem, UsageError, WeightsError
from modelzoo.evidence.attribution import log_parts
from modelzoo.evidence.audit import captured_output
from modelzoo.evidence.canary import canary_cases, compared
from modelzoo.evidence.coverage import AttributedAudit, Node
from modelzoo.evidence.kernel_names import UNATTRIBUTED
from modelzoo.evidence.logs import kernel_digest, logged_types, parse_onednn
from modelzoo.evidence.precision import PrecisionProver
from modelzoo.machine.facts import usable_threads
from modelzoo.machine.installation import installed_version
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.evidence import KernelDigest, LogSource, ProofSource
from modelzoo.records.profile import Flops
from modelzoo.records.run_report import Compilation
from modelzoo.records.workload import Conversion, Export
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs
from modelzoo.workload.initialization import skip_initialization
from modelzoo.workload.state import mismatches, without_counters

if TYPE_CHECKING:
    from modelzoo.engines.export.source import TorchSource

STATE = "state.safetensors"
ARCHITECTURE = "resnet50"


def export(source: TorchSource) -> Export:
    """Write the tensors of ``source``, once, in Jittor's terms.

    Raises:
        UsageError: the model is not torchvision's ResNet50.
        EnvironmentProblem: the cache cannot be written to.
    """
    from torchvision.models import ResNet, resnet50

    problem = f"{source.workload.name} cannot run on Jittor"
    if not isinstance(source.module, ResNet):
        raise UsageError(
            f"{problem}: jittor.models holds classification networks only, and of these the suite runs torchvision's "
            "ResNet50; use another --engine"
        )
    state = without_counters(source.module.state_dict())
    plain = skip_initialization(lambda: resnet50(weights=None, num_classes=source.module.fc.out_features))
    if found := mismatches(without_counters(plain.state_dict()), state):
        raise UsageError(f"{problem}: it is not torchvision's ResNet50 ({'; '.join(found)}); use another --engine")

    def write(directory: Path) -> None:
        from safetensors.numpy import save_file

        save_file({name: tensor.contiguous().numpy() for name, tensor in state.items()}, str(directory / STATE))

    version = f"safetensors {installed_version('safetensors')}"
    return export_once(
        source, "Jittor", Conversion("state dict", version, options={"architecture": ARCHITECTURE}), write
    )


def load(path: Path) -> Any:
    """Return Jittor's ResNet50 with the tensors that ``export`` wrote into the directory ``path``, in eval mode.

    Raises:
        EnvironmentProblem: the file cannot be read.
        WeightsError: names or shapes differ from those of Jittor's model.
    """
    from jittor.models import resnet50
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        state = load_file(str(path / STATE))
    except (OSError, SafetensorError) as error:
        raise EnvironmentProblem(f"the exported model in {path} cannot be read any more; run again") from error
    model = resnet50(num_classes=len(state["fc.bias"]) if "fc.bias" in state else 1000)
    # Jittor's own load_state_dict returns nothing, and only logs a name that is missing or a shape that differs.
    found = mismatches(model.state_dict(), state)
    if found:
        raise WeightsError(f"{path / STATE} does not fit Jittor's ResNet50: {'; '.join(found)}; use another --engine")
    model.load_state_dict(state)
    model.eval()
    return model


_NO_LOG = "the log of oneDNN names no kernel that ran, so Jittor's precision cannot be verified"
_NOT_LOGGED = (
    "oneDNN 2.6 does not log dnnl_sgemm, with which Jittor multiplies matrices: only the canary shows its precision"
)


def _logged(call: Callable[[], object], problems: list[str]) -> str:
    """Run ``call`` with oneDNN's verbose mode on; return what was printed."""
    library = onednn()
    library.dnnl_set_verbose(1)
    try:
        with captured_output(problems) as written:
            call()
            return written()
    finally:
        library.dnnl_set_verbose(0)


def log_kernels(call: Callable[[], object]) -> Observed[KernelDigest]:
    """Run ``call`` once, and say which kernels of oneDNN it ran."""
    problems: list[str] = []
    return kernel_digest(_logged(call, problems)) or Unavailable("; ".join(problems) or _NO_LOG)


def run_canary() -> Canary:
    """Run the operators of ``modelzoo.evidence.canary``, and compare them with fp64."""
    import jittor

    functions: dict[str, Callable[..., Any]] = {
        "matmul": jittor.matmul,
        "linear": jittor.nn.linear,
        "conv": lambda images, weight, bias: jittor.nn.conv2d(images, weight, bias, padding=1),
        "pointwise": jittor.nn.conv2d,
    }
    cases = canary_cases()
    results = (functions[each.operator](*map(jittor.array, (*each.inputs, *each.constants))) for each in cases)
    return compared(cases, (result.numpy() for result in results))


class JittorModel(ExportedModel):
    """A module of Jittor; its first call, which compiles kernels or loads compiled ones, is part of loading it."""

    def __init__(
        self, workload: str, setting: ResolvedSetting, network: Any, inputs: Inputs, counted: Flops | None = None
    ) -> None:
        super().__init__(workload, setting, counted)
        self._network = network
        args = self.prepare(inputs.args)
        began = perf_counter()
        with self.explained_errors():
            self.call(*args)
        taken = perf_counter() - began
        self.compilation = Compilation(taken, taken)

    def call(self, *args: Any) -> Any:
        import jittor

        output = self._network(*args)
        # Jittor only records what is to be computed, so the output is requested here, and waited for.
        jittor.sync_all(True)
        return output

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        import jittor

        prepared = tuple(jittor.array(arg) for arg in args)
        jittor.sync_all(True)
        return prepared

    def predict(self, *args: Any) -> Any:
        return self.call(*self.prepare(args)).numpy()

    def outputs(self, args: tuple[Any, ...]) -> RawOutputs:
        return RawOutputs((self.call(*args).numpy(),))

    def reason_of(self, error: Exception) -> str | None:
        return reason_of(error) if isinstance(error, RuntimeError) else None

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        return log_kernels(lambda: self.call(*args))

    def listed(self, args: tuple[Any, ...], passes: int) -> Observed[AttributedAudit]:
        problems, seconds = [_NOT_LOGGED], 0.0

        def timed() -> None:
            nonlocal seconds
            began = perf_counter()
            for _ in range(passes):
                self.call(*args)
            seconds = perf_counter() - began

        log = parse_onednn(_logged(timed, problems), platform.machine())
        if not any(primitive.is_compute for primitive in log.primitives):
            return Unavailable(_NO_LOG)
        nodes = list(log_parts(log, (), PrecisionProver(None, None)))
        rest = max(seconds - sum(node.seconds for node in nodes), 0.0)
        nodes.append(Node(UNATTRIBUTED, None, (), UNATTRIBUTED, UNATTRIBUTED, ProofSource.NOTHING, rest, passes))
        return AttributedAudit(
            nodes,
            passes,
            LogSource.RUNTIME_SWITCH,
            "oneDNN",
            logged=logged_types(log.primitives),
            unread=log.unread,
            onednn_version=log.version or onednn_version(),
            onednn_isa=log.isa,
            problems=tuple(dict.fromkeys(problems)),
        )


PIXELS = 64


def main() -> int:
    """Run ResNet50 once and the canary, and print one line that says what was found; the entry point of the process."""
    os.environ.update(environment.variables(usable_threads().count))
    del os.environ[environment.SERIAL_VARIABLE]  # everything is compiled here
    try:
        jittor = import_jittor()
        from jittor.models import resnet50

        model = resnet50()
        model.eval()
        with jittor.flag_scope(use_cuda=0, no_grad=1):
            pictures = jittor.zeros((1, 3, PIXELS, PIXELS))
            kernels = log_kernels(lambda: model(pictures).numpy())
            canary = run_canary()
        if isinstance(kernels, Unavailable):
            raise EnvironmentProblem(
                f"Jittor does not compute with oneDNN: {kernels.reason}; remove {environment.home()}"
            )
        if canary.verdict("fp32") is not CanaryVerdict.FP32:
            raise EnvironmentProblem(f"Jittor does not compute in fp32: {canary.summary}; unset fast-math variables")
    except EnvironmentProblem as error:
        print(f"setup-jittor: {error}", file=sys.stderr)
        return 2
    print(f"setup-jittor: Jittor {environment.version()}, oneDNN {onednn_version()}: {canary.summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
