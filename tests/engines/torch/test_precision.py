"""fp32 is fp32 and bf16 is asked for in the right way, by variables and by torch's switches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from modelzoo.engines.torch import precision
from modelzoo.engines.torch.precision import FPMATH
from modelzoo.errors import UsageError
from modelzoo.setting import Setting

FP32, BF16 = Setting(), Setting("bf16")


@pytest.fixture
def x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be x86, whatever the machine."""
    monkeypatch.setattr(precision, "_is_arm", lambda: False)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be aarch64, whatever the machine."""
    monkeypatch.setattr(precision, "_is_arm", lambda: True)


@pytest.mark.parametrize("name", list(precision.FAST_MATH_VARIABLES))
def test_fp32_gets_no_fast_math_variable(name: str) -> None:
    """Each is removed from the worker's environment, and recorded with its value."""
    found = precision.scrub(FP32, {name: "BF16", "PATH": "/bin"})
    assert found.variables == {"PATH": "/bin"}
    assert found.removed == {name: "BF16"}
    assert found.applied == {}
    assert found.bf16_method is None


def test_a_clean_environment_stays_as_it_is(x86: None) -> None:
    """Nothing is removed and nothing set where nothing was asked for."""
    found = precision.scrub(BF16, {"PATH": "/bin"})
    assert (dict(found.variables), dict(found.removed), dict(found.applied)) == ({"PATH": "/bin"}, {}, {})


@pytest.mark.parametrize("value", ["BF16", "bf16"])
@pytest.mark.parametrize("name", [FPMATH, "ONEDNN_DEFAULT_FPMATH_MODE"])
def test_the_variable_together_with_bf16_asks_for_fast_math(name: str, value: str, x86: None) -> None:
    """``DNNL_DEFAULT_FPMATH_MODE=BF16 performance.py --bf16``: it reaches the worker and is no surprise."""
    found = precision.scrub(BF16, {name: value})
    assert found.bf16_method == "fastmath"
    assert found.variables[FPMATH] == "BF16"
    assert found.applied == {FPMATH: "BF16"}
    assert found.removed == {}


@pytest.mark.parametrize("bf16_method", ["autocast", "cast"])
def test_a_forced_way_wins_over_the_variable(bf16_method: str) -> None:
    """Another way of bf16 is measured without fast math, and the variable is recorded as removed."""
    found = precision.scrub(Setting("bf16", bf16_method), {FPMATH: "BF16"})
    assert FPMATH not in found.variables
    assert found.removed == {FPMATH: "BF16"}
    assert found.bf16_method == bf16_method


def test_forced_fast_math_sets_the_variable(x86: None) -> None:
    """It must be there before oneDNN loads; another inherited mode gives way and is recorded."""
    found = precision.scrub(Setting("bf16", "fastmath"), {FPMATH: "ANY"})
    assert found.variables[FPMATH] == "BF16"
    assert found.removed == {FPMATH: "ANY"}


def test_on_arm_bf16_means_fast_math(arm: None) -> None:
    """There the variable is set without being inherited."""
    assert precision.scrub(BF16, {}).applied == {FPMATH: "BF16"}
    assert precision.scrub(FP32, {}).applied == {}


def test_a_value_that_onednn_does_not_know_is_an_error() -> None:
    """oneDNN would ignore it silently."""
    with pytest.raises(UsageError, match="DNNL_DEFAULT_FPMATH_MODE=BF17 is unknown to oneDNN; use BF16 or STRICT"):
        precision.scrub(FP32, {FPMATH: "BF17"})


def test_the_right_way_depends_on_the_backend(arm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """ARM with oneDNN: fast math; ARM without it, and accelerators: autocast."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert precision.choose_bf16_method("cpu") == "fastmath"
    assert precision.choose_bf16_method("cuda") == "autocast"
    assert precision.choose_bf16_method("cpu", "blas") == "autocast", (
        "fast math is oneDNN's, which --backend blas switches off"
    )
    assert precision.scrub(BF16.replace(backend="blas"), {}).applied == {}
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert precision.choose_bf16_method("cpu") == "autocast"


def test_on_x86_the_right_way_is_autocast(x86: None) -> None:
    """oneDNN's fast math changes nothing there."""
    assert precision.choose_bf16_method("cpu") == "autocast"


@pytest.mark.parametrize("on", [True, False])
def test_switches_are_set_named_and_set_back(on: bool) -> None:
    """torch's own switches are on inside only, and their names are given for the record."""

    def state() -> Any:
        if hasattr(torch.backends.mkldnn, "conv"):
            return (torch.backends.mkldnn.conv.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision)
        return torch.get_float32_matmul_precision()

    before = state()
    with pytest.raises(ZeroDivisionError), precision.fast_math(on) as names:
        assert names
        wanted = ("bf16", "medium") if on else ("ieee", "highest")
        assert all(name.endswith(tuple(f"={w}" for w in wanted) + tuple(f"({w})" for w in wanted)) for name in names)
        assert any(w in str(state()) for w in wanted)
        raise ZeroDivisionError
    assert state() == before


def test_older_torch_has_one_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.9 there is only the hint for matrix products: it is used, named and set back."""
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    said: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", said.append)
    with precision.fast_math(True) as names:
        assert names == ("torch.set_float32_matmul_precision(medium)",)
    assert said == ["medium", "high"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.13.0+cu117", True), ("2.8.0", True), ("2.9.0", False), ("2.10.0+cpu", False), (None, False)],
)
def test_torch_before_2_9_knows_fast_math_by_variable_only(
    version: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its switches of the inner precision came with 2.9."""
    monkeypatch.setattr("modelzoo.machine.libraries.installed", lambda name: version)
    assert precision.is_by_variable_only() is expected


def test_autocast_is_entered_for_autocast_alone() -> None:
    """The other ways and fp32 run without it."""
    for setting, bf16_method, active in ((BF16, "autocast", True), (BF16, "cast", False), (FP32, "autocast", False)):
        with precision.autocast(setting, bf16_method):
            product = torch.ones(2, 2) @ torch.ones(2, 2)
        assert (product.dtype == torch.bfloat16) is active


def test_cast_reaches_every_floating_tensor_and_no_other() -> None:
    """Lists, tuples and dicts are walked; ids and text stay as they are."""
    ids = torch.ones(2, dtype=torch.long)
    found = precision.cast({"a": [torch.ones(2)], "b": (ids, "text"), "c": 3})
    assert found["a"][0].dtype == torch.bfloat16
    assert found["b"][0] is ids
    assert (found["b"][1], found["c"]) == ("text", 3)
