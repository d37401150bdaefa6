"""The one network that runs on Jittor: ResNet50, with the weights of torchvision's.

``export`` runs where torch is, ``load`` in Jittor's own environment. The exported model is a file with the tensors of
the torch module; the architecture is that of ``jittor.models.resnet50``, and the comparison of outputs shows that it is
the same one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.store import export_once
from modelzoo.errors import EnvironmentProblem, UsageError, WeightsError
from modelzoo.machine.installation import installed_version
from modelzoo.records.workload import Conversion, Export
from modelzoo.workload.state import mismatches, without_counters

if TYPE_CHECKING:
    from modelzoo.engines.export.source import TorchSource

STATE = "state.safetensors"
ARCHITECTURE = "resnet50"


def export(source: TorchSource) -> Export:
    """Write the tensors of ``source``, once, in Jittor's terms.

    Raises:
        UsageError: the model is no residual network of torchvision's.
        EnvironmentProblem: the cache cannot be written to.
    """
    from torchvision.models import ResNet

    if not isinstance(source.module, ResNet):
        raise UsageError(
            f"{source.workload.name} cannot run on Jittor: jittor.models holds classification networks only, and of "
            "these the suite runs torchvision's ResNet50; use another --engine"
        )

    def write(directory: Path) -> tuple[str, ...]:
        from safetensors.numpy import save_file

        state = without_counters(source.module.state_dict())
        save_file({name: tensor.contiguous().numpy() for name, tensor in state.items()}, str(directory / STATE))
        return ()

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
