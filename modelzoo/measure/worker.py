"""One fresh process whose methods its parent calls: it resolves settings, runs one, or judges one.

The parent starts ``python -m modelzoo.measure.worker`` with a scrubbed environment, writes what the process is for and
then its calls to its standard input, and reads messages from its standard output (``modelzoo.records.protocol``).
Whatever libraries print goes to standard error instead. A worker is started, never forked, so that no library state is
inherited. It ends when the parent closes the pipe.

A worker that does not answer is asked where it is: the module, the line, and the tensors of the call that does not
return. The parent asks by a signal, so nothing runs until then, and nothing is timed differently.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import linecache
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from traceback import walk_stack
from types import FrameType, SimpleNamespace
from typing import Any, get_type_hints

import msgspec

from modelzoo import __version__
from modelzoo.errors import ModelzooError, UsageError, WorkerError, in_own_code
from modelzoo.machine import environment, linux
from modelzoo.records.codec import encode_json
from modelzoo.records.protocol import (
    PROTOCOL,
    Answer,
    Failed,
    Hello,
    Job,
    Located,
    Message,
    PrepareJob,
    Send,
    decode_job,
)

ASK, DUMP = signal.SIGUSR1, signal.SIGUSR2
OPERANDS = 8
"""Arrays that are named at most."""
CALLERS = 3
"""Lines of a stack without variables that are named at most."""
_DUMPED = re.compile(r'\(most recent call first\):\n((?:  File ".*", line .* in .*\n)+)')
_LINE = re.compile(r'  File "(.*)", line (\S+) in (.*)\n')


def answer_when_asked(tell: Callable[[str], None]) -> None:
    """Have this process say where its main thread is whenever it is asked; call it before any library is imported.

    ``ASK`` wakes a thread that sleeps until then. It interrupts nothing, but the thread needs the GIL to look at frames
    and their variables; torch's operators release it. While something keeps it, ``DUMP`` has ``faulthandler`` write the
    stack of the main thread to stderr, from within the handler of the signal.

    Args:
        tell: passes on an answer, from the thread.
    """
    faulthandler.register(DUMP, file=2, all_threads=False)
    signal.pthread_sigmask(signal.SIG_BLOCK, {ASK})  # threads and child processes inherit this
    main = threading.get_ident()

    def answer() -> None:
        while True:
            signal.sigwait({ASK})
            with suppress(Exception):  # attributes of a stranger's class may raise anything; DUMP is left
                tell(whereabouts(main))

    threading.Thread(target=answer, name="whereabouts", daemon=True).start()


def whereabouts(main: int) -> str:
    """Return where this process is: the innermost ``nn.Module`` whose code runs, the line, and the arrays there.

    Args:
        main: the identifier of the thread to look at. If it is in no module and another thread is, as with batches in
            flight, that one is described.
    """
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    stacks = [[each for each, _ in walk_stack(top)] for top in (frames.pop(main), *frames.values())]
    stack = next((each for each in stacks if _modules(each)), stacks[0])
    top, modules = stack[0], _modules(stack)
    layer = ""
    if modules:
        name = next((name for name, module in modules[-1].named_modules() if module is modules[0]), "")
        layer = f"{type(modules[0]).__name__} {name!r}, " if name else f"{type(modules[0]).__name__}, "
    file, line = top.f_code.co_filename, top.f_lineno
    parts = (f"{layer}{file}:{line} in {top.f_code.co_name}", linecache.getline(file, line).strip(), _arrays(stack))
    return ": ".join(filter(None, parts))


def dumped(output: str) -> str:
    """Return the innermost lines of the last stack that ``faulthandler`` has written to ``output``; empty: none."""
    stacks = _DUMPED.findall(output)
    lines = [each for each in _LINE.findall(stacks[-1] if stacks else "") if not each[2].endswith("_call_impl")]
    return ", called from ".join(f"{file}:{line} in {name}" for file, line, name in lines[:CALLERS])


def _modules(stack: Sequence[FrameType]) -> list[Any]:
    """The modules whose methods run, innermost first."""
    kind = _imported("torch.nn", "Module")
    return [each for each in (frame.f_locals.get("self") for frame in stack) if isinstance(each, kind)]


def _imported(module: str, name: str) -> tuple[type, ...]:
    """A class, or none if its module has not been imported, for ``isinstance``."""
    found = getattr(sys.modules.get(module), name, None)
    return () if found is None else (found,)


def _arrays(stack: Sequence[FrameType]) -> str:
    """Name, shape and type of the arrays of the innermost frame that has any, and of its module's parameters."""
    kinds = _imported("torch", "Tensor") + _imported("numpy", "ndarray")
    for frame in stack:
        arrays = {name: value for name, value in frame.f_locals.items() if isinstance(value, kinds)}
        if arrays:
            known = set(map(id, arrays.values()))
            owned = (pair for module in _modules([frame]) for pair in module.named_parameters(recurse=False))
            arrays.update({name: value for name, value in owned if id(value) not in known})
            return ", ".join(_described(*each) for each in list(arrays.items())[:OPERANDS])
    return ""


