"""Which kernels compute wrong results on this CPU? Operators are called with many shapes and compared with fp64.

    .venv/bin/python benchmarks/wrong_kernels.py [--shapes 100] [--operators mm,conv1d] [--map]

Run it first on a new CPU or a new version of torch. It repeats the calls of faults that were reported publicly, and
calls SHAPES random shapes of each operator, in fp32, bf16 and fp16; each under every instruction set that oneDNN
reports here if it is limited (ONEDNN_MAX_CPU_ISA), and without oneDNN. Layers in int8 run with each of torch's engines.
Calls run in child processes: one that hangs is ended after SECONDS, one that crashes is replaced. What is wrong is
printed: outputs that are off by more than rounding explains (benchmarks/operator_calls.py derives the bound), outputs
that are not finite where fp64's are, such as a NaN in the row next to one, or the reverse; calls that hang or crash.
The exit code is 1 if anything is. Nothing is timed, so the machine need not be quiet.

--map calls instead, in bf16 and fp16, grouped convolutions of 128 channels over a grid of channels per group, kernel
sizes and strides, and prints a table of each grid in which something is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import cast

import msgspec
from common import parser_of, some_of, table
from operator_calls import OPERATORS, QUANTIZED, Call, chosen, mapped, operands_of, wrong

from modelzoo.evidence.logs import parse_onednn
from modelzoo.machine.environment import FAST_MATH_VARIABLES, KERNEL_VARIABLES
from modelzoo.machine.facts import usable_threads

LIMITS = (
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"),
    *("AVX512_CORE_FP16", "AVX10_1_512", "AVX512_CORE_AMX", "AVX10_1_512_AMX", "AVX512_CORE_AMX_FP16", "DEFAULT"),
)
"""Values of ONEDNN_MAX_CPU_ISA, the widest last (oneDNN's developer guide, "CPU Dispatcher Control")."""
WITHOUT = "without oneDNN"
PRINTED = 5
"""So many findings of an operator in one precision and instruction set are printed one by one."""
RIGHT, WRONG, REFUSED, HANGS, CRASHES = "right", "WRONG", "refused", "HANGS", "CRASHES"
MARKS = {RIGHT: ".", WRONG: "X", REFUSED: "-", HANGS: "H", CRASHES: "C"}


class Answer(msgspec.Struct, frozen=True):
    """What came of a call, and the products in oneDNN's log of it."""

    outcome: str
    said: str = ""
    kernels: tuple[str, ...] = ()


def answer(call: Call) -> tuple[str, str]:
    """Call the operator here; return the outcome, and what is to be said of it."""
    try:
        found, exact, allowed = OPERATORS[call.operator](call, operands_of(call))
    except (RuntimeError, NotImplementedError) as problem:
        return REFUSED, (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    said = wrong(found, exact, allowed)
    return (WRONG if said else RIGHT), said


@contextmanager
def logged(limit: str) -> Iterator[Callable[[], str]]:
    """In a child process, before its libraries read variables in their first calls: limit oneDNN, and let it log.

    It logs to stdout, which becomes a file. Yields a function that returns what was logged since its last call.
    """
    import torch

    for name in (*FAST_MATH_VARIABLES, *KERNEL_VARIABLES):
        os.environ.pop(name, None)
    os.environ["ONEDNN_VERBOSE"] = "1"
    if limit != WITHOUT:
        os.environ["ONEDNN_MAX_CPU_ISA"] = limit
    torch.set_num_threads(1)
    with tempfile.TemporaryFile("w+") as log:
        os.dup2(log.fileno(), 1)

        def read() -> str:
            ctypes.CDLL(None).fflush(None)
            log.seek(0)
            found = log.read()
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)
            return found

        yield read


def serve(limit: str, calls: Connection) -> None:
    """In a child process: answer calls."""
    import torch

    with logged(limit) as read, torch.inference_mode():
        torch.backends.mkldnn.set_flags(limit != WITHOUT)
        calls.send(None)
        while True:
            try:
                call = calls.recv()
            except EOFError:
                return
            outcome, said = answer(call)
            log = read()
            primitives = parse_onednn(log).primitives if outcome == WRONG else ()
            calls.send(Answer(outcome, said, tuple({each.kernel: 0 for each in primitives if each.is_compute})))


def inspect(limit: str, results: Connection) -> None:
    """In a child process: send the instruction set that oneDNN reports under a limit, and torch's engines for int8."""
    import torch

    with logged(limit) as read:
        if torch.backends.mkldnn.is_available():
            torch.ones(1).to_mkldnn().to_dense()
        engines = [each for each in torch.backends.quantized.supported_engines if each != "none"]
        results.send((parse_onednn(read()).isa, engines))


class Child:
    """A process that begins with a fork of one that has imported torch, and a connection to it."""

    def __init__(self, target: Callable[[str, Connection], None], limit: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch"])
        self.limit, self.ends = limit, math.inf
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=target, args=(limit, theirs), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self.first = self.connection.recv()
        except EOFError:
            print(f"a process limited to {limit} ended before its first call", file=sys.stderr)
            sys.exit(2)

    def begin(self, call: Call, seconds: float) -> None:
        """Let it make a call, of so many seconds at most."""
        self.call, self.seconds, self.ends = call, seconds, time.monotonic() + seconds
        self.connection.send(call)

    def answer(self) -> Answer | None:
        """What came of the call; ``None`` as long as that is open. The process goes on unless it hung or crashed."""
        try:
            if self.connection.poll():
                return cast(Answer, self.connection.recv())
        except EOFError:
            self._process.join()
            return Answer(CRASHES, f"exit code {self._process.exitcode}")
        if time.monotonic() < self.ends:
            return None
        return Answer(HANGS, f"has not returned after {self.seconds:g} s")

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def answered(jobs: Sequence[tuple[str, Call]], seconds: float) -> Iterator[tuple[str, Call, Answer]]:
    """Make the calls in several processes at a time; yield what came of them."""
    waiting, idle, busy = list(reversed(jobs)), list[Child](), list[Child]()
    while waiting or busy:
        while waiting and len(busy) < usable_threads().count:
            limit, call = waiting.pop()
            child = idle.pop() if idle else None
            if child is None or child.limit != limit:
                if child is not None:
                    child.end()
                child = Child(serve, limit)
            child.begin(call, seconds)
            busy.append(child)
        wait([each.connection for each in busy], max(0, min(each.ends for each in busy) - time.monotonic()))
        for child in list(busy):
            found = child.answer()
            if found is not None:
                busy.remove(child)
                yield child.limit, child.call, found
                if found.outcome in (HANGS, CRASHES):
                    child.end()
                else:
                    idle.append(child)
    for child in idle:
        child.end()


def show_map(outcomes: Sequence[tuple[str, Call, str]]) -> None:
    """A table of each grid in which not all is right: channels per group by kernel sizes."""
    grids: dict[str, dict[tuple[int, int], str]] = {}
    for name, call, outcome in outcomes:
        weight = call.shapes[1] or ()
        title = f"{name}: {call.operator} in {call.precision}, stride {call.arguments['stride']}"
        grids.setdefault(title, {})[weight[1], weight[2]] = MARKS[outcome]
    for title, grid in grids.items():
        if set(grid.values()) != {MARKS[RIGHT]}:
            rows, columns = (sorted({place[axis] for place in grid}) for axis in (0, 1))
            cells = [[str(row), *(grid.get((row, column), " ") for column in columns)] for row in rows]
            print(f"\n{title}; channels per group by kernel size\n{table(['', *map(str, columns)], cells)}")
    print(f"\n{', '.join(f'{mark} {each}' for each, mark in MARKS.items())}; grids without a table are right")


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--shapes", type=int, default=100, help="random shapes of each operator (default: 100)")
    parser.add_argument("--operators", type=some_of(tuple(OPERATORS)), default=tuple(OPERATORS), help="default: all")
    parser.add_argument(
        "--map", action="store_true", help="show where grouped convolutions are wrong, and nothing else"
    )
    parser.add_argument("--seconds", type=float, default=20, help="time limit of a call (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the random shapes")
    return parser.parse_args()


def main() -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    args = arguments()
    begin = time.monotonic()
    names: dict[str, str] = {}
    engines: list[str] = []
    for limit in LIMITS:
        child = Child(inspect, limit)
        isa, engines = child.first
        child.end()
        names = {other: name for other, name in names.items() if name != isa}  # the widest limit of equal ones
        names.update({limit: isa} if isa else {})
    names[WITHOUT] = WITHOUT
    calls = list(mapped() if args.map else chosen(args.operators, args.shapes, args.seed, engines))
    jobs = [(limit, call) for limit in names for call in calls if limit != WITHOUT or call.operator not in QUANTIZED]
    outcomes, found, refused = [], Counter[str](), Counter[str]()
    for limit, call, made in answered(jobs, args.seconds):
        outcomes.append((names[limit], call, made.outcome))
        title = f"{call.operator} in {call.precision}"
        if made.outcome == REFUSED:
            refused[f"{title}: {made.said}"] += 1
        elif made.outcome != RIGHT:
            title = f"{made.outcome}, {names[limit]}: {title}"
            found[title] += 1
            if found[title] <= PRINTED and not args.map:
                kernels = f" ({', '.join(made.kernels)})" if made.kernels else ""
                print(f"{made.outcome}, {names[limit]}: {call}{kernels}: {made.said}", flush=True)
    if args.map:
        show_map(outcomes)
    for counted in (refused, found):
        for title, count in counted.items():
            print(f"{count} times {'' if counted is found else 'refused: '}{title}")
    calls_made = f"{len(jobs)} calls ({', '.join(names.values())}) in {time.monotonic() - begin:.0f} s"
    print(f"{calls_made}: {sum(found.values()) or 'none'} wrong, {sum(refused.values())} refused")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
