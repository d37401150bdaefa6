"""What ssd and maskrcnn share."""

from __future__ import annotations

import torch

from modelzoo.workload import coco_categories, detector_counts, detector_tensor
from modelzoo.workload.inputs import photograph


def test_the_tensor_is_that_of_torchvisions_detectors() -> None:
    """One transform serves both workloads: floats in [0, 1], neither resized nor normalized."""
    from torchvision.models.detection import MaskRCNN_ResNet50_FPN_Weights, SSD300_VGG16_Weights

    picture = photograph()
    tensor = detector_tensor(picture)
    assert tensor.shape == (3, picture.height, picture.width)
    assert 0 <= float(tensor.min()) < float(tensor.max()) <= 1
    for weights in (MaskRCNN_ResNet50_FPN_Weights.COCO_V1, SSD300_VGG16_Weights.COCO_V1):
        assert weights.transforms()(picture).equal(tensor)


def test_categories_are_those_of_both_detectors() -> None:
    """Labels are COCO's ids: 80 categories up to 90, without the background and ids that were never used."""
    from torchvision.models.detection import MaskRCNN_ResNet50_FPN_Weights

    categories = coco_categories()
    assert (len(categories), max(categories)) == (80, 90)
    assert categories[1] == (1, "person")
    names = MaskRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"]
    assert all(names[label] == name for label, (_, name) in categories.items())


def test_counts_are_per_image() -> None:
    """Two images with three candidates and one detection each on average, each with its range and source."""
    logits = torch.tensor([[0.0, 9.0, -9.0], [0.0, 9.0, 9.0]]).repeat(2, 1)
    detections = [{"boxes": torch.zeros(2, 4)}, {"boxes": torch.zeros(0, 4)}]
    candidates, found = detector_counts(detections, logits, 0.05, candidates_range=(1, 5), detections_range=(2, 9))
    assert candidates.name == "candidates into NMS per image", "stored results and the summary compare counts by name"
    assert (candidates.value, candidates.low, candidates.high) == (3, 1, 5)
    assert (found.name, found.value, found.low, found.high) == ("detections per image", 1, 2, 9)
    assert candidates.is_typical
    assert not found.is_typical
    assert candidates.source == found.source
