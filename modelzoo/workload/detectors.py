"""What torchvision's COCO detectors share: preprocessing, inputs, categories, and counts of their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from modelzoo.records.workload import Count
from modelzoo.workload.declaration import InputRequest, Inputs, ModelInput, ModelOutput, Stage, Stages
from modelzoo.workload.initialization import count_candidates, skip_initialization
from modelzoo.workload.inputs import PictureFile, picture_files, pictures

TRAINED_DETECTOR = (
    "a trained SSDLite-MobileNetV2 over 159 COCO val2017 images, same thresholds, 5th to 95th percentile "
    "(benchmarks/detector_counts.py)"
)
"""Source of the ranges of candidates and detections."""


def detector_tensor(picture: Any) -> Any:
    """Convert a picture to a float tensor (3, height, width) in [0, 1]; the model itself resizes and normalizes it."""
    from torchvision.models.detection import SSD300_VGG16_Weights

    # The same transform for all of torchvision's detectors.
    return SSD300_VGG16_Weights.COCO_V1.transforms()(picture)


def detector_inputs(request: InputRequest) -> Inputs:
    """Return one batch of pictures, as the list of tensors that torchvision's detectors take.

    Those after the first batch are resized to its sizes, because an exported model takes pictures of these sizes only.
    """
    chosen = pictures(request.batch, request.seed, request.path, request.skip)
    if request.skip:
        first = pictures(request.batch, request.seed, request.path)
        chosen = [(picture.resize(like.size), name) for (picture, name), (like, _) in zip(chosen, first)]
    return Inputs(args=([detector_tensor(picture) for picture, _ in chosen],), items=tuple(name for _, name in chosen))


def detector_stages(request: InputRequest, build: Callable[[], Any], last: str) -> Stages:
    """Return the stages of a torchvision detector: decode, resize, the model without its transforms, and ``last``.

    Together they compute what the whole model computes for the pictures of ``detector_inputs``: a list of detections
    in pixels of the pictures.

    Args:
        build: builds the detector, whose transforms are run outside of the model.
        last: name of the last stage, which scales the boxes, and pastes the masks if there are any.
    """
    files = picture_files(request.batch, request.seed, request.path)
    transform = skip_initialization(build).transform.eval()

    def decode(files: Sequence[PictureFile]) -> list[Any]:
        return [detector_tensor(file.decode()) for file in files]

    def resize(images: Sequence[Any]) -> ModelInput:
        resized = [transform.resize(transform.normalize(image))[0] for image in images]
        return ModelInput((resized,), context=(_sizes(resized), _sizes(images)))

    def finish(made: ModelOutput) -> Any:
        found = [dict(each) for each in detector_output(made.output)]  # postprocess changes it
        return transform.postprocess(found, *made.context)

    def part(detector: Any) -> Any:
        from modelzoo.workload.detector_parts import without_transforms

        return without_transforms(detector)

    return Stages(
        source=files,
        items=tuple(file.name for file in files),
        before=(Stage("decode images", decode), Stage("resize and normalize", resize, "device")),
        after=(Stage(last, finish, "device"),),
        part=part,
    )


def _sizes(images: Sequence[Any]) -> list[tuple[int, int]]:
    """Height and width of each picture."""
    return [(int(image.shape[-2]), int(image.shape[-1])) for image in images]


def detector_output(output: Any) -> Any:
    """The detections in the output of a torchvision detector: a list of dicts, or (losses, list) if it is scripted."""
    return output[1] if isinstance(output, tuple) else output


def coco_categories() -> dict[int, tuple[int, str]]:
    """Map each label to its COCO category id, which is the same number, and its name.

    Ids that COCO never used are left out.
    """
    from torchvision.models.detection import SSD300_VGG16_Weights

    names = SSD300_VGG16_Weights.COCO_V1.meta["categories"]
    return {label: (label, name) for label, name in enumerate(names) if name not in ("__background__", "N/A")}


def detector_counts(
    detections: Sequence[Any],
    logits: Any,
    threshold: float,
    *,
    candidates_range: tuple[float, float],
    detections_range: tuple[float, float],
) -> list[Count]:
    """Count what the time of a detector depends on, per image: candidates that enter NMS, and final detections.

    Args:
        detections: the model's output, one mapping with ``boxes`` per image.
        logits: class logits of all images, see ``count_candidates``.
        threshold: the detector's score threshold.
        candidates_range: lowest and highest number of candidates with trained weights.
        detections_range: lowest and highest number of detections with trained weights.
    """
    images = len(detections)
    candidates = count_candidates(logits, threshold) / images
    found = sum(len(detection["boxes"]) for detection in detections) / images
    return [
        Count("candidates into NMS per image", candidates, *candidates_range, TRAINED_DETECTOR),
        Count("detections per image", found, *detections_range, TRAINED_DETECTOR),
    ]
