"""Fixtures of the tests that time calls and measure in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from programs import in_this_process
from simulated_device import SimulatedDevice

from modelzoo.measure import instance, jobs, pipeline, sampler
from modelzoo.records.protocol import PrepareJob


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimulatedDevice:
    """A simulated device whose time is also that of the host."""
    simulated = SimulatedDevice()
    for module in (sampler, pipeline):
        monkeypatch.setattr(module, "perf_counter_ns", simulated.stamp)
    return simulated


@pytest.fixture
def prepared_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are resolved in this process, which has imported torch already; others run them."""
    remote = jobs.Remote
    monkeypatch.setattr(
        jobs, "Remote", lambda *words: (in_this_process if isinstance(words[1], PrepareJob) else remote)(*words)
    )


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measuring here sets what holds for this process, and an instance a memory policy, which cannot be read back."""
    import torch

    monkeypatch.setattr(instance, "prefer_own_node", lambda cpus: (None, "not in a test"))
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(before[0])
    torch.set_float32_matmul_precision(before[1])
