"""The one network that runs on Jittor: ResNet50, with the weights of torchvision's.

``export`` runs where torch is, ``load`` in Jittor's own environment. The exported model is a file with the tensors of
the torch module; the architecture is that of ``jittor.models.resnet50``, and the comparison of outputs shows that it is
the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.store import export_once
from modelzoo.errors import EnvironmentProblem, UsageError, WeightsError
from modelzoo.machine.installation import installed_version
from modelzoo.records.workload import Conversion, Export
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
    require_resnet50(source.workload.name, source.module)

    def write(directory: Path) -> tuple[str, ...]:
        from safetensors.numpy import save_file

        state = without_counters(source.module.state_dict())
        save_file({name: tensor.contiguous().numpy() for name, tensor in state.items()}, str(directory / STATE))
        return ()

    version = f"safetensors {installed_version('safetensors')}"
    return export_once(
        source, "Jittor", Conversion("state dict", version, options={"architecture": ARCHITECTURE}), write
    )


def require_resnet50(workload: str, module: Any) -> None:
    """Raise a ``UsageError`` unless ``module`` is torchvision's ResNet50, with any number of classes."""
    from torchvision.models import ResNet, resnet50

    problem = f"{workload} cannot run on Jittor: jittor.models holds classification networks only"
    if not isinstance(module, ResNet):
        raise UsageError(f"{problem}, and of these the suite runs torchvision's ResNet50; use another --engine")
    state = without_counters(module.state_dict())
    plain = skip_initialization(lambda: resnet50(weights=None, num_classes=_classes(state)))
    found = mismatches(without_counters(plain.state_dict()), state)
    if found:
        raise UsageError(
            f"{workload} cannot run on Jittor: it is not torchvision's ResNet50 ({'; '.join(found)}); use "
            "another --engine"
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
    model = resnet50(num_classes=_classes(state))
    # Jittor's own load_state_dict returns nothing, and only logs a name that is missing or a shape that differs.
    found = mismatches(model.state_dict(), state)
    if found:
        raise WeightsError(f"{path / STATE} does not fit Jittor's ResNet50: {'; '.join(found)}; report this as a bug")
    model.load_state_dict(state)
    model.eval()
    return model


def _classes(state: Mapping[str, Any]) -> int:
    """The number of classes of a network with this state."""
    bias = state.get("fc.bias")
    return 1000 if bias is None else int(bias.shape[0])
