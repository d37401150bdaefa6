"""Options that decide what runs, and the grammar of ``--vary`` and ``--setting``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from fake_docker import FakeDocker
from msgspec.structs import fields

from modelzoo.cli import options
from modelzoo.cli import setting_options as arguments
from modelzoo.cli.setting_options import FIELDS, parse_axis, parse_setting, parse_settings
from modelzoo.errors import UsageError
from modelzoo.setting import Setting
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def setting(*words: str) -> Setting:
    """What a command line of these words asks for."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    return arguments.make_setting(parser.parse_args(words), MLP, {}, "fp32")


def test_without_options_it_is_the_default_setting() -> None:
    """With the workload's own defaults; this interpreter, and no image, is what ``--vary`` calls ``default``."""
    assert setting() == Setting(options={"width": 256, "depth": 8})
    assert setting("--python", "default", "--image", "default") == setting()
    assert setting("--python", sys.executable).python == sys.executable
    assert setting("--engine", "package.module:Engine").engine == "package.module:Engine"


def test_stages_are_an_option_of_commands_that_time_processes() -> None:
    """Others time the model alone."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    options.add_measurement(parser)
    found = [arguments.make_setting(parser.parse_args(words), MLP, {}, "fp32").stages for words in ([], ["--stages"])]
    assert found == [False, True]
    assert setting().stages is False


def test_an_image_decides_the_default_backend(engine: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image with OpenBLAS has the same torch as the one with ACL; what this machine's variable says is its own."""
    monkeypatch.setenv("MODELZOO_BACKEND", "onednn")
    engine.add("zoo:acl")
    engine.add("zoo:openblas", MODELZOO_BACKEND="blas")
    found = [setting("--image", name) for name in ("zoo:acl", "zoo:openblas")]
    assert [(each.image, each.backend) for each in found] == [("zoo:acl", "auto"), ("zoo:openblas", "blas")]
    assert setting("--image", "zoo:openblas", "--backend", "onednn").backend == "onednn"
    with pytest.raises(UsageError, match="image=zoo:other is not on this machine"):
        setting("--image", "zoo:other")
    with pytest.raises(UsageError, match="python and image contradict each other"):
        setting("--image", "zoo:acl", "--python", sys.executable)


@pytest.mark.parametrize(
    ("value", "words", "backend"),
    [
        ("", (), "auto"),
        ("blas", (), "blas"),
        ("blas", ("--backend", "auto"), "auto"),
        ("nonsense", ("--backend", "onednn"), "onednn"),
    ],
)
def test_the_variable_names_the_default_backend(
    value: str, words: tuple[str, ...], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty, it leaves the choice to PyTorch; for one call the option wins, whatever the variable holds."""
    monkeypatch.setenv("MODELZOO_BACKEND", value)
    assert setting(*words).backend == backend


@pytest.mark.parametrize(("value", "threads"), [("1,4", 1), ("2", 2), ("", None)])
def test_the_first_thread_count_of_a_list_is_taken(
    value: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenMP allows one count for each nesting level; an empty variable says nothing, and the option wins."""
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert setting().threads == threads
    assert setting("--threads", "3").threads == 3


def test_every_field_of_a_setting_can_be_varied() -> None:
    """Under the name of its option on the command line."""
    names = {field.name.replace("_", "-") for field in fields(Setting)} - {"options"}
    assert {"bf16" if name == "bf16-method" else name for name in names} == set(FIELDS)


def test_values_may_contain_the_signs_that_divide_them() -> None:
    """An equals sign, and spaces between quotes, as in a shell; repetitions of an axis are kept."""
    assert parse_axis("batch=1, 8,1") == ("batch", ["1", "8", "1"])
    assert parse_axis("weights=a=b.pth") == ("weights", ["a=b.pth"])
    assert parse_setting("mode=compile  input='my pictures/a.jpg'") == {"mode": "compile", "input": "my pictures/a.jpg"}


def test_a_file_has_a_setting_on_each_line(tmp_path: Path) -> None:
    """With comments; a file name may contain the sign that begins one."""
    file = tmp_path / "settings"
    file.write_text("# all of them\n\nmode=eager\nmode=script batch=2\t# two\ninput=a#b.jpg\n   # end\n")
    assert parse_settings(["seed=1", f"@{file}"]) == [
        {"seed": "1"},
        {"mode": "eager"},
        {"mode": "script", "batch": "2"},
        {"input": "a#b.jpg"},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# nothing\n", "the file names no setting; write one on each line"),
        (b"\xff\xd8\xff\xe0", "cannot be read: it is not a text file"),
    ],
)
def test_a_file_without_settings_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """So is one that is no text."""
    (tmp_path / "settings").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        parse_settings([f"@{tmp_path / 'settings'}"])
