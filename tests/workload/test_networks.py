"""Networks of torchvision and transformers run and validate with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.measure.judgement import Judging
from modelzoo.measure.preparation import prepare
from modelzoo.records.protocol import Assignment, PrepareJob
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import Setting
from modelzoo.workload.discovery import load_workload

DIRECTORY = Path(__file__).parent.parent / "workloads" / "networks"
NAMES = next(option for option in load_workload(DIRECTORY).options if option.name == "network").choices or ()


@pytest.mark.parametrize(
    "name", [each if each == "Gemma3" else pytest.param(each, marks=pytest.mark.slow) for each in NAMES]
)
def test_a_network_with_random_weights_is_judged_by_its_numbers(name: str) -> None:
    """NUMERIC ONLY, because predictions of random weights mean nothing."""
    is_small = load_workload(DIRECTORY).judge({"network": name}).name == "language"  # type: ignore[misc]
    setting = Setting("bf16", "cast") if is_small else Setting(channels_last=True)  # bf16 may be emulated
    setting = setting.replace(weights="random", threads=2, options={"network": name})
    (found,) = prepare(PrepareJob(str(DIRECTORY), (setting,), None), lambda message: None)
    assert found.prepared is not None, found.error
    job = Assignment(str(DIRECTORY), setting, found.prepared, None, validity=ValidityRequest(limit=3))
    validity = Judging(job, lambda message: None).judge().validity
    assert validity.verdict.value == "NUMERIC ONLY", validity
