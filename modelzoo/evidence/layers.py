"""Follow which modules of a model are running."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


@contextlib.contextmanager
def layers_followed(module: Any) -> Iterator[tuple[Sequence[str], Mapping[str, int]]]:
    """Yield the paths of the modules whose forward is running, the innermost last, and how often each has run.

    Hooks of all modules are used, because torch calls other operators for some modules that have hooks of their own.
    """
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    running: list[str] = []
    ran: Counter[str] = Counter()
    if module is None:
        yield running, ran
        return
    paths = {id(each): path for path, each in module.named_modules()}

    def enter(each: Any, args: Any) -> None:
        path = paths.get(id(each))
        ran.update([path] if path is not None else [])
        # A module that is not a part of the model, as one that forward makes, counts as what calls it.
        running.append(path if path is not None else running[-1] if running else "")

    def leave(each: Any, args: Any, output: Any) -> None:
        running.pop()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        yield running, ran
    finally:
        for handle in handles:
            handle.remove()
