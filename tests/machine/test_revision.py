"""The suite's revision is recorded with every result."""

from __future__ import annotations

import subprocess
from pathlib import Path

from modelzoo.machine.installation import suite_revision


def git(folder: Path, *arguments: str) -> None:
    """Run git in ``folder`` with an identity of its own."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True)


def test_a_checkout_names_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    """A clean checkout gives the commit, a changed one the commit with a plus sign."""
    git(tmp_path, "init")
    file = tmp_path / "file"
    file.write_text("first")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    clean = suite_revision(tmp_path, {})
    assert clean is not None
    assert len(clean) == 40
    file.write_text("second")
    assert suite_revision(tmp_path, {}) == f"{clean}+"


def test_an_image_names_its_revision_in_a_variable(tmp_path: Path) -> None:
    """There is no repository inside an image."""
    assert suite_revision(tmp_path, {"MODELZOO_REVISION": "abc"}) == "abc"
    assert suite_revision(tmp_path, {}) is None
