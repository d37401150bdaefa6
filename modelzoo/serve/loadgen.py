"""MLPerf LoadGen as a cross-check: it makes the requests, the same queue and instances answer them.

LoadGen calls this side from a thread of its own when requests are due (``IssueQuery``), and is told of replies by
``QuerySamplesComplete`` (https://github.com/mlcommons/inference/tree/master/loadgen, ``system_under_test.h`` and
``loadgen.h``). Its arrivals are recorded, so that this suite's generator can repeat them exactly.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

import msgspec

from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.frozen import replace
from modelzoo.records.load import Load, LoadgenRun, LoadPlan, LoadRun, NamedValue, Scenario
from modelzoo.records.run import now
from modelzoo.results.load import SINGLE_STREAM_PERCENT
from modelzoo.serve.generator import Batching, Dispatcher, Served, serve, stream
from modelzoo.serve.runs import SERVER_SECONDS, arrivals, batching, record
from modelzoo.serve.search import CalibratedInstances, lengthened
from modelzoo.serve.servers import Server
from modelzoo.serve.session import Deployment, open_session

PACKAGE = "mlcommons-loadgen"
MISSING = f"--loadgen needs MLPerf LoadGen, which has wheels for x86-64 only: pip install {PACKAGE}"
_LIBRARY = 1024
"""Samples of the query library, as MLPerf has for ResNet50; every sample is the same input here."""
_FIGURES = {
    "result_mean_latency_ns": "mean",
    "result_50.00_percentile_latency_ns": "p50",
    "result_90.00_percentile_latency_ns": "p90",
    "result_95.00_percentile_latency_ns": "p95",
    "result_99.00_percentile_latency_ns": "p99",
    "result_completed_samples_per_sec": "requests/s",
    "result_samples_per_second": "requests/s",
    "result_qps_with_loadgen_overhead": "requests/s",
}
"""Names in LoadGen's detailed log, and what they are called here."""


def installed() -> Optional[str]:
    """The version of LoadGen that is installed; ``None`` if none is."""
    if importlib.util.find_spec("mlperf_loadgen") is None:
        return None
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


class Check(msgspec.Struct, frozen=True):
    """LoadGen's run, and the run in which this suite's generator repeated its arrivals."""

    record: LoadgenRun
    replayed: LoadRun


def check(site: Deployment, load: Load) -> Check:
    """Let LoadGen drive new instances, and then repeat its arrivals on them.

    Raises:
        EnvironmentProblem: LoadGen is not installed, or its log cannot be read.
        WorkerError: an instance died.
    """
    version = installed()
    if version is None:
        raise EnvironmentProblem(MISSING)
    inbox = Inbox()
    try:
        repeat = load.plan.repeats
        with open_session(replace(site, wake=inbox.reader), load, repeat, lambda session: None, extras=False) as opened:
            started, session = now(), opened.session
            plan = lengthened(load.plan, session.calibration, opened.alone, load.fixed_size)
            load = replace(load, plan=plan)
            with tempfile.TemporaryDirectory(prefix="modelzoo-loadgen-") as directory:
                before = opened.throttling()
                served = drive(opened.server, load.plan, opened.session.calibration.rate, inbox, Path(directory))
                run = opened.throttled(_run(served, load, opened, started), before)
                log = read_log(Path(directory) / "mlperf_log_detail.txt")
            before = opened.throttling()
            replayed = opened.throttled(_replay(served, load, opened), before)
    finally:
        inbox.close()
    return Check(LoadgenRun(version, log.is_valid, log.reason, log.values, run), replayed)


def _run(served: Served, load: Load, opened: CalibratedInstances, started: str) -> LoadRun:
    plan = load.plan
    return record(served, plan, plan.rate, plan.repeats, plan.seed, started, opened.session.calibration)


def _replay(served: Served, load: Load, opened: CalibratedInstances) -> LoadRun:
    """The same arrivals, by this suite's generator."""
    plan, started = load.plan, now()
    schedule = [due - served.begun for due in served.due]
    if plan.scenario is Scenario.SINGLE_STREAM:
        again = stream(opened.server, len(schedule), 0.0)
    else:
        again = serve(opened.server, schedule, batching(plan, len(schedule)))
    return replace(_run(again, load, opened, started), replayed=True)


