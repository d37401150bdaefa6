"""Jittor's environment: where it is, what its processes are started with, its import, and predictions of a process."""

from __future__ import annotations

import os
import platform
import signal
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from places import ROOT

from modelzoo.engines import jittor as environment
from modelzoo.engines.jittor import engine, import_jittor, reason_of
from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.discovery import CHECKOUT


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment as ``scripts/setup-jittor`` leaves it, without packages."""
    directory = tmp_path / "jittor"
    (directory / "bin").mkdir(parents=True)
    (directory / "home").mkdir()
    (directory / "bin" / "python").touch()
    (directory / environment.STAMP).touch()
    monkeypatch.setenv(environment.DIRECTORY_VARIABLE, str(directory))
    return directory


def test_its_interpreter_is_found_or_the_command_that_makes_it_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the checkout by default; the measuring workers run in it, and only they may import Jittor."""
    assert environment.interpreter() == str(place / "bin" / "python")
    assert not environment.is_inside()
    monkeypatch.setattr(sys, "prefix", str(place))
    assert environment.is_inside()
    (place / environment.STAMP).unlink()
    with pytest.raises(EnvironmentProblem, match=r"jittor is incomplete: run scripts/setup-jittor$"):
        environment.interpreter()
    monkeypatch.setenv(environment.DIRECTORY_VARIABLE, str(place / "no"))
    with pytest.raises(EnvironmentProblem, match=r"no does not exist: run scripts/setup-jittor$"):
        environment.interpreter()
    monkeypatch.delenv(environment.DIRECTORY_VARIABLE)
    assert environment.directory() == CHECKOUT / "envs" / "jittor"


def test_processes_are_started_with_threads_and_a_cache_that_they_can_write_to(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an image, the environment belongs to another user."""
    found = environment.variables(3)
    assert {found[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")} == {"3"}
    assert found["JITTOR_HOME"] == str(place / "home")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    assert environment.variables(3)["JITTOR_HOME"] == str(tmp_path / "cache" / "jittor")


def test_the_version_is_read_without_importing(place: Path) -> None:
    """From the metadata in the environment's packages."""
    assert environment.version() is None
    metadata = place / "lib" / "python3.11" / "site-packages" / "jittor-1.3.11.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: jittor\nVersion: 1.3.11.0\n")
    assert environment.version() == "1.3.11.0"


@pytest.mark.parametrize(
    ("architecture", "folder"), [("x86_64", "dnnl_lnx_2.2.0_cpu_gomp"), ("aarch64", "dnnl_lnx_2.2.0_cpu_gomp_aarch64")]
)
def test_onednn_is_where_jittor_looks_for_it(
    architecture: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links to the system's header and library, made once; without these Jittor would download a release of its own."""
    header = tmp_path / "usr" / "include" / "dnnl.hpp"
    library = tmp_path / "usr" / "lib" / f"{architecture}-linux-gnu" / "libdnnl.so.2"
    for file in (header, library):
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr(environment, "SYSTEM", tmp_path / "usr")
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    environment.link_onednn(tmp_path)
    environment.link_onednn(tmp_path)
    found = tmp_path / ".cache" / "jittor" / "mkl" / folder
    assert (found / "include" / "dnnl.hpp").readlink() == header
    assert (found / "lib" / "libmkldnn.so").readlink() == library
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".cache").touch()
    with pytest.raises(EnvironmentProblem, match="cannot be written to: Not a directory; run scripts/setup-jittor"):
        environment.link_onednn(tmp_path / "full")
    header.unlink()
    with pytest.raises(EnvironmentProblem, match=r"dnnl\.hpp does not exist: run .* apt-get install libdnnl-dev"):
        environment.link_onednn(tmp_path)


JITTOR = """
import os, platform, signal, ssl
signal.signal(signal.SIGCHLD, lambda *about: None)
home, node = os.environ["HOME"], platform.node()
ssl._create_default_https_context = ssl._create_unverified_context

class flags:
    python_path = "/usr/bin/env python3"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a package called jittor."""
    monkeypatch.setenv(environment.HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(environment, "link_onednn", lambda home: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "jittor-python").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "jittor" / "__init__.py"
    file.parent.mkdir()
    yield file
    sys.modules.pop("jittor", None)


def test_what_the_import_changes_is_undone(package: Path) -> None:
    """Certificates are verified and signals handled as before; the cache depends on neither user nor host name."""
    verified, home, node = ssl._create_default_https_context, os.environ.get("HOME"), platform.node
    package.write_text(JITTOR)
    jittor = import_jittor()
    assert (jittor.home, jittor.node) == (os.environ[environment.HOME_VARIABLE], "")
    assert jittor.flags.python_path == f"{sys.prefix}/bin/jittor-python"
    assert ssl._create_default_https_context is verified
    assert (os.environ.get("HOME"), platform.node) == (home, node)
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


def test_an_import_that_fails_is_one_line(package: Path) -> None:
    """The last line of the compiler's error; what the import changed is undone here too."""
    verified = ssl._create_default_https_context
    package.write_text(JITTOR + "raise RuntimeError('g++ failed\\nno such file: dnnl.hpp')")
    with pytest.raises(EnvironmentProblem) as caught:
        import_jittor()
    reason = "no such file: dnnl.hpp"
    assert str(caught.value) == f"Jittor cannot be imported ({reason}): run scripts/setup-jittor again"
    assert ssl._create_default_https_context is verified
    Path(f"{sys.prefix}/bin/jittor-python").unlink()
    with pytest.raises(EnvironmentProblem, match="bin/jittor-python does not exist: run scripts/setup-jittor again"):
        import_jittor()


def test_the_reason_of_an_error_is_one_line() -> None:
    """Without colours, times, and the advice that follows it."""
    message = (
        "\x1b[38;5;1m[f 1122 16:26:47.848523 12 executor.cc:686] \nExecute fused operator failed.\n[OP TYPE]: "
        "mkl_conv\n[Async Backtrace]: not found\n[Reason]: [f 1122 16:26:47.848523 aa mkl.cc:12] Check failed\n"
        "more of it\x1b[m\n**********\nAsync error was detected.\n>>> export trace_py_var=3\n"
    )
    assert reason_of(RuntimeError(message)) == "Check failed"
    assert reason_of(RuntimeError("")) == "RuntimeError"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[engine.RemoteModel]:
    """Twice the input, plus the number of threads that the process was given."""
    monkeypatch.setattr(environment, "interpreter", lambda: sys.executable)
    monkeypatch.setattr(engine, "SERVER", "engines.jittor.fake_server")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    found = engine.RemoteModel("resnet50", ResolvedSetting(threads=3), Path("export"))
    yield found
    found.close()


def test_tensors_go_there_and_back(model: engine.RemoteModel) -> None:
    """Batch after batch, to one process."""
    for value in (1.0, 4.0):
        found = model.predict(torch.full((3, 2), value).t())
        assert found.dtype == torch.float32
        assert found.tolist() == [[2 * value + 3] * 3] * 2


def test_a_process_that_dies_is_explained(model: engine.RemoteModel) -> None:
    """By its exit code and its last line."""
    with pytest.raises(WorkerError, match=r"^Jittor's process ended with code 1: no memory left$"):
        model.predict(torch.tensor([float("nan")]))
