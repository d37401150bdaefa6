"""How long the products of a model are called again."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from exportable_workloads import CLASSIFIER, source_of

from modelzoo.engines.torch.engine import TorchModel, TorchSession
from modelzoo.evidence import recording, replay
from modelzoo.frozen import replace
from modelzoo.machine import facts
from modelzoo.setting import ResolvedSetting


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that each pass was given."""
    found: list[float] = []
    ask = replay.ask_products

    def noting(collector: Any, budget: float, asked: Any) -> Any:
        found.append(budget)
        return ask(collector, budget, asked=asked)

    monkeypatch.setattr(recording, "ask_products", noting)
    return found


def audited(folder: Path, audit: Callable[[TorchModel, tuple[Any, ...]], object]) -> None:
    """Load a small classifier, and audit it."""
    setting = ResolvedSetting("fp32", batch=2, threads=1)
    source, session = source_of(CLASSIFIER, folder, setting), TorchSession(setting)
    with session.active():
        model = session.load(CLASSIFIER, source.weights, source.inputs)
        audit(model, model.prepare(source.inputs.args))


def test_the_time_is_not_limited_on_an_emulated_processor(
    tmp_path: Path, budgets: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is 6 s where the machine is what it says."""
    audited(tmp_path, lambda model, args: model.audit(args, canary=None, replay=True))
    machine = replace(facts.read_machine(), emulator="qemu-user")
    monkeypatch.setattr(facts, "read_machine", lambda: machine)
    audited(tmp_path, lambda model, args: model.audit(args, canary=None, replay=True))
    assert budgets == [6.0, inf]
