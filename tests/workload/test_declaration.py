"""Workload directories are found, loaded and refused with a reason; options are held to their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelzoo.errors import UsageError
from modelzoo.workload import declaration as workload
from modelzoo.workload.declaration import Option, Workload

DECLARATION = "from modelzoo.workload import Workload\nWORKLOAD = Workload('tiny', 'a tiny one', 'rows', None, None)\n"


def make(folder: Path, text: str = DECLARATION) -> Path:
    """A workload directory with ``text`` as its declaration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(text)
    return folder


@pytest.mark.parametrize("name", workload.STANDARD)
def test_standard_workloads_declare_what_is_needed(name: str) -> None:
    """The four are found by name from anywhere, and declare a checkpoint with its published quality."""
    work = workload.load(workload.find(name))
    assert (work.name, work.directory.name) == (name, name)
    assert work.title
    assert work.unit
    assert work.defaults
    checkpoint = work.checkpoint(work.option_values({}))
    assert checkpoint is not None
    assert checkpoint.quality


def test_available_lists_the_standard_four_first_and_no_package() -> None:
    """The package has a workload.py of its own, which is none."""
    names = workload.available()
    assert tuple(names[:4]) == workload.STANDARD
    assert "modelzoo" not in names


def test_a_directory_is_found_by_path_and_by_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth workload may lie anywhere, also under a name with a space."""
    folder = make(tmp_path / "my own")
    assert workload.find(str(folder)) == folder
    monkeypatch.chdir(tmp_path)
    assert workload.find("my own") == folder
    monkeypatch.chdir(folder)
    assert workload.find(".") == folder


def test_an_unknown_workload_names_those_there_are() -> None:
    """A misspelt name is answered with the right ones."""
    with pytest.raises(UsageError, match="no workload 'resnet51': give one of resnet50, ssd, maskrcnn, bert"):
        workload.find("resnet51")


def test_a_loaded_workload_knows_its_directory(tmp_path: Path) -> None:
    """Passages and pictures beside a workload.py are found through it."""
    folder = make(tmp_path / "tiny")
    assert workload.load(folder).directory == folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (:\n", "cannot be imported: SyntaxError"),
        ("import there_is_no_such_module\n", "cannot be imported: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "cannot be imported: SystemExit: 3"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("", "must define WORKLOAD"),
        ("WORKLOAD = 3\n", "must define WORKLOAD"),
    ],
)
def test_a_bad_declaration_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    """Whatever is wrong with a workload.py, the file and the reason are named in one line."""
    folder = make(tmp_path / "bad", text)
    with pytest.raises(UsageError) as caught:
        workload.load(folder)
    assert message in str(caught.value)
    assert str(folder / "workload.py") in str(caught.value)
    assert "\n" not in str(caught.value)


def options(**given: Any) -> dict[str, Any]:
    """Values of a workload with one option of each kind."""
    declared = (
        Option("size", "base", "which size", str, ("base", "large")),
        Option("sequence", 384, "tokens", int, least=16, most=512),
    )
    return Workload("w", "", "", None, None, options=declared).option_values(given)  # type: ignore[arg-type]


def test_options_have_their_defaults_and_types() -> None:
    """Text from the command line becomes the declared type; what was not given is the default."""
    assert options() == {"size": "base", "sequence": 384}
    assert options(sequence="16") == {"size": "base", "sequence": 16}
    assert options(sequence="512", size="large") == {"size": "large", "sequence": 512}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sequence": "x"}, "--sequence cannot be 'x': tokens"),
        ({"sequence": "5"}, "--sequence must be 16 or more, not 5"),
        ({"sequence": "100000"}, "--sequence must be 512 or less, not 100000"),
        ({"size": "huge"}, "--size must be one of base, large, not 'huge'"),
        ({"depth": "3"}, r"workload w has no option 'depth' \(it has: sequence, size\)"),
    ],
)
def test_option_values_are_held_to_what_is_declared(given: dict[str, str], message: str) -> None:
    """Unknown names, wrong types, unknown choices and values out of bounds are refused by name."""
    with pytest.raises(UsageError, match=message):
        options(**given)


def test_bert_and_maskrcnn_bound_their_sizes() -> None:
    """A sequence that the position table has no place for is refused before anything starts."""
    bert = workload.load(workload.find("bert"))
    for value in ("5", "100000"):
        with pytest.raises(UsageError, match="--sequence must be"):
            bert.option_values({"sequence": value})
    maskrcnn = workload.load(workload.find("maskrcnn"))
    with pytest.raises(UsageError, match="--min-size must be"):
        maskrcnn.option_values({"min-size": "1"})
