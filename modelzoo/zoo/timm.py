"""Image models of timm: ``timm:convnext_tiny``, or ``timm:convnext_tiny.fb_in1k`` with the tag of its weights.

timm is optional: ``pip install timm``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelzoo.errors import EnvironmentProblem, UsageError, suggestion
from modelzoo.machine.installation import import_torchvision
from modelzoo.validity import Classification, wnids
from modelzoo.workload import Checkpoint, InputRequest, Inputs, Workload, calibrate_batch_norm, pictures

IMAGENET_CLASSES = 1000


def library() -> Any:
    """Return the module ``timm``.

    Raises:
        EnvironmentProblem: it cannot be imported.
    """
    import_torchvision()
    try:
        import timm
    except ImportError as error:
        raise EnvironmentProblem(f"timm cannot be imported ({error}): run pip install timm") from error
    return timm


def names() -> list[str]:
    """The models that can be named.

    Raises:
        EnvironmentProblem: timm cannot be imported.
    """
    found: list[str] = library().list_models()
    return found


def workload(name: str) -> Workload:
    """Return the workload of one of timm's models.

    Classifiers of ImageNet's 1,000 classes are judged; others are timed, and their outputs compared with fp32.

    Raises:
        UsageError: there is no such model, or no such weights of it.
        EnvironmentProblem: timm cannot be imported.
    """
    timm = library()
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        raise UsageError(
            f"timm has no model {architecture!r}{suggestion(architecture, names())}; modelzoo list timm: prints them"
        )
    tags = [each.partition(".")[2] for each in timm.list_models(f"{architecture}.*", pretrained=True)]
    if tag and tag not in tags:
        raise UsageError(f"timm has no weights {tag!r} of {architecture} (it has: {', '.join(tags) or 'none'})")
    found = timm.get_pretrained_cfg(name)
    weights = {} if found is None else found.to_dict()
    preprocessing = timm.data.resolve_data_config(pretrained_cfg=weights)
    is_judged = weights.get("num_classes") == IMAGENET_CLASSES
    # Weights in a file of another name are those of another library, which timm converts.
    hub = None if weights.get("hf_hub_filename") else weights.get("hf_hub_id")
    checkpoint = Checkpoint(f"timm {weights['architecture']}.{weights['tag']}", hub, None) if hub else None

    def build(options: Mapping[str, Any]) -> Any:
        return timm.create_model(name, pretrained=False)

    def transform(picture: Any) -> Any:
        return timm.data.create_transform(**preprocessing)(picture)

    def inputs(request: InputRequest) -> Inputs:
        import torch

        chosen = pictures(request.batch, request.seed, request.path, request.skip)
        tensors = [transform(picture) for picture, _ in chosen]
        return Inputs((torch.stack(tensors),), tuple(label for _, label in chosen))

    def labels() -> Sequence[str]:
        return list(timm.data.ImageNetInfo("imagenet-1k").label_descriptions())

    return Workload(
        name=f"timm:{name}",
        title=f"{name} (timm), image classification",
        unit="images",
        build=build,
        inputs=inputs,
        checkpoint=lambda options: checkpoint,
        randomize=lambda model, batch, seed: calibrate_batch_norm(model, batch),
        judge=(lambda options: Classification(transform, labels, wnids)) if is_judged else None,
        libraries=("timm",),
        identity=f"timm{timm.__version__}",
        defaults=f"batch 1, {'×'.join(map(str, preprocessing['input_size'][1:]))} pixels",
    )
