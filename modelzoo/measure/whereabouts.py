"""Where a worker is that does not answer: the module, the line, and the tensors of the call that does not return.

The parent asks by a signal, so nothing runs in the worker until then, and nothing in it is timed differently.
"""

from __future__ import annotations

import faulthandler
import linecache
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from traceback import walk_stack
from types import FrameType
from typing import Any

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
