"""What ssd and maskrcnn share."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from modelzoo.workload import (
    InputRequest,
    ModelOutput,
    coco_categories,
    detector_counts,
    detector_inputs,
    detector_stages,
    detector_tensor,
)
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


def build() -> Any:
    """A very small Mask R-CNN that finds something everywhere."""
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    torch.manual_seed(0)
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=16, padding=1), torch.nn.ReLU())
    backbone.out_channels = 8
    return MaskRCNN(
        backbone,
        num_classes=3,
        min_size=64,
        max_size=96,
        rpn_anchor_generator=AnchorGenerator(((16, 32),), ((1.0,),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 3, 1),
        mask_roi_pool=MultiScaleRoIAlign(["0"], 4, 1),
        rpn_post_nms_top_n_test=20,
        box_detections_per_img=5,
    ).eval()


@pytest.mark.filterwarnings("ignore:RCNN always returns")
@pytest.mark.parametrize("mode", ["eager", "script"])
def test_the_stages_compose_to_the_whole_detector(mode: str) -> None:
    """Bit for bit, also if the model is scripted; with the same names of weights, and as often as it is asked."""
    request = InputRequest(batch=2, seed=0, path=None, options={})
    stages = detector_stages(request, build, "paste masks")
    with torch.inference_mode():
        expected = build()(*detector_inputs(request).args)
        made = stages.model_input()
    model = stages.part(build())
    model = torch.jit.script(model) if mode == "script" else model
    with torch.inference_mode():
        output = ModelOutput(model(*made.args), made.context)
        found, again = (stages.after[0].call(output) for _ in range(2))
    assert list(model.state_dict()) == list(build().state_dict())
    assert torch.equal(found[0]["boxes"], again[0]["boxes"]), "torchvision's own postprocessing changes the output"
    assert all(len(each["boxes"]) == 5 for each in expected)
    assert [sorted(each) for each in found] == [sorted(each) for each in expected]
    for mine, whole in zip(found, expected):
        assert all(torch.equal(mine[name], whole[name]) for name in whole)
        assert mine["masks"].shape[-2:] == whole["masks"].shape[-2:]
