"""npu-smi is read; its output is that of Huawei's documentation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from places import ROOT
from planted import fake_nvml, plant
from programs import until

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import sensors
from modelzoo.machine.sensors import (
    CpuUsageMonitor,
    hold,
    locked_clocks,
    npu_sensors,
    parse_npu_smi,
    parse_stat,
)
from modelzoo.records.equipment import Reading
from modelzoo.records.machine import ClockFrequency

OUTPUT = """\
        NPU ID                         : 1
        Chip Count                     : 1

        Chip ID                        : 0
        Memory Usage Rate(%)           : 0
        HBM Usage Rate(%)              : 91
        Aicore Usage Rate(%)           : 6
        Aicore Freq(MHZ)               : 1800
        Aicore curFreq(MHZ)            : 800
        Aicore Count                   : 20
        Temperature(C)                 : 46
        NPU Real-time Power(W)         : 130.4

        Chip Name                      : mcu
        Temperature(C)                 : 40
"""

values = partial(Reading, "steady", 0)


def test_the_current_frequency_power_and_temperature() -> None:
    """Those of the NPU, not its nominal frequency and not the temperature of its controller."""
    assert parse_npu_smi(OUTPUT) == values(mhz=800.0, watts=130.4, celsius=46.0)
    assert parse_npu_smi("") == values()


def test_the_program_is_asked_for_one_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is slow, so it is not run between calls; without it the reason is said."""
    program = tmp_path / "npu-smi"
    program.write_text('#!/bin/sh\necho "NPU Real-time Power(W) : $5"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = npu_sensors(3)
    assert (found.read(), found.is_fast) == (values(watts=3.0), False)
    monkeypatch.setattr(sensors.shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="read by npu-smi, which is not on PATH"):
        npu_sensors(0)
    program.unlink()
    assert found.read() == values()


def test_every_sensor_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In MHz, watts and °C; a sensor that a GPU does not have is nothing, and an idle clock is no throttling."""
    library = fake_nvml(reasons=0x01 | 0x04 | 0x40)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    found = sensors.nvml_sensors("GPU-0123", 0, {}).read()
    assert (found.mhz, found.memory_mhz, found.watts, found.celsius, found.joules) == (1980, 2619, 312.5, 45, None)
    assert found.throttled == ("power cap", "thermal limit (hardware)")
    library.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 0x20  # their name since driver 535
    assert sensors.nvml_sensors(None, 1, {}).read().throttled == ("thermal limit (driver)",)


def test_the_variable_decides_which_gpus_a_process_has() -> None:
    """By number or by UUID; all without it."""
    library = fake_nvml()
    assert sensors.handles(library, {}) == ["gpu 0", "gpu 1"]
    assert sensors.handles(library, {"CUDA_VISIBLE_DEVICES": "1"}) == ["gpu 1"]
    assert sensors.handles(library, {"CUDA_VISIBLE_DEVICES": "GPU-7, 0"}) == ["GPU-7", "gpu 0"]


@pytest.mark.parametrize(("identifier", "index"), [("MIG-1", 0), (None, 2)])
def test_a_gpu_that_nvml_does_not_know(identifier: str | None, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no sensors then, and the reason is one line."""
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    with pytest.raises(EnvironmentProblem, match="NVML does not know the GPU"):
        sensors.nvml_sensors(identifier, index, {})


def test_a_missing_library_or_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is optional; without a driver it cannot be used."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(EnvironmentProblem, match=r"read by nvidia-ml-py: pip install nvidia-ml-py"):
        sensors.library()

    def fail() -> None:
        raise OSError("NVML Shared Library Not Found")

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(NVMLError=OSError, nvmlInit=fail))
    with pytest.raises(EnvironmentProblem, match="NVML cannot be used: NVML Shared Library Not Found"):
        sensors.library()


PYNVML = """
import sys
sys.path.insert(0, {tests!r})
from planted import fake_nvml
globals().update(vars(fake_nvml(denied={denied}, count=1, log={log!r})))
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
    until(lambda: log.exists() and text in log.read_text())


def test_the_clocks_are_locked_inside_only(log: Path) -> None:
    """And set back after an error as well; without a number no guard is started."""
    with locked_clocks(None):
        assert not log.exists()
    with pytest.raises(ZeroDivisionError), locked_clocks(1200):
        assert log.read_text() == "gpu 0 locked at 1200 to 1200\n"
        raise ZeroDivisionError
    assert log.read_text() == "gpu 0 locked at 1200 to 1200\ngpu 0 set back\n"


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
    assert log.read_text() == "gpu 0 locked at 700 to 700\ngpu 0 set back\n"


def test_clocks_that_cannot_be_locked_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the permission nothing was locked, and nothing is set back."""
    log = installed(tmp_path, monkeypatch, denied=True)
    with pytest.raises(EnvironmentProblem) as raised, locked_clocks(1200):
        pass
    assert str(raised.value).startswith("--lock-clocks 1200: NVML refuses (Insufficient Permissions); run as root")
    assert not log.exists()


