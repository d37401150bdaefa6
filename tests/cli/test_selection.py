"""Which workloads and settings a command line names, and the grammar of ``--vary`` and ``--setting``."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

import pytest
from fake_docker import FakeDocker
from places import ROOT

from modelzoo.cli import app, setting_options
from modelzoo.cli.app import explicit_values
from modelzoo.cli.selection import Jobs, load_workloads, select_settings
from modelzoo.cli.setting_options import parse_axis, parse_setting, parse_settings
from modelzoo.errors import UsageError
from modelzoo.measure import launcher
from modelzoo.setting import Setting, labels
from modelzoo.workload import discovery


def jobs(*words: str) -> Jobs:
    """What ``modelzoo run`` with these words would run."""
    args = app.make_parser().parse_args(explicit_values(["run", *words]))
    return select_settings(args, "fp32,bf16")


def test_without_names_the_four_standard_workloads_run() -> None:
    """In their order."""
    assert [work.name for work in load_workloads(())] == ["resnet50", "ssd", "maskrcnn", "bert"]


def test_an_option_goes_to_the_workload_that_has_it() -> None:
    """Others keep their own options."""
    (bert, (first, _)), (mlp, (second, _)) = jobs("bert", "examples/mlp", "--option", "sequence=64")
    assert (bert.name, first.options["sequence"]) == ("bert", 64)
    assert (mlp.name, "sequence" in second.options) == ("mlp", False)


def shown(*words: str) -> list[str]:
    """The labels of the settings of the only workload, which are what the table shows."""
    ((_, settings),) = jobs(*words)
    return labels(settings)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ["fp32", "bf16"]),
        ("--bf16", ["bf16"]),
        ("--fp16", ["fp16"]),
        ("--fp16 --vary bf16=autocast,cast", ["fp16=autocast", "fp16=cast"]),
        ("--bf16=cast --precision fp32,bf16", ["fp32", "bf16=cast"]),
        ("--precision bf16,fp32,bf16", ["bf16", "fp32", "bf16 #2"]),
        ("--vary precision=fp32,bf16 --bf16=cast", ["fp32", "bf16=cast"]),
        ("--precision fp32,bf16 --vary bf16=autocast,cast", ["fp32", "bf16=autocast", "bf16=cast"]),
        ("--vary bf16=auto,cast --vary precision=fp32,bf16", ["fp32", "bf16", "bf16=cast"]),
        ("--precision fp32,fp16 --vary bf16=cast", ["fp32", "fp16=cast"]),
        ("--setting 'precision=fp16 bf16=cast' --setting precision=tf32", ["fp16=cast", "tf32"]),
        ("--int8", ["int8"]),
        ("--int8 --recipe dynamic-onednn", ["int8=dynamic-onednn"]),
        ("--vary recipe=auto,dynamic", ["int8", "int8=dynamic"]),
        (
            "--precision fp32,bf16,int8 --vary recipe=dynamic-x86,dynamic-onednn --bf16=cast",
            ["fp32", "bf16=cast", "int8=dynamic-x86", "int8=dynamic-onednn"],
        ),
        ("--precision fp32,int8 --recipe dynamic", ["fp32", "int8=dynamic"]),
        ("--bf16 --setting recipe=dynamic --setting mode=eager", ["int8=dynamic", "bf16"]),
        ("--vary mode=eager,compile", ["fp32", "fp32 compile"]),
        ("--vary batch=1,8", ["fp32 batch=1", "fp32 batch=8"]),
        ("--vary depth=2,4 --bf16=cast", ["bf16=cast depth=2", "bf16=cast depth=4"]),
        (
            "--vary mode=eager,script --vary channels-last=off,on",
            ["fp32", "fp32 channels-last", "fp32 script", "fp32 script channels-last"],
        ),
        ("--vary thp=off,on --mode compile", ["fp32 compile thp=off", "fp32 compile thp=on"]),
        ("--vary device=cpu,cuda:1", ["fp32 device=cpu", "fp32 device=cuda:1"]),
        ("--vary seed=0,0", ["fp32", "fp32 #2"]),
        ("--precision fp32,bf16 --vary batch=1,8", [f"{each} batch={n}" for each in ("fp32", "bf16") for n in (1, 8)]),
        ("--setting 'mode=compile threads=2' --setting threads=1", ["fp32 compile threads=2", "fp32 threads=1"]),
        ("--setting mode=script --setting mode=script", ["fp32 script", "fp32 script #2"]),
        ("--vary bf16=autocast,cast --baseline bf16=cast", ["bf16=cast", "bf16=autocast"]),
        ("--bf16 --batch 4 --setting mode=eager --setting batch=8", ["bf16 batch=4", "bf16 batch=8"]),
    ],
)
def test_several_settings(words: str, expected: list[str]) -> None:
    """Every combination, or exactly those named; what is not named comes from the options of the call.

    A repetition is a comparison of a setting with itself; only bf16 and fp16 have a method, and only int8 a recipe.
    """
    assert shown("examples/mlp", *shlex.split(words)) == expected


def test_interpreters_and_images_are_varied(engine: FakeDocker, tmp_path: Path) -> None:
    """By paths and names; the labels are short, and a baseline may be named by either."""
    for name in ("old", "new"):
        (tmp_path / name / "bin").mkdir(parents=True)
        python = tmp_path / name / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        engine.add(f"zoo:{name}")
    old, new = (str(tmp_path / name / "bin" / "python") for name in ("old", "new"))
    words = ("examples/mlp", "--vary", f"python={old},{new},default")
    assert shown(*words) == ["fp32 python=old", "fp32 python=new", "fp32"]
    assert shown(*words, "--baseline", f"python={new}") == ["fp32 python=new", "fp32 python=old", "fp32"]
    assert shown(*words, "--baseline", "python=default")[0] == "fp32"
    assert shown("examples/mlp", "--vary", "image=zoo:old,zoo:new") == ["fp32 image=old", "fp32 image=new"]
    words = ("examples/mlp", "--setting", f"python={old}", "--setting", "image=zoo:old mode=compile")
    assert shown(*words) == ["fp32 python=old", "fp32 compile image=old"]
    with pytest.raises(UsageError, match="--python and --vary python=… contradict each other; leave one out"):
        jobs("examples/mlp", "--python", old, "--vary", f"python={old},{new}")


@pytest.mark.parametrize(
    ("baseline", "first"),
    [("mode=script", "fp32 script batch=1"), ("batch=8", "fp32 batch=8")]
    + [(each, "fp32 script batch=8") for each in ("mode=script batch=8", "fp32 script batch=8")],
)
def test_another_baseline_moves_to_the_front(baseline: str, first: str) -> None:
    """It is the first setting that fits; the others keep their order."""
    words = ("examples/mlp", "--vary", "mode=eager,script", "--vary", "batch=1,8")
    plain = shown(*words)
    assert shown(*words, "--baseline", baseline) == [first, *(label for label in plain if label != first)]


def test_options_of_one_workload_are_varied_for_it_alone() -> None:
    """The other workloads of the call run once."""
    (_, bert), (_, mlp) = jobs("bert", "examples/mlp", "--vary", "sequence=128,384", "--baseline", "sequence=384")
    assert [setting.options["sequence"] for setting in bert] == [384, 128]
    assert len(mlp) == 1


def test_judging_takes_precisions_only() -> None:
    """``validate`` compares each with fp32 anyway."""
    args = app.make_parser().parse_args(["validate", "examples/mlp", "--precision", "fp32,bf16"])
    assert labels(select_settings(args, "bf16")[0][1]) == ["fp32", "bf16"]


PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^modelzoo run (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("words", EXAMPLES)
def test_the_examples_of_the_documentation_are_understood(
    words: str, engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gives at least two settings, or the page would not show it; interpreters and images need not be here."""
    monkeypatch.setattr(launcher, "find_interpreter", lambda name: f"/{name}")
    for backend in ("acl", "openblas"):
        engine.add(f"modelzoo:torch2.10.0_{backend}_modelzoo")
    found = jobs(*shlex.split(words, comments=True))
    assert max(len(settings) for _, settings in found) >= 2


MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def setting(*words: str) -> Setting:
    """What a command line of these words asks for."""
    parser = argparse.ArgumentParser()
    setting_options.add_setting(parser)
    return setting_options.make_setting(parser.parse_args(words), MLP, {}, "fp32")


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
