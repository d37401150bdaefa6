"""Is the load generator fast, on time and right? Needs a quiet machine, and no torch.

    .venv/bin/python benchmarks/load_generator.py [--rows speed,waits,theory,late] [--rate R] [--seconds S] [--seed N]

The generator of 'modelzoo load' runs on a core of its own, and polls, as it does there.

speed: on a server within its process that answers at once: requests per second that it makes when all are due at once,
and its lateness at --rate, in several runs, because a hypervisor may pause some of them. The claims: at least 20,000
requests a second, and at that rate a p99 lateness below 1 ms in the median of the runs.

waits: on a server within its process that takes 5 ms for each request, at 50, 80 and 90 % load: the mean wait in the
queue ÷ that of Lindley's recursion on the same arrivals and service times. The claim: within 2 %.

theory: Lindley's recursion on the generator's own schedules, 2,000,000 arrivals each, ÷ the mean wait of an M/D/1
queue (Pollaczek and Khinchine) at 50, 80 and 90 % load. The claim: within 5 %.

late: latencies by the recursion when 2 % of the requests are late, so that the p99 lateness is the most that a valid
run may have (5 % of the service time) ÷ those when none is: what such lateness does to the percentiles that a run is
judged by. The claim: p90 and p99 change by less than 0.5 %.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
from common import Claim, conclude, parser_of, percent, some_of, table
from numpy.typing import ArrayLike, NDArray

from modelzoo.machine.facts import read_topology
from modelzoo.machine.linux import allowed_cpus
from modelzoo.machine.sensors import CpuUsageMonitor
from modelzoo.results.load import LATE_SHARE
from modelzoo.serve.generator import Batching, Reply, poisson, serve
from modelzoo.serve.places import generator_place, settled

ROWS = ("speed", "waits", "theory", "late")
LOADS = (0.5, 0.8, 0.9)
SERVICE = 5e-3
"""Seconds of a request in the row ``waits``."""
ARRIVALS = 2_000_000
"""Of the recursion in the row ``theory``: the mean wait at 90 % load then varies by about 1.5 % between seeds."""
ROUNDS = 9
"""Runs of the row ``speed``, which share its --seconds."""
FIFO = Batching(1, 0.0, sys.maxsize)


def lindley(arrivals: ArrayLike, services: ArrayLike) -> NDArray[np.float64]:
    """Compute the wait of each request in a FIFO queue with one server.

    W(n + 1) = max(0, W(n) + S(n) - A(n + 1)), with A the gap before an arrival (Lindley, "The theory of queues with a
    single server", Mathematical Proceedings of the Cambridge Philosophical Society 48, 1952). Unrolled, W is a running
    sum minus its running minimum.

    Args:
        arrivals: seconds, ascending.
        services: seconds that each request takes once it is served.
    """
    steps = np.asarray(services, dtype=float)[:-1] - np.diff(np.asarray(arrivals, dtype=float))
    sums = np.concatenate([[0.0], np.cumsum(steps)])
    return sums - np.minimum.accumulate(sums)


def m_d_1_wait(load: float, service: float) -> float:
    """Compute the mean wait with Poisson arrivals and a constant service time: Pollaczek and Khinchine's formula.

    load · service / (2 (1 - load)) (Kleinrock, "Queueing Systems", volume 1, 1975, section 5.6).
    """
    return load * service / (2 * (1 - load))


def late_latencies(arrivals: ArrayLike, service: float, p99: float, seed: int) -> NDArray[np.float64]:
    """Compute latencies, from scheduled arrival, in a FIFO queue with one server behind a generator that is late.

    Args:
        arrivals: seconds, ascending.
        service: seconds of each request.
        p99: 99th percentile of the lateness, in seconds: 2 % of the requests are late, by up to twice as much, and no
            request overtakes another.
        seed: of the choice.
    """
    due, rng = np.asarray(arrivals, dtype=float), np.random.default_rng(seed)
    delays = np.where(rng.random(due.size) < 0.02, rng.uniform(0.0, 2 * p99, due.size), 0.0)
    taken = np.maximum.accumulate(due + delays)
    latencies: NDArray[np.float64] = taken + lindley(taken, np.full(due.size, service)) + service - due
    return latencies


class TimedServer:
    """One instance in this process, by the real clock: it takes ``service`` seconds, or no time at all."""

    def __init__(self, service: float = 0.0) -> None:
        self._service = service
        self._running: Reply | None = None

    instances = 1
    fixed_size: int | None = None

    def now(self) -> float:
        return time.monotonic()

    def start(self, instance: int, size: int) -> None:
        now = time.monotonic()
        self._running = Reply(instance, now, now + self._service)

    def wait(self, until: float) -> Sequence[Reply]:
        """Poll, as ``ProcessServer`` does where the generator has a core of its own."""
        reply = self._running
        event = until if reply is None else min(until, reply.ended)
        while time.monotonic() < event:
            pass
        if reply is None or reply.ended > time.monotonic():
            return ()
        self._running = None
        return (reply,)


def quantile(values: Sequence[float] | NDArray[np.float64], fraction: float) -> float:
    """By nearest rank."""
    return float(np.quantile(values, fraction, method="inverted_cdf"))


def speed(rate: float, seconds: float, seed: int) -> list[Claim]:
    """Print how fast and how punctual the generator is."""
    found = serve(TimedServer(), [0.0] * 200_000, FIFO)
    most = len(found.due) / (found.ended - found.begun)
    print(f"{most:,.0f} requests a second when all are due at once")
    rows, quantiles = [], []
    for number in range(ROUNDS):
        monitor = CpuUsageMonitor()
        lateness = serve(TimedServer(), poisson(rate, 1, seconds / ROUNDS, (seed, number)).tolist(), FIFO).lateness()
        stolen = monitor.stop().steal_percent
        quantiles.append(quantile(lateness, 0.99))
        rows.append(
            (
                f"{len(lateness):,}",
                f"{1e6 * quantile(lateness, 0.5):.1f} µs",
                f"{1e3 * quantiles[-1]:.3f} ms",
                f"{1e3 * max(lateness):.2f} ms",
                "not known" if stolen is None else f"{stolen:.1f} %",
            )
        )
    print(table(("requests", "lateness p50", "p99", "maximum", "time stolen by the hypervisor"), rows))
    p99 = median(quantiles)
    return [
        Claim(f"at least 20,000 requests a second ({most:,.0f})", most >= 20_000),
        Claim(f"p99 lateness at {rate:,.0f} requests a second below 1 ms (median {1e3 * p99:.3f} ms)", p99 < 1e-3),
    ]


def waits(seconds: float, seed: int) -> list[Claim]:
    """Print the waits of real runs beside those of the recursion."""
    rows, worst = [], 0.0
    for load in LOADS:
        found = serve(TimedServer(SERVICE), poisson(load / SERVICE, 1, seconds, (seed,)).tolist(), FIFO)
        services = [reply - start for reply, start in zip(found.replied, found.dispatched)]
        measured = fmean(start - due for start, due in zip(found.dispatched, found.due))
        expected = float(lindley(found.due, services).mean())
        worst = max(worst, abs(measured / expected - 1))
        waited = (f"{1e3 * each:.3f} ms" for each in (measured, expected))
        rows.append((f"{load:.0%}", f"{len(found.due)}", *waited, f"{measured / expected:.4f}"))
    print(table(("load", "requests", "mean wait", "recursion", "ratio"), rows))
    return [Claim(f"waits are within 2 % of Lindley's recursion (worst {percent(worst)})", worst <= 0.02)]


def theory(seed: int) -> list[Claim]:
    """Print the recursion beside M/D/1."""
    rows, worst = [], 0.0
    for load in LOADS:
        schedule = poisson(load, ARRIVALS, 0.0, (seed,))
        recursion, expected = float(lindley(schedule, [1.0] * ARRIVALS).mean()), m_d_1_wait(load, 1.0)
        worst = max(worst, abs(recursion / expected - 1))
        rows.append((f"{load:.0%}", f"{recursion:.4f}", f"{expected:.4f}", f"{recursion / expected:.4f}"))
    print(table(("load", "recursion, in service times", "M/D/1", "ratio"), rows))
    return [Claim(f"the recursion is within 5 % of M/D/1 (worst {percent(worst)})", worst <= 0.05)]


def late(seed: int) -> list[Claim]:
    """Print what the lateness that a valid run may have does to its percentiles."""
    rows, worst = [], 0.0
    for load in LOADS:
        schedule = poisson(load, ARRIVALS, 0.0, (seed,))
        punctual, found = (late_latencies(schedule, 1.0, p99, seed) for p99 in (0.0, LATE_SHARE))
        changes = [quantile(found, each) / quantile(punctual, each) - 1 for each in (0.9, 0.99)]
        worst = max(worst, *map(abs, changes))
        rows.append((f"{load:.0%}", *(f"{each:+.3%}" for each in changes)))
    print(table(("load", "change of p90", "change of p99"), rows))
    return [Claim(f"p90 and p99 change by less than 0.5 % (worst {worst:.3%})", worst < 0.005)]


def main() -> int:
    """Print the rows that were asked for; return 1 if a claim does not hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=some_of(ROWS), default=ROWS, help="default: all")
    parser.add_argument("--rate", type=float, default=20_000.0, help="requests a second (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="per row and load (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    claims = []
    with settled(generator_place(read_topology(), (), allowed_cpus())):
        claims += speed(args.rate, args.seconds, args.seed) if "speed" in args.rows else []
        claims += waits(args.seconds, args.seed) if "waits" in args.rows else []
    claims += theory(args.seed) if "theory" in args.rows else []
    claims += late(args.seed) if "late" in args.rows else []
    return conclude(claims)


if __name__ == "__main__":
    sys.exit(main())
