"""Which kernels compute wrong results on this CPU? Operators are called with many shapes and compared with fp64.

    .venv/bin/python benchmarks/wrong_kernels.py [--shapes 100] [--operators mm,conv1d] [--compiled] [--map]

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
import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable, Optional

import msgspec
from claims import some_of, table
from operator_calls import OPERATORS, QUANTIZED, Call, operands_of, wrong
from operator_shapes import COMPILED, chosen, mapped

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from modelzoo.evidence.onednn_log import parse_onednn
from modelzoo.machine.cpu import usable_threads
from modelzoo.machine.environment import FAST_MATH_VARIABLES, KERNEL_VARIABLES

LIMITS = (
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"),
    *("AVX512_CORE_FP16", "AVX10_1_512", "AVX512_CORE_AMX", "AVX10_1_512_AMX", "AVX512_CORE_AMX_FP16", "DEFAULT"),
)
"""Values of ONEDNN_MAX_CPU_ISA, the widest last (oneDNN's developer guide, "CPU Dispatcher Control")."""
WITHOUT = "without oneDNN"
START_SECONDS = 300
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


def serve(limit: str, threads: int) -> None:
    """In a child process: answer calls from stdin, one a line. oneDNN logs to stdout, which becomes a file."""
    import torch

    torch.set_num_threads(threads)
    with (
        tempfile.TemporaryFile("w+") as log,
        os.fdopen(os.dup(1), "w") as answers,
        torch.inference_mode(),
        torch.backends.mkldnn.flags(enabled=limit != WITHOUT),
    ):
        os.dup2(log.fileno(), 1)
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)
            outcome, said = answer(msgspec.json.decode(line, type=Call))
            ctypes.CDLL(None).fflush(None)
            log.seek(0)
            primitives = parse_onednn(log.read()).primitives if outcome == WRONG else ()
            kernels = dict.fromkeys(each.kernel for each in primitives if each.is_compute)
            print(msgspec.json.encode(Answer(outcome, said, tuple(kernels))).decode(), file=answers, flush=True)


def inspect() -> None:
    """In a child process: print the instruction sets of oneDNN with a limit for each, and torch's int8 engines."""
    import torch

    sets = {}
    for limit in LIMITS if torch.backends.mkldnn.is_available() else ():
        read, write = os.pipe()
        child = os.fork()  # oneDNN reads its variables once; forking is faster than importing torch again
        if not child:
            os.environ.update(ONEDNN_MAX_CPU_ISA=limit, ONEDNN_VERBOSE="1")
            os.dup2(write, 1)
            torch.set_num_threads(1)
            torch.ones(1).to_mkldnn().to_dense()
            ctypes.CDLL(None).fflush(None)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as output:
            isa = parse_onednn(output.read()).isa
        os.waitpid(child, 0)
        sets[isa or "not reported"] = limit
    print(json.dumps([sets, [each for each in torch.backends.quantized.supported_engines if each != "none"]]))


class Child:
    """A process that answers calls under one limit of oneDNN's instruction sets."""

    def __init__(self, limit: str, threads: int) -> None:
        left_out = (*FAST_MATH_VARIABLES, *KERNEL_VARIABLES)
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment["ONEDNN_VERBOSE"] = "1"
        if limit != WITHOUT:
            environment["ONEDNN_MAX_CPU_ISA"] = limit
        self.limit, self.is_alive = limit, True
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, sys.argv[0], "--serve", limit, "--threads", str(threads)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        if self._line(START_SECONDS) != b"ready\n":
            raise SystemExit(f"a child process did not start:\n{self.end()}")

    def ask(self, call: Call, seconds: float) -> Answer:
        """Return its answer; unless ``is_alive`` then, the process hung or crashed."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(call) + b"\n")
        self._process.stdin.flush()
        line = self._line(seconds)
        if line:
            return msgspec.json.decode(line, type=Answer)
        self.is_alive = False
        if line is None:
            self.end()
            return Answer(HANGS, f"has not returned after {seconds:g} s")
        return Answer(CRASHES, f"exit code {self._process.wait()} {self.end()}".strip())

    def _line(self, seconds: float) -> Optional[bytes]:
        """What it prints next; nothing if it has ended, ``None`` if that takes too long."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return None
        return bytes(self._process.stdout.readline())

    def end(self) -> str:
        """End it; return the last line that it wrote on stderr."""
        self._process.kill()
        self._process.communicate()
        self._said.seek(0)
        return (self._said.read().decode(errors="replace").strip().splitlines() or [""])[-1]


def work(jobs: Iterator[tuple[str, Call]], args: argparse.Namespace, put: Callable[[Any], None]) -> None:
    """Make calls, each under its limit, in one process after another; pass on what came of them, errors included."""
    child: Optional[Child] = None
    try:
        for limit, call in jobs:
            if child is None or not child.is_alive or child.limit != limit:
                if child is not None:
                    child.end()
                child = Child(limit, args.threads)
            seconds = args.seconds + (START_SECONDS if call.operator in COMPILED else 0)
            put((limit, call, child.ask(call, seconds)))
    except BaseException as problem:
        put(problem)
    finally:
        if child is not None:
            child.end()


def answered(jobs: Sequence[tuple[str, Call]], args: argparse.Namespace) -> Iterator[tuple[str, Call, Answer]]:
    """Make the calls in several processes at a time; yield what came of them."""
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    waiting = iter(jobs)  # of a list, so threads may share it
    for _ in range(max(1, usable_threads().count // args.threads)):
        threading.Thread(target=work, args=(waiting, args, done.put), daemon=True).start()
    for _ in jobs:
        found = done.get()
        if isinstance(found, BaseException):
            raise found
        yield found


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=100, help="random shapes of each operator (default: 100)")
    parser.add_argument("--operators", type=some_of(tuple(OPERATORS)), default=tuple(OPERATORS), help="default: all")
    parser.add_argument("--compiled", action="store_true", help="also compiled operators: minutes more")
    parser.add_argument(
        "--map", action="store_true", help="show where grouped convolutions are wrong, and nothing else"
    )
    parser.add_argument("--seconds", type=float, default=60, help="time limit of a call (default: 60)")
    parser.add_argument("--threads", type=int, default=1, help="of each process (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the random shapes")
    parser.add_argument("--serve", metavar="LIMIT", help=argparse.SUPPRESS)
    parser.add_argument("--inspect", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    args = arguments()
    if args.serve or args.inspect:
        serve(args.serve, args.threads) if args.serve else inspect()
        return 0
    begin = time.monotonic()
    command = [sys.executable, sys.argv[0], "--inspect"]
    sets, engines = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    names = {**{limit: isa for isa, limit in sets.items()}, WITHOUT: WITHOUT}
    operators = [each for each in args.operators if args.compiled or each not in COMPILED]
    calls = list(mapped() if args.map else chosen(operators, args.shapes, args.seed, engines))
    jobs = [(limit, call) for limit in names for call in calls if limit != WITHOUT or call.operator not in QUANTIZED]
    outcomes, found, refused = [], Counter[str](), Counter[str]()
    for limit, call, made in answered(jobs, args):
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