def test_gpus_that_were_locked_before_one_refused_are_set_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second GPU may not be allowed."""
    library = fake_nvml(log=str(tmp_path / "log"))
    lock = library.nvmlDeviceSetGpuLockedClocks

    def refuse_second(handle: str, low: int, high: int) -> None:
        if handle == "gpu 1":
            raise library.NVMLError("Not Supported")
        lock(handle, low, high)

    library.nvmlDeviceSetGpuLockedClocks = refuse_second
    assert hold(library, ["gpu 0", "gpu 1"], 800) == 2
    assert (tmp_path / "log").read_text() == "gpu 0 locked at 800 to 800\ngpu 0 set back\n"
    assert "NVML refuses (Not Supported)" in capsys.readouterr().out


def test_without_nvml_there_is_no_lock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The guard says what to install."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert sensors.main(["1200"]) == 2
    assert "pip install nvidia-ml-py" in capsys.readouterr().out


FREQUENCY = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
STAT = """\
cpu  300 0 100 5000 0 0 0 30 0 0
cpu0 100 10 50 2500 5 1 2 10 7 0
cpu1 200 0 50 2500 0 0 0 20 0 0
intr 1
"""


def test_parse_stat_adds_the_cpus_asked_for() -> None:
    """Idle, waiting and guest time do not count as busy; stolen time is separate."""
    assert parse_stat(STAT, frozenset({0})) == (100 + 10 + 50 + 1 + 2, 10)
    assert parse_stat(STAT, frozenset({0, 1})) == (163 + 250, 30)
    assert parse_stat("", frozenset({0})) is None


def monitored(
    root: Path, monkeypatch: pytest.MonkeyPatch, cpus: set[int], clock: list[float], own: list[float]
) -> CpuUsageMonitor:
    """A started monitor of a machine whose clock shows these times, and this process these CPU seconds."""
    monkeypatch.setattr("modelzoo.machine.sensors.linux.allowed_cpus", lambda: frozenset(cpus))
    for name, values in (("time.perf_counter", iter(clock)), ("process_tree_seconds", iter(own))):
        monkeypatch.setattr(f"modelzoo.machine.sensors.{name}", lambda *pid, values=values: next(values))
    return CpuUsageMonitor(root=root)


def test_own_work_is_told_from_other_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy ticks minus our own are other usage; stolen ticks count relative to all demanded."""
    ticks = os.sysconf("SC_CLK_TCK")
    plant(tmp_path, {"proc/stat": "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0", FREQUENCY: "2000000"})
    monitor = monitored(tmp_path, monkeypatch, {0, 1}, [100.0, 110.0], [1.0, 6.0])
    plant(
        tmp_path,
        {
            "proc/stat": f"cpu0 {6 * ticks} 0 0 0 0 0 0 {2 * ticks}\ncpu1 {2 * ticks} 0 0 0 0 0 0 0",
            FREQUENCY: "3000000",
        },
    )
    usage = monitor.stop()
    assert usage.seconds == 10
    assert usage.own_cores == pytest.approx(0.5)
    assert usage.other_cores == pytest.approx(0.3)
    assert usage.steal_percent == pytest.approx(20)
    assert usage.throttled_seconds is None
    assert usage.frequency == ClockFrequency(2500.0, 2000.0, 3000.0)
    assert usage.huge_pages is None


def test_what_is_left_out_is_no_part_of_the_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that cannot see the others of its call counts its own turns only."""
    ticks = os.sysconf("SC_CLK_TCK")

    def busy(seconds: float) -> None:
        plant(tmp_path, {"proc/stat": f"cpu0 {round(seconds * ticks)} 0 0 0 0 0 0 0"})

    busy(0)
    monitor = monitored(tmp_path, monkeypatch, {0}, [100.0, 102.0, 110.0, 112.0], [1.0, 2.0, 2.0, 3.0])
    busy(1.2)
    monitor.mark()
    busy(9)
    monitor.mark()
    busy(10.2)
    usage = monitor.stop()
    assert (usage.seconds, usage.own_cores) == (4, 0.5)
    assert usage.other_cores == pytest.approx(0.1)
    assert usage.resolution == pytest.approx(2**0.5 / ticks / 4)
