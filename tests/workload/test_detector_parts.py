"""A detector whose transforms are stages of their own computes what the whole detector computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from modelzoo.workload import InputRequest, ModelOutput, detector_inputs, detector_stages


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
