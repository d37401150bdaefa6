"""Installations that do not work, and how to fix them."""

from __future__ import annotations

import sys
import types

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.installation import (
    explain_torch_failure,
    explain_torchvision_failure,
    import_torch,
    import_torchvision,
    mismatched_versions,
)


@pytest.mark.parametrize(
    ("torch", "vision"),
    [
        ("1.13.0", "0.14.0"),
        ("1.13.1", "0.14.1"),
        ("2.0.1", "0.15.2"),
        ("2.5.1+cpu", "0.20.1+cpu"),
        ("2.10.0", "0.25.0"),
        ("2.13.0", "0.28.0"),
        ("3.0.0", "1.0.0"),
        ("unknown", "0.25.0"),
    ],
)
def test_official_pairs_pass(torch: str, vision: str) -> None:
    """Releases that belong together, and versions nobody knows yet, are not complained about."""
    assert mismatched_versions(torch, vision) is None


def test_a_wrong_pair_names_the_cure() -> None:
    """The line says which torchvision to install."""
    problem = mismatched_versions("2.13.0+cpu", "0.25.0")
    assert problem is not None
    assert '"torchvision==0.28.*"' in problem
    assert "\n" not in problem


def test_builds_for_different_devices_name_the_cure() -> None:
    """The right versions from two indexes: the operators are missing, and the line says why."""
    error = RuntimeError("operator torchvision::nms does not exist")
    line = explain_torchvision_failure(error, "2.13.0+cpu", "0.28.0")
    assert "one index" in line
    assert "torch===2.13.0" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "pip install torch"),
        (
            RuntimeError("Failed to load the backend extension: torch_npu. You can disable …\nmore"),
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
        ),
        (ImportError("numpy.core.multiarray failed to import"), '"numpy<2"'),
        (OSError("libcudart.so.12: cannot open shared object file"), "--force-reinstall torch"),
    ],
)
def test_a_failed_import_of_torch_names_the_cure(error: Exception, cure: str) -> None:
    """Each known failure ends in one line with what to do."""
    line = explain_torch_failure(error)
    assert cure in line
    assert "\n" not in line


def test_import_torch_raises_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the import raises becomes an EnvironmentProblem."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EnvironmentProblem, match="cannot be imported|not installed"):
        import_torch()


def test_torchvision_without_operators_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old torchvision imports without its compiled part; that is found before the first NMS."""
    extension = types.ModuleType("torchvision.extension")
    extension._has_ops = lambda: False  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.extension", extension)
    with pytest.raises(EnvironmentProblem, match="another build of torch|does not go with"):
        import_torchvision()
