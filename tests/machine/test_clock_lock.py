"""Clocks that were locked are set back, whatever happens: the guard is a real process, its NVML is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_nvml import fake_nvml
from places import ROOT

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import sensors
from modelzoo.machine.sensors import hold, locked_clocks

PYNVML = """
import sys
sys.path.insert(0, {tests!r})
from fake_nvml import fake_nvml
library = fake_nvml(denied={denied}, count=1)
globals().update(vars(library))
def note(text):
    with open({log!r}, "a") as file:
        file.write(text + "\\n")
def nvmlDeviceSetGpuLockedClocks(handle, low, high):
    library.nvmlDeviceSetGpuLockedClocks(handle, low, high)
    note(f"locked at {{low}}")
def nvmlDeviceResetGpuLockedClocks(handle):
    note("set back")
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the guard's NVML notes what was done to the clocks."""
    return installed(tmp_path, monkeypatch, denied=False)


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, *, denied: bool) -> Path:
    """Put a ``pynvml`` onto the path of new processes."""
    values = {"tests": str(ROOT / "tests"), "denied": denied, "log": str(folder / "log")}
    (folder / "pynvml.py").write_text(PYNVML.format(**values), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return folder / "log"


def wait_for(log: Path, text: str) -> None:
    """Wait until the guard has noted ``text``."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if log.exists() and text in log.read_text():
            return
        time.sleep(0.02)
    pytest.fail(f"the guard never noted {text!r}")


def test_the_clocks_are_locked_inside_only(log: Path) -> None:
    """And set back after an error as well."""
    with pytest.raises(ZeroDivisionError), locked_clocks(1200):
        assert log.read_text() == "locked at 1200\n"
        raise ZeroDivisionError
    assert log.read_text() == "locked at 1200\nset back\n"


def test_nothing_is_locked_unless_asked_for(log: Path) -> None:
    """No guard is started."""
    with locked_clocks(None):
        pass
    assert not log.exists()


def test_a_parent_that_is_killed_leaves_no_clock_locked(log: Path) -> None:
    """SIGKILL cannot be caught, but it closes the guard's standard input."""
    code = "import time; from modelzoo.machine.sensors import locked_clocks\nwith locked_clocks(900): time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    wait_for(log, "locked at 900")
    parent.kill()
    parent.wait()
    wait_for(log, "set back")


def test_a_guard_that_is_terminated_sets_them_back(log: Path) -> None:
    """SIGTERM, as at the shutdown of a machine."""
    with subprocess.Popen(
        [sys.executable, "-m", "modelzoo.machine.sensors", "700"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as guard:
        wait_for(log, "locked at 700")
        guard.send_signal(signal.SIGTERM)
        guard.wait()
    assert log.read_text() == "locked at 700\nset back\n"


def test_clocks_that_cannot_be_locked_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the permission nothing was locked, and nothing is set back."""
    log = installed(tmp_path, monkeypatch, denied=True)
    with pytest.raises(EnvironmentProblem) as raised, locked_clocks(1200):
        pass
    assert str(raised.value).startswith("--lock-clocks 1200: NVML refuses (Insufficient Permissions); run as root")
    assert not log.exists()


def test_without_nvml_there_is_no_lock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The guard says what to install."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        assert number
    assert sensors.main(["1200"]) == 2
    assert "pip install 'modelzoo[cuda]'" in capsys.readouterr().out


def test_gpus_that_were_locked_before_one_refused_are_set_back(capsys: pytest.CaptureFixture[str]) -> None:
    """The second GPU may not be allowed."""
    library = fake_nvml()
    lock = library.nvmlDeviceSetGpuLockedClocks

    def refuse_second(handle: str, low: int, high: int) -> None:
        if handle == "gpu 1":
            raise library.NVMLError("Not Supported")
        lock(handle, low, high)

    library.nvmlDeviceSetGpuLockedClocks = refuse_second
    assert hold(library, ["gpu 0", "gpu 1"], 800) == 2
    assert library.locked == ["gpu 0 at 800 to 800", "gpu 0 set back"]
    assert "NVML refuses (Not Supported)" in capsys.readouterr().out
