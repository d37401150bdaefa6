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
from modelzoo.cli.setting_options import FIELDS, combine, parse_axis, parse_setting, parse_settings
from modelzoo.errors import UsageError
from modelzoo.setting import Setting
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def setting(*words: str) -> Setting:
    """What a command line of these words asks for."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    return arguments.make_setting(parser.parse_args(words), MLP, {}, "fp32")


def test_without_options_it_is_the_default_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the workload's own defaults."""
    for name in ("OMP_NUM_THREADS", "MODELZOO_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    assert setting() == Setting(options={"width": 256, "depth": 8})


def test_allocator_and_huge_pages_are_options() -> None:
    """Like everything else that a setting consists of."""
    found = setting("--malloc", "tcmalloc", "--thp", "off")
    assert (found.malloc, found.thp) == ("tcmalloc", "off")


def test_stages_are_an_option_of_commands_that_time_processes() -> None:
    """Others time the model alone."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    options.add_measurement(parser)
    found = [arguments.make_setting(parser.parse_args(words), MLP, {}, "fp32").stages for words in ([], ["--stages"])]
    assert found == [False, True]
    assert setting().stages is False


def test_an_engine_is_an_option() -> None:
    """One of the suite's, or a class from elsewhere; a wrong name is one line."""
    assert setting("--engine", "onnxruntime").engine == "onnxruntime"
    assert setting("--engine", "package.module:Engine").engine == "package.module:Engine"
    with pytest.raises(UsageError, match="--engine must be one of torch, onnxruntime, openvino, jittor, not 'onnx'"):
        setting("--engine", "onnx")


def test_an_interpreter_is_an_option_and_default_is_this_one() -> None:
    """``default`` is what ``--vary`` calls it."""
    assert setting("--python", sys.executable).python == sys.executable
    assert setting("--python", "default", "--image", "default") == setting()
    with pytest.raises(UsageError, match="python=/nonexistent does not exist; name an environment"):
        setting("--python", "/nonexistent")


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


def test_a_workloads_own_options_are_told_from_the_others() -> None:
    """Those that were given, under their own names."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    arguments.add_workload_options(parser, MLP)
    assert arguments.own_options(parser.parse_args(["--depth", "3", "--batch", "2"])) == {"depth": "3"}


@pytest.mark.parametrize(("value", "backend"), [(None, "auto"), ("", "auto"), ("blas", "blas"), ("onednn", "onednn")])
def test_the_variable_names_the_default_backend(
    value: str | None, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unset or empty leaves the choice to PyTorch."""
    if value is not None:
        monkeypatch.setenv("MODELZOO_BACKEND", value)
    assert setting().backend == backend


def test_the_option_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image's default can be overruled for one call, also back to auto, whatever the variable holds."""
    monkeypatch.setenv("MODELZOO_BACKEND", "blas")
    assert setting("--backend", "auto").backend == "auto"
    monkeypatch.setenv("MODELZOO_BACKEND", "nonsense")
    assert setting("--backend", "onednn").backend == "onednn"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable, not an option that nobody gave."""
    monkeypatch.setenv("MODELZOO_BACKEND", "openblas")
    with pytest.raises(
        UsageError, match="MODELZOO_BACKEND=openblas is not a backend; set it to one of auto, onednn, blas"
    ):
        setting()


def test_every_field_of_a_setting_can_be_varied() -> None:
    """Under the name of its option on the command line."""
    names = {field.name.replace("_", "-") for field in fields(Setting)} - {"options"}
    assert {"bf16" if name == "bf16-method" else name for name in names} == set(FIELDS)


def test_an_axis_is_a_name_and_its_values() -> None:
    """In the order given, repetitions included; a value may contain an equals sign."""
    assert parse_axis("batch=1, 8,1") == ("batch", ["1", "8", "1"])
    assert parse_axis("weights=a=b.pth") == ("weights", ["a=b.pth"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have the form NAME=V1,V2"),
        ("batch", "must have the form NAME=V1,V2"),
        ("=1,2", "must have the form NAME=V1,V2"),
        ("batch=", "has an empty value"),
        ("batch=1,", "has an empty value"),
        ("batch=,", "has an empty value"),
    ],
)
def test_an_axis_without_name_or_values_is_refused(text: str, message: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match=message):
        parse_axis(text)


@pytest.mark.parametrize(
    "order", [("precision=fp32,bf16", "bf16=auto,cast"), ("bf16=auto,cast", "precision=fp32,bf16")]
)
def test_only_bf16_has_methods(order: tuple[str, str]) -> None:
    """fp32 occurs once, however many methods there are."""
    assert combine([parse_axis(text) for text in order]) == [
        {"precision": "fp32"},
        {"precision": "bf16", "bf16": "auto"},
        {"precision": "bf16", "bf16": "cast"},
    ]


def test_a_setting_is_a_list_of_values() -> None:
    """Quotes protect spaces, as in a shell."""
    assert parse_setting("mode=compile  threads=2") == {"mode": "compile", "threads": "2"}
    assert parse_setting("input='my pictures/a.jpg'") == {"input": "my pictures/a.jpg"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names nothing; for the default setting, write mode=eager"),
        ("compile", "'compile' must have the form NAME=VALUE"),
        ("mode=", "'mode=' must have the form NAME=VALUE"),
        ("mode=eager mode=script", "names mode twice"),
        ("input='a", "No closing quotation"),
    ],
)
def test_a_setting_of_another_form_is_refused(text: str, message: str) -> None:
    """The message shows the words."""
    with pytest.raises(UsageError, match=message):
        parse_setting(text)


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


def test_a_file_without_settings_is_refused(tmp_path: Path) -> None:
    """So is one that does not exist, a directory, and one that is no text."""
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "picture").write_bytes(b"\xff\xd8\xff\xe0")
    for name, message in [
        ("empty", "the file names no setting"),
        ("nosuch", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("picture", "cannot be read: it is not a text file"),
    ]:
        with pytest.raises(UsageError, match=message):
            parse_settings([f"@{tmp_path / name}"])
