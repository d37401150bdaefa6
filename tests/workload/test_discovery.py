"""Workload directories are found and loaded; errors give the reason in one line."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.workload import discovery

DECLARATION = "from modelzoo.workload import Workload\nWORKLOAD = Workload('tiny', 'a tiny one', 'rows', None, None)\n"


def make(folder: Path, text: str = DECLARATION) -> Path:
    """Create a workload directory with ``text`` as its declaration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(text)
    return folder


def test_a_directory_is_found_by_path_and_by_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth workload may lie anywhere, also under a name with a space."""
    folder = make(tmp_path / "my own")
    assert discovery.find_workload(str(folder)) == folder
    monkeypatch.chdir(tmp_path)
    assert discovery.find_workload("my own") == folder
    monkeypatch.chdir(folder)
    assert discovery.find_workload(".") == folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (:\n", "cannot be imported: SyntaxError"),
        ("import nowhere\n", "No module named 'nowhere'; install it, or name its directory in PYTHONPATH"),
        ("from modelzoo.inputs import pictures\n", "'modelzoo.inputs'; docs/workload.md says what"),
        ("from modelzoo.workload import ROOT\n", "cannot import name 'ROOT' from .*; docs/workload.md"),
        ("raise SystemExit(3)\n", "cannot be imported: SystemExit: 3"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("", "must define WORKLOAD"),
        ("WORKLOAD = 3\n", "must define WORKLOAD"),
        (DECLARATION.replace("None, None", "None, None, judge='yes'"), r"write judge=lambda options: str\(...\)"),
    ],
)
def test_a_bad_declaration_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    """The message gives the file and the reason in one line, whatever is wrong."""
    folder = make(tmp_path / "bad", text)
    with pytest.raises(UsageError, match=message) as caught:
        discovery.load_workload(folder)
    assert str(folder / "workload.py") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_installed_package_has_the_workloads_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkout, they are in ``modelzoo/workloads``; another package's workload.py is not one of them."""
    make(tmp_path / "celery")
    inside = make(tmp_path / "modelzoo" / "workloads" / "bert")
    assert discovery.is_checkout()
    monkeypatch.setattr(discovery, "CHECKOUT", tmp_path)
    monkeypatch.setattr(discovery, "PACKAGE", tmp_path / "modelzoo")
    assert not discovery.is_checkout()
    monkeypatch.chdir(make(tmp_path / "elsewhere"))
    assert discovery.available_workloads() == ["bert"]
    assert discovery.find_workload("bert") == inside
    assert discovery.find_workload(".") == tmp_path / "elsewhere"
    with pytest.raises(UsageError, match="no workload 'celery': give one of bert, a directory that holds a workload"):
        discovery.find_workload("celery")


def test_another_interpreter_imports_an_installed_package_without_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in the cache; a checkout has no neighbours that matter."""
    assert discovery.import_root() == discovery.CHECKOUT
    package = tmp_path / "site-packages" / "modelzoo"
    package.mkdir(parents=True)
    monkeypatch.setattr(discovery, "CHECKOUT", package.parent)
    monkeypatch.setattr(discovery, "PACKAGE", package)
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        (link,) = discovery.import_root().iterdir()
        assert (link.name, link.resolve()) == ("modelzoo", package)
    (tmp_path / "file").touch()
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentProblem, match="cannot be written to: Not a directory; name another directory with"):
        discovery.import_root()


def test_what_comes_with_the_suite_is_what_it_requires() -> None:
    """A missing module of these is installed with the suite; any other is the workload's own."""
    required = metadata.requires(discovery.DISTRIBUTION) or []
    asked = [each for each in required if "extra" not in each or re.search("extra.+(torch|models)", each)]
    names = {re.split(r"[^\w-]", each)[0].lower().replace("-", "_") for each in asked}
    names = {{"pillow": "PIL"}.get(name, name) for name in names} - {"modelzoo_bench"}
    assert names == discovery.INSTALLED


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
    clean = discovery.suite_revision(tmp_path, {})
    assert clean is not None
    assert len(clean) == 40
    file.write_text("second")
    assert discovery.suite_revision(tmp_path, {}) == f"{clean}+"


def test_an_image_names_its_revision_in_a_variable(tmp_path: Path) -> None:
    """There is no repository inside an image."""
    assert discovery.suite_revision(tmp_path, {"MODELZOO_REVISION": "abc"}) == "abc"
    assert discovery.suite_revision(tmp_path, {}) is None
