"""Options that decide what runs, and the grammar of ``--vary`` and ``--setting``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from fake_docker import FakeDocker

from modelzoo.cli import setting_options as arguments
from modelzoo.cli.setting_options import parse_axis, parse_setting, parse_settings
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
    assert setting() == setting("--python", "default", "--image", "default") == Setting(options=MLP.option_values({}))


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
    ("variable", "value", "words", "expected"),
    [
        ("MODELZOO_BACKEND", "", (), "auto"),
        ("MODELZOO_BACKEND", "blas", (), "blas"),
        ("MODELZOO_BACKEND", "blas", ("--backend", "auto"), "auto"),
        ("OMP_NUM_THREADS", "", (), None),
        # OpenMP allows one count for each nesting level.
        ("OMP_NUM_THREADS", "1,4", (), 1),
        ("OMP_NUM_THREADS", "2", ("--threads", "3"), 3),
    ],
)
def test_variables_are_defaults(
    variable: str, value: str, words: tuple[str, ...], expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option wins."""
    monkeypatch.setenv(variable, value)
    found = setting(*words)
    assert (found.backend if variable == "MODELZOO_BACKEND" else found.threads) == expected


def test_values_may_contain_the_signs_that_divide_them() -> None:
    """An equals sign, and spaces between quotes, as in a shell; repetitions of an axis are kept."""
    assert parse_axis("batch=1, 8,1") == ("batch", ["1", "8", "1"])
    assert parse_axis("weights=a=b.pth") == ("weights", ["a=b.pth"])
    assert parse_setting("mode=compile  input='my pictures/a.jpg'") == {"mode": "compile", "input": "my pictures/a.jpg"}


def test_a_file_has_a_setting_on_each_line(tmp_path: Path) -> None:
    """With comments; a file name may contain the sign that begins one."""
    file = tmp_path / "settings"
    file.write_text("# all of them\n\nmode=eager\nmode=script batch=2\t# two\ninput=a#b.jpg\n   # end\n")
    lines = [{"mode": "eager"}, {"mode": "script", "batch": "2"}, {"input": "a#b.jpg"}]
    assert parse_settings(["seed=1", f"@{file}"]) == [{"seed": "1"}, *lines]
    for content, message in ((b"# nothing\n", "the file names no setting"), (b"\xff", "it is not a text file")):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            parse_settings([f"@{file}"])
