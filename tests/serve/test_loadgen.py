"""LoadGen's side: what it hands over is answered, and its log is read. LoadGen itself is not needed."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.records.load import NamedValue
from modelzoo.serve.generator import Batching, Dispatcher
from modelzoo.serve.loadgen import Inbox, Log, _answer, installed, read_log
from modelzoo.serve.servers import VirtualServer

LOG = """\
:::MLLOG {"key": "loadgen_version", "value": "6.0.17 @ None", "metadata": {}}
:::MLLOG {"key": "result_validity", "value": "INVALID", "metadata": {}}
:::MLLOG {"key": "result_invalid_reason", "value": "Reduce target QPS to improve latency. ", "metadata": {}}
:::MLLOG {"key": "result_mean_latency_ns", "value": 4222904, "metadata": {}}
:::MLLOG {"key": "result_99.00_percentile_latency_ns", "value": 12014041, "metadata": {}}
:::MLLOG {"key": "result_completed_samples_per_sec", "value": 98.9142, "metadata": {}}
something else
"""


def test_requests_that_are_handed_over_are_answered() -> None:
    """Those that come together share batches, each is completed once, and it ends with LoadGen."""
    inbox, done = Inbox(), []
    inbox.put([7, 8, 9], 0.0)
    inbox.put([5], 0.0)
    inbox.end()
    dispatcher = Dispatcher(VirtualServer(1, lambda size: 1.0), Batching(2, 0.0, 100))
    found = _answer(dispatcher, inbox, done.extend)
    inbox.close()
    assert done == [7, 8, 9, 5]
    assert found.latencies() == [1.0, 1.0, 2.0, 2.0]
    assert dispatcher.sizes == {2: 2}
    assert not any(math.isnan(each) for each in found.dispatched)


def test_another_thread_can_hand_over() -> None:
    """Its requests wake whoever waits for the pipe."""
    inbox = Inbox()
    thread = threading.Thread(target=lambda: (inbox.put([1], 0.5), inbox.end()))
    thread.start()
    thread.join()
    inbox.drain()
    inbox.drain()
    assert list(inbox.requests) == [(1, 0.5)]
    assert inbox.is_over
    inbox.close()


def test_the_log_has_the_verdict_and_the_figures(tmp_path: Path) -> None:
    """In seconds, with the names of this suite."""
    path = tmp_path / "mlperf_log_detail.txt"
    path.write_text(LOG)
    assert read_log(path) == Log(
        False,
        "Reduce target QPS to improve latency.",
        (
            NamedValue("mean", pytest.approx(4.222904e-3)),
            NamedValue("p99", pytest.approx(12.014041e-3)),
            NamedValue("requests/s", 98.9142),
        ),
    )


def test_a_run_that_is_too_short_has_a_reason(tmp_path: Path) -> None:
    """LoadGen 6.0.17 gives none in that case, but says elsewhere what it takes."""
    lines = (
        '{"key": "result_validity", "value": "INVALID"}',
        '{"key": "early_stopping_met", "value": false}',
        '{"key": "result_invalid_reason", "value": ""}',
        '{"key": "early_stopping_result", "value": " * Run unsuccessful.  * Processed 101 queries."}',
    )
    path = tmp_path / "log.txt"
    path.write_text("".join(f":::MLLOG {line}\n" for line in lines))
    assert read_log(path).reason == "Run unsuccessful. Processed 101 queries."


def test_a_log_without_a_verdict_is_an_error(tmp_path: Path) -> None:
    """So is none at all."""
    path = tmp_path / "log.txt"
    with pytest.raises(EnvironmentProblem, match="left no log"):
        read_log(path)
    path.write_text("")
    with pytest.raises(EnvironmentProblem, match="no verdict"):
        read_log(path)


@pytest.mark.skipif(installed() is None, reason="mlcommons-loadgen is not installed")
def test_loadgen_drives_a_server(tmp_path: Path) -> None:
    """A second of requests to a server that needs a millisecond for each; both count the same ones."""
    import time

    from load_results import plan

    from modelzoo.serve.loadgen import drive
    from modelzoo.serve.servers import Reply

    class Pausing(VirtualServer):
        """By the real clock."""

        def now(self) -> float:
            return time.monotonic()

        def wait(self, until: float) -> list[Reply]:
            time.sleep(1e-3)
            return list(super().wait(super().now() + 1e-3))

    inbox = Inbox()
    served = drive(Pausing(1, lambda size: 1e-3), plan(queries=50, duration=1.0), 1000.0, inbox, tmp_path)
    inbox.close()
    assert len(served.latencies()) >= 50
    assert {each.name for each in read_log(tmp_path / "mlperf_log_detail.txt").values} >= {"mean", "p50", "p99"}
