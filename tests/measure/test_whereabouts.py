"""A call that does not return: the layer, the line and the shapes are named, and it can be ended."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import psutil
import pytest
import torch
from toy_workloads import SHORT, numpy_setting, odd_numpy, runs_of

from modelzoo.measure import process, schedule
from modelzoo.measure.jobs import Event, Request
from modelzoo.measure.worker import whereabouts
from modelzoo.plan import Effort
from modelzoo.records.run import Run
from modelzoo.workload import Workload

LOCKED = (
    "import ctypes; lock = ctypes.{library}(None).pthread_mutex_lock; mutex = ctypes.create_string_buffer(256); "
    "return lambda rows, weight: rows @ weight if len(rows) == 1 else (lock(mutex), lock(mutex))"
)
"""A model that never returns from its first batch of two: in C, and the second lock is never released."""


def stuck(folder: Path, library: str = "CDLL") -> Workload:
    """A workload whose model hangs; ``PyDLL`` keeps the GIL meanwhile."""
    return odd_numpy(folder / "odd", build=LOCKED.format(library=library))


class StuckConv(torch.nn.Conv1d):
    """A convolution that has begun, and returns when it is told to."""

    def __init__(self) -> None:
        super().__init__(2, 2, 16, groups=2)
        self.begun, self.end = threading.Event(), threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.begun.set()
        while not self.end.wait(10):
            pass
        return x


def test_layer_line_and_shapes_are_named() -> None:
    """The innermost module by its path in the model, and its arguments and parameters."""
    conv = StuckConv()
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(conv))
    thread = threading.Thread(target=model, args=(torch.ones(1, 2, 200),))
    thread.start()
    conv.begun.wait(10)
    found = whereabouts(thread.ident or 0)
    conv.end.set()
    thread.join()
    assert found.startswith("StuckConv '1.0', ")
    assert found.endswith(": x 1×2×200 float32, weight 2×1×16 float32, bias 2 float32")


@pytest.mark.parametrize(
    ("library", "place"),
    [("CDLL", "<lambda>: import ctypes; lock = ctypes.CDLL"), ("PyDLL", "<lambda>, called from ")],
    ids=["without the GIL", "with the GIL"],
)
@pytest.mark.usefixtures("numpy_engine", "prepared_here")
def test_a_call_that_does_not_return_is_named_while_it_hangs(
    library: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is recorded as the reason why the setting failed, if the user then interrupts the command."""
    monkeypatch.setattr(process, "QUIET_SECONDS", 0.3)
    runs, silent = [], []

    def interrupt(event: Event) -> None:
        if event.message.silence is not None and event.message.phase == "cold":
            silent.append(event.message.silence.where)
            raise KeyboardInterrupt

    work = stuck(tmp_path, library)
    request = Request(work, (numpy_setting(work).replace(batch=2),), SHORT, audit=False)
    with pytest.raises(KeyboardInterrupt):
        for outcome in schedule.measure([request], Effort(processes=1), interrupt):
            runs.append(outcome)
    (where,), (run,) = silent, runs
    assert f"workload.py:7 in {place}" in where
    assert library == "PyDLL" or where.endswith(": rows 2×48 float32, weight 48×8 float32")
    assert isinstance(run, Run)
    assert run.error is not None
    assert re.fullmatch(rf"interrupted: cold, no answer for \d+ s: {re.escape(where)}", run.error)


@pytest.mark.usefixtures("numpy_engine", "prepared_here")
def test_the_time_out_ends_a_call_and_keeps_the_other_settings(tmp_path: Path) -> None:
    """In one line that names the call."""
    work = stuck(tmp_path)
    settings = numpy_setting(work).replace(batch=1), numpy_setting(work).replace(batch=2)
    failed, *others = sorted(
        runs_of(Request(work, settings, SHORT, audit=False, timeout=4.0), 2), key=lambda run: -run.group
    )
    assert [failed.error_kind, *(run.error for run in others)] == ["NoAnswerError", None, None]
    assert re.match(r"ended by --timeout: cold, no answer for \d+ s: .*workload.py:7 in <lambda>: ", failed.error or "")
    assert not [each for each in psutil.Process().children(recursive=True) if "worker" in " ".join(each.cmdline())]
