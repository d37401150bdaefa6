"""Runtime models that OpenVINO returned, recorded by ``tests/data/record_openvino.py``."""

from __future__ import annotations

import json

from places import ROOT

from modelzoo.engines.openvino.evidence import Layer

F32, DEFAULT = "f32", "default"


def recorded(precision: str) -> list[list[Layer]]:
    """The layers after one pass, and after two more; of ``F32`` or ``DEFAULT``, which has no precision hint."""
    path = ROOT / f"tests/data/openvino_2026.4.1_x86_64_{precision}.json"
    found: list[list[Layer]] = json.loads(path.read_text(encoding="utf-8"))
    return found
