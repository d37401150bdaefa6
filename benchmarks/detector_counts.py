"""How many candidates does a trained detector pass to non-maximum suppression? Random weights aim at these counts.

    .venv/bin/python benchmarks/detector_counts.py [--data DIR]

Runs the trained SSDLite-MobileNetV2 of tests/workloads/ssdlite on the COCO images of the test data (see
CONTRIBUTING.md). Prints candidates and detections per image for the thresholds of torchvision's SSD300 (score 0.01,
400 per class, NMS 0.45, 200 kept) and Mask R-CNN (score 0.05, NMS 0.5, 100 kept).
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

from common import parser_of

from modelzoo.workload import discovery
from modelzoo.workload.inputs import read_picture
from modelzoo.workload.state import load_state_dict, read_state_dict

RULES = {"SSD300": (0.01, 400, 0.45, 200), "Mask R-CNN": (0.05, 10**9, 0.5, 100)}
"""Score threshold, candidates kept per class, NMS overlap, detections kept: torchvision's defaults."""


def counts(scores: Any, boxes: Any, rule: tuple[float, int, float, int]) -> tuple[int, int]:
    """Count candidates and detections of one image; ``scores`` is (boxes, classes), ``boxes`` (boxes, 4)."""
    import torch
    from torchvision.ops import batched_nms

    threshold, most, overlap, kept = rule
    found_scores, found_boxes, found_labels = [], [], []
    for label in range(scores.shape[1]):
        chosen = (scores[:, label] > threshold).nonzero()[:, 0]
        if len(chosen) > most:
            chosen = chosen[scores[chosen, label].topk(most).indices]
        found_scores.append(scores[chosen, label])
        found_boxes.append(boxes[chosen])
        found_labels.append(torch.full((len(chosen),), label))
    all_scores, labels = torch.cat(found_scores), torch.cat(found_labels)
    keep = batched_nms(torch.cat(found_boxes), all_scores, labels, overlap)[:kept]
    return len(all_scores), len(keep)


def main() -> int:
    """Print the 5th percentile, the median and the 95th percentile of each count."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, help="directory of images (default: the test data's)")
    args = parser.parse_args()
    import torch

    workload = discovery.load_workload(discovery.CHECKOUT / "tests" / "workloads" / "ssdlite")
    module = sys.modules[workload.build.__module__]
    files = sorted((args.data or module.DATA / "data" / "coco" / "val2017").glob("*.jpg"))
    assert workload.judge is not None
    preprocess = workload.judge({}).preprocess
    model = workload.build({})
    load_state_dict(model, read_state_dict(module.WEIGHTS), module.WEIGHTS)
    observed: dict[str, list[tuple[int, int]]] = {name: [] for name in RULES}
    for path in files:
        with torch.inference_mode():
            coded, logits = model(preprocess(read_picture(path, upright=True).image)[None])
            boxes = model.decode(coded)[0][:, [1, 0, 3, 2]] * module.SIZE
            scores = logits[0].sigmoid()[:, 1:]
            for name, rule in RULES.items():
                observed[name].append(counts(scores, boxes, rule))
    for name, found in observed.items():
        for what, values in zip(("candidates", "detections"), zip(*found)):
            ordered = sorted(values)
            low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.05, 0.95))
            print(f"{name} {what}: 5 % {low}, median {median(values):.0f}, 95 % {high} ({len(values)} images)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