class Inbox:
    """Requests that LoadGen's thread hands over. Writing to a pipe wakes the loop.

    Attributes:
        reader: the descriptor that is readable when there is something new.
        requests: LoadGen's id of each request, with the time at which it was handed over.
        is_over: whether LoadGen has ended.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        self.requests: deque[tuple[int, float]] = deque()
        self.is_over = False

    def put(self, ids: Sequence[int], at: float) -> None:
        """Hand over requests."""
        self.requests.extend((each, at) for each in ids)
        os.write(self._writer, b".")

    def end(self) -> None:
        """Say that LoadGen has ended."""
        self.is_over = True
        os.write(self._writer, b".")

    def drain(self) -> None:
        """Empty the pipe, if there is anything in it."""
        os.set_blocking(self.reader, False)
        with suppress(BlockingIOError):
            os.read(self.reader, 65536)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.reader)
        os.close(self._writer)


def drive(server: Server, plan: LoadPlan, capacity: float, inbox: Inbox, directory: Path) -> Served:
    """Run one test of LoadGen, and return what happened to its requests, timed from when they were handed over.

    Its queue has no limit: a request that is rejected has no latency, and LoadGen would wait for it for ever.

    Args:
        server: its waits end when ``inbox`` has something.
        plan: what was asked for.
        capacity: requests per second that the instances have answered.
        inbox: where LoadGen's thread puts requests.
        directory: for LoadGen's log.

    Raises:
        WorkerError: an instance died.
    """
    import mlperf_loadgen as lg

    def issue(samples: Sequence[Any]) -> None:
        inbox.put([sample.id for sample in samples], server.now())

    def test() -> None:
        sut = lg.ConstructSUT(issue, lambda: None)
        qsl = lg.ConstructQSL(_LIBRARY, _LIBRARY, lambda indices: None, lambda indices: None)
        try:
            # LoadGen reads the file that the last argument names if it exists.
            lg.StartTestWithLogSettings(
                sut, qsl, _settings(lg, plan, capacity), _log_settings(lg, directory), str(directory / "none")
            )
        finally:
            lg.DestroyQSL(qsl)
            lg.DestroySUT(sut)
            inbox.end()

    def complete(ids: Sequence[int]) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(each, 0, 0) for each in ids])

    wait = plan.max_wait if plan.scenario is Scenario.SERVER else 0.0
    dispatcher = Dispatcher(server, Batching(plan.batch, wait, sys.maxsize))
    thread = threading.Thread(target=test, daemon=True)
    thread.start()
    found = _answer(dispatcher, inbox, complete)
    if dispatcher.errors:
        raise WorkerError("; ".join(f"instance {n} died: {text}" for n, text in dispatcher.errors.items()))
    thread.join()
    return found


def _answer(dispatcher: Dispatcher, inbox: Inbox, complete: Any) -> Served:
    """Answer what comes until LoadGen has ended."""
    server = dispatcher.server
    ids: list[int] = []
    begun = server.now()
    found = Served([], [], [], [], 0, dispatcher, begun, begun, False)
    while not dispatcher.errors and (not inbox.is_over or inbox.requests or dispatcher.is_busy):
        inbox.drain()
        while inbox.requests:
            number, (query, at) = len(ids), inbox.requests.popleft()
            ids.append(query)
            dispatcher.offer(number, at)
            found.due.append(at)
            found.admitted.append(server.now())
            found.dispatched.append(math.nan)
            found.replied.append(math.nan)
        dispatcher.dispatch(server.now())
        for batch in dispatcher.finished(server.wait(dispatcher.deadline())):
            complete([ids[request] for request in batch.requests])
            found.ended = server.now()
            for request in batch.requests:
                found.dispatched[request], found.replied[request] = batch.dispatched, found.ended
    found.begun = found.due[0] if found.due else begun
    return found


def _settings(lg: Any, plan: LoadPlan, capacity: float) -> Any:
    """LoadGen's settings for the same test."""
    found = lg.TestSettings()
    found.mode = lg.TestMode.PerformanceOnly
    found.schedule_rng_seed = found.sample_index_rng_seed = found.qsl_rng_seed = plan.seed
    if plan.scenario is Scenario.OFFLINE:
        found.scenario = lg.TestScenario.Offline
        found.offline_expected_qps = capacity
        found.min_query_count = 1
        found.min_duration_ms = round(1e3 * len(arrivals(plan, None, 0, capacity)) / capacity)
        return found
    if plan.scenario is Scenario.SINGLE_STREAM:
        found.scenario = lg.TestScenario.SingleStream
        found.single_stream_expected_latency_ns = round(1e9 / capacity)
        found.single_stream_target_latency_percentile = SINGLE_STREAM_PERCENT / 100
        found.min_query_count = plan.queries or 100
        found.min_duration_ms = round(1e3 * (plan.duration or 10.0))
        return found
    schedule = arrivals(plan, plan.rate, 0, capacity)
    found.scenario = lg.TestScenario.Server
    found.server_target_qps = plan.rate or 1.0
    found.server_coalesce_queries = False
    found.min_query_count = len(schedule)
    found.min_duration_ms = round(1e3 * min(schedule[-1], plan.duration or SERVER_SECONDS))
    bound = plan.bound
    found.server_target_latency_ns = round(1e9 * (bound.seconds if bound is not None else 3600.0))
    found.server_target_latency_percentile = bound.percentile / 100 if bound is not None else 0.99
    return found


def _log_settings(lg: Any, directory: Path) -> Any:
    found = lg.LogSettings()
    found.enable_trace = False
    found.log_output.outdir = str(directory)
    found.log_output.copy_summary_to_stdout = False
    found.log_output.copy_detail_to_stdout = False
    return found


class Log(msgspec.Struct, frozen=True):
    """What LoadGen's detailed log says. Times in seconds."""

    is_valid: bool
    reason: str
    values: tuple[NamedValue, ...]


def read_log(path: Path) -> Log:
    """Read LoadGen's detailed log: lines of ``:::MLLOG`` with JSON.

    Raises:
        EnvironmentProblem: it is not there, or has no verdict.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise EnvironmentProblem(f"LoadGen left no log: {error.strerror}; run it without --loadgen") from error
    entries = {}
    for line in text.splitlines():
        mark, _, data = line.partition(":::MLLOG ")
        if data and not mark:
            entry = json.loads(data)
            entries[entry["key"]] = entry["value"]
    if "result_validity" not in entries:
        raise EnvironmentProblem("LoadGen's log has no verdict; run it without --loadgen")
    values = [
        NamedValue(name, entries[key] * (1e-9 if key.endswith("_ns") else 1.0))
        for key, name in _FIGURES.items()
        if isinstance(entries.get(key), (int, float))
    ]
    is_valid = entries["result_validity"] == "VALID"
    return Log(is_valid, "" if is_valid else _reason(entries), tuple(values))


def _reason(entries: Mapping[str, object]) -> str:
    """Why LoadGen calls a run INVALID; it gives no reason if that is only too short to show its percentile."""
    given = str(entries.get("result_invalid_reason", "")).strip()
    if given or entries.get("early_stopping_met", True):
        return given
    return " ".join(str(entries.get("early_stopping_result", "")).replace(" * ", " ").split())