def _described(name: str, array: Any) -> str:
    shape = "×".join(map(str, array.shape)) or "scalar"
    return f"{name} {shape} {str(array.dtype).removeprefix('torch.')}"


OUT_OF_MEMORY = "out of memory; use a smaller --batch"


def main() -> int:
    """Do what the parent says, and send messages; the entry point of the process."""
    linux.begin()
    # ``-m`` puts the current directory first: what lies there by chance would replace what is installed.
    with suppress(OSError):  # it may have been deleted
        if sys.path[:1] == [str(Path.cwd())]:
            del sys.path[0]
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    writing = threading.Lock()

    def send(message: Message) -> None:
        line = memoryview(encode_json(message) + b"\n")
        with writing:
            while line:  # a signal may interrupt a long line
                line = line[pipe.write(line) or 0 :]

    answer_when_asked(lambda where: send(Located(where)))
    send(Hello(PROTOCOL, __version__))
    try:
        obey(iter(sys.stdin.buffer.readline, b""), send)
        return 0
    except ModelzooError as error:
        problem = error
    except MemoryError:
        problem = WorkerError(OUT_OF_MEMORY)
    except Exception as error:
        # torch reports a failed allocation as a RuntimeError.
        is_memory = "can't allocate memory" in str(error) or "out of memory" in str(error)
        problem = WorkerError(OUT_OF_MEMORY) if is_memory else in_own_code(error)
    send(Failed(str(problem), type(problem).__name__))
    return 2


def obey(lines: Iterator[bytes], send: Send) -> None:
    """Read what the process is for, and call one method after the other.

    Raises:
        UsageError: a line is not understood.
    """
    try:
        job = decode_job(next(lines, b""))
    except msgspec.DecodeError as error:
        raise UsageError(f"the worker was given a job that it does not understand: {error}") from error
    if job.parent is not None:
        _die_with(job.parent)
    subject = subject_of(job, send)
    with subject.active:  # sessions say what errors of their devices mean
        for line in lines:
            try:
                name, *given = msgspec.json.decode(line, type=list[msgspec.Raw])
                method = getattr(subject, msgspec.json.decode(name, type=str).lstrip("_"))
                pairs = zip(given, _kinds(method), strict=True)
                arguments = [msgspec.json.decode(value, type=kind) for value, kind in pairs]
            except (msgspec.DecodeError, AttributeError, TypeError, ValueError) as error:
                raise UsageError(f"the worker was given a call that it does not understand: {error}") from error
            send(Answer(msgspec.Raw(encode_json(method(*arguments)))))


@functools.cache
def _kinds(method: Callable[..., Any]) -> list[Any]:
    """The types of the arguments of ``method``."""
    return [kind for name, kind in get_type_hints(method).items() if name != "return"]


def subject_of(job: Job, send: Send) -> Any:
    """Return the object whose methods are called, while it is ``active``; its modules are imported only now."""
    if isinstance(job, PrepareJob):
        from modelzoo.measure.preparation import prepare

        return SimpleNamespace(active=nullcontext(), prepare=lambda: prepare(job, send))
    environment.enter(job.setting)
    if job.validity is None:
        from modelzoo.measure.instance import Instance

        return Instance(job, send)
    from modelzoo.measure.judgement import Judging

    return Judging(job, send)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens (Linux)."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it ended before that call
            os._exit(1)


def leave(code: int) -> None:
    """End this process without taking the interpreter and its libraries apart, which takes a second after torch.

    All messages have been sent, and files are closed when they are written. What was registered to run at exit runs,
    such as the removal of temporary directories.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
