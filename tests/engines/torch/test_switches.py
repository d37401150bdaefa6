"""torch's process-wide switches are set, recorded and restored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modelzoo.engines.torch import switches
from modelzoo.errors import EnvironmentProblem
from modelzoo.setting import Setting

FAST_MATH = Setting("bf16", "fastmath")


def mkldnn_state() -> Any:
    """The switches of this torch that fast math sets."""
    if hasattr(torch.backends.mkldnn, "conv"):
        return (torch.backends.mkldnn.conv.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision)
    return torch.get_float32_matmul_precision()


def test_the_backend_is_recorded_and_restored() -> None:
    """``blas`` switches oneDNN off inside only; fp32's own switches are recorded as well."""
    before = torch.backends.mkldnn.enabled
    with switches.applied(Setting(backend="blas")) as names:
        assert names[0] == "torch.backends.mkldnn.enabled=False"
        assert len(names) > 1
        assert torch.backends.mkldnn.enabled is False
    assert torch.backends.mkldnn.enabled == before


def test_a_missing_onednn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that was requested and is not available must not be replaced by another one."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with (
        pytest.raises(EnvironmentProblem, match="--backend onednn: torch .* was built without oneDNN"),
        switches.applied(Setting(backend="onednn")),
    ):
        pass


@pytest.mark.parametrize("setting", [FAST_MATH, Setting(), Setting("bf16", "autocast")])
def test_only_fast_math_lets_onednn_round(setting: Setting) -> None:
    """The switches hold inside the block, are named for the record, and are restored after an error too."""
    before = mkldnn_state()
    wanted = ("bf16", "medium") if setting is FAST_MATH else ("ieee", "highest")
    with pytest.raises(ZeroDivisionError), switches.applied(setting) as names:
        assert names
        assert all(name.endswith((*(f"={w}" for w in wanted), *(f"({w})" for w in wanted))) for name in names)
        assert any(w in str(mkldnn_state()) for w in wanted)
        raise ZeroDivisionError
    assert mkldnn_state() == before


@pytest.mark.parametrize("on", [True, False])
def test_cuda_computes_fp32_inside_and_what_it_did_afterwards(on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 is off inside; the user's own choice is back afterwards."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    if not hasattr(torch.backends.mkldnn, "conv"):
        parts = {"conv": SimpleNamespace(fp32_precision="none"), "matmul": SimpleNamespace(fp32_precision="none")}
        monkeypatch.setattr(torch.backends, "mkldnn", SimpleNamespace(**parts))
    matmul, conv = SimpleNamespace(fp32_precision="none"), SimpleNamespace(fp32_precision="tf32")
    monkeypatch.setattr(torch.backends.cuda, "matmul", matmul)
    monkeypatch.setattr(torch.backends, "cudnn", SimpleNamespace(conv=conv))
    with switches.fast_math(on):
        assert (matmul.fp32_precision, conv.fp32_precision) == ("ieee", "ieee")
    assert (matmul.fp32_precision, conv.fp32_precision) == ("none", "tf32")


def test_older_torch_has_two_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.9 there are a hint for matrix products and cuDNN's TF32; both are restored."""
    cudnn = SimpleNamespace(allow_tf32=True)
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    monkeypatch.setattr(torch.backends, "cudnn", cudnn)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    calls: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", calls.append)
    with switches.fast_math(True) as names:
        assert names == ("torch.set_float32_matmul_precision(medium)",)
        assert cudnn.allow_tf32 is False
    assert calls == ["medium", "high"]
    assert cudnn.allow_tf32 is True


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.13.0+cu117", True), ("2.8.0", True), ("2.9.0", False), ("2.10.0+cpu", False), (None, False)],
)
def test_torch_before_2_9_needs_the_variable(
    version: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN's math mode can be switched at run time since 2.9."""
    monkeypatch.setattr(switches, "installed_version", lambda name: version)
    assert switches.needs_math_mode_variable() is expected
