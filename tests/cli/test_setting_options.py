"""What options and environment variables say about one setting; an image's backend is nothing but a default."""

from __future__ import annotations

import argparse
import sys

import pytest
from fake_docker import FakeDocker

from modelzoo.cli import options
from modelzoo.cli import setting_options as arguments
from modelzoo.errors import UsageError
from modelzoo.setting import Setting
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def setting(*words: str) -> Setting:
    """What a command line of these words asks for."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    return arguments.make_setting(parser.parse_args(words), MLP, {})


def test_without_options_it_is_the_default_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the workload's own defaults."""
    for name in ("OMP_NUM_THREADS", "MODELZOO_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    assert setting() == Setting(options={"width": 256, "depth": 8})


def test_allocator_and_huge_pages_are_options() -> None:
    """Like everything else that a setting consists of."""
    found = setting("--malloc", "tcmalloc", "--thp", "off")
    assert (found.malloc, found.thp) == ("tcmalloc", "off")


def test_stages_are_one_batch_in_flight_unless_more_are_asked_for() -> None:
    """Both options are those of commands that time something; others time the model alone."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    options.add_plan(parser)
    found = [
        arguments.make_setting(parser.parse_args(words), MLP, {}).in_flight
        for words in ([], ["--stages"], ["--in-flight", "3"], ["--stages", "--in-flight", "2"])
    ]
    assert found == [None, 1, 3, 2]
    assert setting().in_flight is None
    with pytest.raises(UsageError, match="--in-flight must be 1 or more, not 0"):
        arguments.make_setting(parser.parse_args(["--in-flight", "0"]), MLP, {})


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
