"""The parser of a command: its errors are one line, and it gets its arguments when it is first used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Callable, NoReturn, Optional


class Parser(argparse.ArgumentParser):
    """Reports errors in one line with exit code 2, and does not accept abbreviated options.

    Args:
        add_arguments: adds the arguments when the parser first needs them, so that a command starts without the modules
            of the others.
    """

    def __init__(self, *, add_arguments: Optional[Callable[[argparse.ArgumentParser], None]] = None, **kwargs: Any):
        super().__init__(allow_abbrev=False, **kwargs)
        self._add_arguments = add_arguments

    def complete(self) -> None:
        """Add the arguments, unless they have been added."""
        add, self._add_arguments = self._add_arguments, None
        if add is not None:
            add(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.complete()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def explicit_bf16(arguments: Sequence[str]) -> list[str]:
    """Write a bare ``--bf16`` as ``--bf16=auto``, so that it does not take the next word as its value."""
    return ["--bf16=auto" if word == "--bf16" else word for word in arguments]
