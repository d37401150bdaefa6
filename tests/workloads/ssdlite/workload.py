"""SSDLite300-MobileNetV2: a trained COCO detector whose code and weights lie outside the project.

They are found under ``MODELZOO_TEST_DATA`` (default: ``shared`` beside the project):
``--weights $MODELZOO_TEST_DATA/weights/ssd/ssdlite300_mnv2_coco.safetensors``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo.validity import Detection, stacked
from modelzoo.workload import InputRequest, Inputs, Workload, pictures
from modelzoo.workload.discovery import CHECKOUT

DATA = Path(os.environ.get("MODELZOO_TEST_DATA") or CHECKOUT.parent / "shared")
WEIGHTS = DATA / "weights" / "ssd" / "ssdlite300_mnv2_coco.safetensors"
SIZE = 300
SCORE = 0.01
"""Boxes under this score are dropped before NMS."""
NMS_IOU = 0.6
DETECTIONS = 100


def _module() -> Any:
    sys.path.insert(0, str(DATA / "models"))
    try:
        import ssdlite_mobilenet_v2
    finally:
        sys.path.remove(str(DATA / "models"))
    return ssdlite_mobilenet_v2


def build(options: Mapping[str, Any]) -> Any:
    return _module().SSDLite(classes=90).eval()


def load(options: Mapping[str, Any], path: Path) -> Any:
    from safetensors.torch import load_file

    model = build(options)
    state = {name: value.float() if value.is_floating_point() else value for name, value in load_file(path).items()}
    model.load_state_dict(state)
    return model


def preprocess(picture: Any) -> Any:
    """300×300, bilinear, in [−1, 1]."""
    import numpy as np
    import torch
    from PIL import Image

    resized = picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1).float() / 127.5 - 1


def inputs(request: InputRequest) -> Inputs:
    import torch

    chosen = pictures(request.batch, request.seed, request.path, request.skip)
    return Inputs((torch.stack([preprocess(p) for p, _ in chosen]),), tuple(name for _, name in chosen))


def detections(output: Any, sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Decode, score by sigmoid, NMS by class, best 100."""
    import torch
    from torchvision.ops import batched_nms

    anchors = _module().make_anchors()
    found = []
    for box, logits, (height, width) in zip(output[0].float(), output[1].float(), sizes):
        scores = logits.sigmoid()[:, 1:]
        decoded = decode(box, anchors)[:, [1, 0, 3, 2]].clamp(0, 1)
        decoded = decoded * torch.tensor([width, height, width, height])
        rows, labels = (scores > SCORE).nonzero(as_tuple=True)
        chosen = scores[rows, labels]
        keep = batched_nms(decoded[rows], chosen, labels, NMS_IOU)[:DETECTIONS]
        found.append({"boxes": decoded[rows][keep], "scores": chosen[keep], "labels": labels[keep] + 1})
    return found


def decode(box: Any, anchors: Any) -> Any:
    """Offsets [N, 4] to y0, x0, y1, x1 in [0, 1]; box coder scales 10, 10, 5, 5."""
    import torch

    offsets = box / torch.tensor([10.0, 10.0, 5.0, 5.0])
    centre = offsets[:, :2] * anchors[:, 2:] + anchors[:, :2]
    extent = offsets[:, 2:].exp() * anchors[:, 2:]
    return torch.cat([centre - extent / 2, centre + extent / 2], -1)


def categories() -> dict[int, tuple[int, str]]:
    names = json.loads((DATA / "data" / "coco91.json").read_text(encoding="utf-8"))
    return {label: (label, name) for label, name in enumerate(names) if name not in ("__background__", "N/A")}


WORKLOAD = Workload(
    name="ssdlite",
    title="SSDLite300-MobileNetV2, COCO",
    unit="images",
    build=build,
    load=load,
    inputs=inputs,
    batch=1,
    judge=lambda options: Detection(
        preprocess=preprocess,
        categories=categories,
        detections=detections,
        arguments=stacked,
        shown=0.4,
        published={"box_ap": 22.0},
    ),
)
