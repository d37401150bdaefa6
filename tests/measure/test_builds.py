"""The builds of ``modelzoo check``: what the command line means, and environments that are made once, by a fake uv."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.measure import builds
from modelzoo.measure.builds import Build, interpreters, parse_build

UV = """#!/bin/sh
echo "$*" >>"$RECORD"
case "$*" in
    *"pip freeze"*) printf 'torch==2.13.0\\nnumpy==2.2.6\\ntransformers==4.57.0\\nnvidia-cublas==13.0\\n' ;;
    *venv*)
        for place; do :; done
        mkdir -p "$place/bin"
        ln -s "$PYTHON" "$place/bin/python"
        ;;
    *"pip install"*--constraint*) [ -z "${CONSTRAINED_FAILS:-}" ] || exit 1 ;;
    *"pip install"*) [ -z "${FAILS:-}" ] || exit 1 ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a uv that installs nothing records its calls; the cache is empty."""
    program = tmp_path / "path" / "uv"
    program.parent.mkdir()
    program.write_text(UV)
    program.chmod(0o755)
    record = tmp_path / "calls"
    record.touch()
    for name, value in {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "RECORD": str(record),
        "PYTHON": sys.executable,
    }.items():
        monkeypatch.setenv(name, value)
    for name in builds.INDEXES:
        monkeypatch.delenv(name, raising=False)
    return record


def installs(record: Path) -> list[str]:
    """The calls of ``uv pip install``."""
    return [line for line in record.read_text().splitlines() if "pip install" in line]


def named(*texts: str, option: str = "--base") -> Build:
    """What these values of an option mean."""
    return parse_build(option, texts)


BASE, HEAD = named("torch==2.13.0"), named("torch==2.14.1", option="--head")


def test_a_build_is_an_interpreter_or_wheels_and_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One text may hold several requirements, and a pattern may name the wheel."""
    monkeypatch.chdir(tmp_path)
    wheel, listed = tmp_path / "torch-2.15.0-cp311-none-any.whl", tmp_path / "more.txt"
    wheel.touch()
    listed.touch()
    assert named("default").interpreter == named(sys.executable).interpreter == sys.executable
    assert named("torch==2.13.0 numpy<2", "pillow").requirements == ("torch==2.13.0", "numpy<2", "pillow")
    assert named('torch==2.13.0; python_version > "3"').requirements == ('torch==2.13.0; python_version > "3"',)
    for text in ("torch-2.15.0-cp311-none-any.whl", "./torch-*.whl"):
        assert (named(text).wheels, named(text).requirements) == ((wheel,), ())
    assert named("./torch-*.whl", "more.txt").lists == (listed,)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["./none.whl"], "./none.whl does not exist; name an interpreter, a wheel or a requirement"),
        (["bin/"], "bin/ is a directory; name the interpreter of an environment, such as bin//bin/python, or the "),
        (["torch 2.13"], "'torch 2.13' is no requirement such as torch==2.13.0, no wheel and no interpreter (default "),
        (["default", "torch"], "default is an interpreter, which stands alone; leave the others out"),
        ([""], "'' is no requirement such as torch==2.13.0, no wheel and no interpreter (default is the suite's own)"),
    ],
)
def test_what_names_no_build_is_refused(
    texts: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, before anything is installed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    with pytest.raises(UsageError, match=re.escape(f"--base {message}")):
        named(*texts)


def test_a_page_shows_no_secret() -> None:
    """Neither the password of an index nor a variable that is called a secret."""
    found = parse_build("--head", ["a @ https://me:word@host/a.whl"], ["API_TOKEN=1", "OMP_NUM_THREADS=2"])
    assert found.title == "a @ https://host/a.whl API_TOKEN=(hidden) OMP_NUM_THREADS=2"
    with pytest.raises(UsageError, match="--head-env '1=2' must have the form NAME=VALUE"):
        parse_build("--head", ["default"], ["1=2"])


def test_two_requirements_become_two_environments_that_differ_in_nothing_else(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one gets the first one's versions, but for torch, what belongs to it and what it names itself.

    Versions that do not go together are said aloud: then more differs than was asked for.
    """
    said: list[str] = []
    base, head = interpreters(BASE, named("torch==2.14.1", "transformers<5", option="--head"), said.append)
    assert Path(base).parts[-3].startswith("torch-2.13.0-")
    assert Path(head).parts[-3].startswith("torch-2.14.1-")
    first, second = installs(calls)
    assert first.endswith(" torch==2.13.0")
    assert {"torch>=2.6", "transformers>=4.25", "msgspec>=0.20"} < set(first.split())
    constraints = Path(second.split()[-1])
    assert constraints.read_text() == "numpy==2.2.6\n"
    assert [line.partition(" in ")[0] for line in said] == [
        "--base: making an environment with torch==2.13.0",
        "--head: making an environment with torch==2.14.1 transformers<5",
    ]
    monkeypatch.setenv("CONSTRAINED_FAILS", "1")
    interpreters(BASE, HEAD, said.append)
    assert "--head: it cannot be installed with the other side's versions of everything else" in said[-1]
    assert len(installs(calls)) == 4


def test_an_environment_is_made_once(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until something that decides its contents changes; one that was not completed is made again."""
    both = interpreters(BASE, HEAD, print)
    assert interpreters(BASE, HEAD, print) == both
    assert len(installs(calls)) == 2
    (Path(both[0]).parents[1] / builds.STAMP).unlink()
    assert interpreters(BASE, HEAD, print) == both
    assert len(installs(calls)) == 3
    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    assert not set(interpreters(BASE, HEAD, print)) & set(both)


def test_the_contents_of_a_wheel_decide_and_an_open_requirement_holds_for_a_day(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel that is built again has the same name."""
    wheel = tmp_path / "torch-2.15.0-cp311-none-any.whl"
    keys = []
    for content in ("1", "2"):
        wheel.write_text(content)
        keys.append(builds._key(named(str(wheel)), ()))
    assert keys[0] != keys[1]
    for text, is_exact in (("torch==2.13.0", True), ("torch===2.13.0+cpu", True), ("torch==2.*", False), ("a", False)):
        assert builds._is_exact(named(text)) is is_exact


def test_an_environment_that_cannot_be_made_ends_the_call(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is tried again the next time; a cache that cannot be written to is named."""
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(
        EnvironmentProblem, match=r"^--base torch==2.13.0: uv cannot make the environment \(see above\)$"
    ):
        interpreters(BASE, HEAD, print)
    monkeypatch.delenv("FAILS")
    interpreters(BASE, HEAD, print)
    monkeypatch.setenv("MODELZOO_CACHE", str(calls))
    with pytest.raises(EnvironmentProblem, match="cannot be written to: Not a directory; name another directory"):
        interpreters(BASE, HEAD, print)


def test_without_uv_interpreters_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is needed for what is to be installed only."""
    monkeypatch.setattr(builds.shutil, "which", lambda *args, **options: None)
    own = named("default")
    assert interpreters(own, parse_build("--head", ["default"]), print) == (sys.executable, sys.executable)
    with pytest.raises(
        EnvironmentProblem, match=r"uv is not installed, .*: run pip install uv, or name two interpreters"
    ):
        interpreters(own, HEAD, print)


def test_the_variables_of_a_side_are_set_before_its_interpreter_starts() -> None:
    """Both sides may be one interpreter."""
    head = parse_build("--head", ["default"], ["ONEDNN_MAX_CPU_ISA=AVX2", "TEXT=a b'c"])
    base, python = interpreters(named("default"), head, print)
    assert (base, Path(python).parts[-3][:24]) == (sys.executable, "ONEDNN_MAX_CPU_ISA-AVX2-")
    code = "import os; print(os.environ['ONEDNN_MAX_CPU_ISA'], os.environ['TEXT'])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "AVX2 a b'c\n"
