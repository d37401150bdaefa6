"""Where Jittor's environment is, and what its processes are started with."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from modelzoo.engines.jittor import environment
from modelzoo.errors import EnvironmentProblem
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


def test_it_is_in_the_checkout_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that the script makes without an argument."""
    monkeypatch.delenv(environment.DIRECTORY_VARIABLE, raising=False)
    assert environment.directory() == CHECKOUT / "envs" / "jittor"


def test_its_interpreter_is_found(place: Path) -> None:
    """The measuring workers run in it; this process does not."""
    assert environment.interpreter() == str(place / "bin" / "python")
    assert not environment.is_inside()


def test_a_process_knows_that_it_runs_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only such a process may import Jittor."""
    monkeypatch.setattr(sys, "prefix", str(place))
    assert environment.is_inside()


def test_a_missing_environment_names_the_command_that_makes_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was never made, or making it was interrupted."""
    (place / environment.STAMP).unlink()
    with pytest.raises(EnvironmentProblem, match=r"jittor is incomplete: run scripts/setup-jittor$"):
        environment.interpreter()
    monkeypatch.setenv(environment.DIRECTORY_VARIABLE, str(place / "no"))
    with pytest.raises(EnvironmentProblem, match=r"no does not exist: run scripts/setup-jittor$"):
        environment.interpreter()


def test_variables(place: Path) -> None:
    """Threads are explicit; CUDA's compiler is not looked for, torch not imported, and git's branch has no effect."""
    found = environment.variables(3)
    assert {found[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")} == {"3"}
    assert found["nvcc_path"] == ""
    assert (found["FIX_TORCH_ERROR"], found["log_silent"], found["cache_name"]) == ("0", "1", "default")
    assert found["JITTOR_HOME"] == str(place / "home")


def test_a_cache_that_is_read_only_is_not_used(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an image the environment belongs to another user."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    assert environment.home() == tmp_path / "cache" / "jittor"


def test_the_version_is_read_without_importing(place: Path) -> None:
    """From the metadata in the environment's packages."""
    assert environment.version() is None
    metadata = place / "lib" / "python3.11" / "site-packages" / "jittor-1.3.11.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: jittor\nVersion: 1.3.11.0\n")
    assert environment.version() == "1.3.11.0"


@pytest.mark.parametrize(
    ("architecture", "folder"),
    [("x86_64", "dnnl_lnx_2.2.0_cpu_gomp"), ("aarch64", "dnnl_lnx_2.2.0_cpu_gomp_aarch64")],
)
def test_onednn_is_where_jittor_looks_for_it(
    architecture: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links to the system's header and library, made once."""
    root = system(tmp_path, architecture, monkeypatch)
    environment.link_onednn(tmp_path)
    environment.link_onednn(tmp_path)
    found = tmp_path / ".cache" / "jittor" / "mkl" / folder
    assert (found / "include" / "dnnl.hpp").readlink() == root / "include" / "dnnl.hpp"
    assert (found / "lib" / "libmkldnn.so").readlink() == root / "lib" / f"{architecture}-linux-gnu" / "libdnnl.so.2"


def test_onednn_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jittor would try to download a release of its own."""
    root = system(tmp_path, "x86_64", monkeypatch)
    (root / "include" / "dnnl.hpp").unlink()
    with pytest.raises(EnvironmentProblem, match=r"dnnl\.hpp does not exist: run .* apt-get install libdnnl-dev"):
        environment.link_onednn(tmp_path)


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or read-only disk."""
    system(tmp_path, "x86_64", monkeypatch)
    (tmp_path / ".cache").touch()
    with pytest.raises(EnvironmentProblem, match="cannot be written to: Not a directory; run scripts/setup-jittor"):
        environment.link_onednn(tmp_path)


def system(directory: Path, architecture: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory that stands for ``/usr``, with oneDNN for ``architecture``."""
    root = directory / "usr"
    for file in (root / "include" / "dnnl.hpp", root / "lib" / f"{architecture}-linux-gnu" / "libdnnl.so.2"):
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr(environment, "SYSTEM", root)
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    return root
