"""The results that are stored as test data name no real user and no real machine's directories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stored_results import STORED, name, unpacked


@pytest.mark.parametrize("stored", STORED, ids=name)
def test_paths_are_made_up_or_masked(stored: Path, tmp_path: Path) -> None:
    """Absolute paths begin in made-up directories, and no home directory but the made-up one appears."""
    text = re.sub(r'"jpeg":"[^"]*"', "", unpacked(stored, tmp_path).read_text())
    paths = set(re.findall(r"(?<![\w.~:/)-])/(?:[\w.-]+/)+[\w.-]+", text))
    made_up = ("/data/", "/home/user/", "/home/USER/", "/tmp/torchinductor_USER")
    assert [path for path in sorted(paths) if not (path + "/").startswith(made_up)] == []
