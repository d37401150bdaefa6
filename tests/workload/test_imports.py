"""Outdated imports in a workload.py end in one line that gives the new import."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.errors import UsageError
from modelzoo.workload.discovery import check_imports, load_workload


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "from modelzoo.inputs import pictures",
            "there is no module modelzoo.inputs; write 'from modelzoo.workload import pictures'",
        ),
        (
            "from modelzoo.random_weights import fit_normalization, scale_outputs",
            "there is no module modelzoo.random_weights; write 'from modelzoo.workload import calibrate_batch_norm, "
            "standardize_outputs'",
        ),
        (
            "from modelzoo.weights import Checkpoint",
            "there is no module modelzoo.weights; write 'from modelzoo.workload import Checkpoint'",
        ),
        (
            "from modelzoo.weights import fit, read_state, weights_file",
            "write 'from modelzoo.workload import load_state_dict, read_state_dict'",
        ),
        ("from modelzoo.workload import ROOT", "modelzoo.workload has no ROOT; import what a workload needs from"),
        ("from modelzoo.workload import Workload, capture", "has no capture; write 'from modelzoo.workload import"),
        ("import modelzoo.weights", "there is no module modelzoo.weights; import what a workload needs from"),
        ("from modelzoo.inputs.old import pictures", "there is no module modelzoo.inputs.old; write"),
    ],
)
@pytest.mark.parametrize("inside", ["", "def randomize(model, inputs, seed):\n    "])
def test_an_outdated_import_gives_the_new_one(line: str, message: str, inside: str, tmp_path: Path) -> None:
    """Also inside a function, which would otherwise fail in a worker only."""
    (tmp_path / "workload.py").write_text(f"import os\n{inside}{line}\n")
    with pytest.raises(UsageError) as caught:
        load_workload(tmp_path)
    number = 3 if inside else 2
    assert str(caught.value).startswith(f"{tmp_path / 'workload.py'}, line {number}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "from modelzoo.workload import *",
        "from modelzoo.workload import Workload, declaration",
        "import modelzoo.workload, os",
        "from .modelzoo import anything",
        "from modelzoologist.inputs import pictures",
        "def (:",
        "x = '\x00'",
    ],
)
def test_other_files_pass(text: str, tmp_path: Path) -> None:
    """Valid imports, other packages, and what Python itself reports when the file is imported."""
    (tmp_path / "workload.py").write_text(text)
    check_imports(tmp_path / "workload.py")
