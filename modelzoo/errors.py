"""Errors that the user can fix. The command line prints each as one line, and exits with code 2.

    ModelzooError
    ├── UsageError               the command line: an unknown workload, an invalid value
    ├── EnvironmentProblem       the machine or the installation: torch is missing, no such device …
    ├── InputError               the user's files: missing or unreadable
    ├── WeightsError             weights: missing, unreadable, or of another model
    │   └── DamagedWeightsError  a checkpoint whose checksum is not the published one
    ├── WorkerError              a worker process died or ran out of memory
    └── NoAnswerError            a worker process did not answer, and was ended

Each message is one sentence that says what is wrong and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of an error about ``word``: the one of ``known`` that is likely meant; empty if none is close.

    >>> suggestion("compil", ["eager", "compile"])
    "; did you mean 'compile'?"
    """
    import difflib  # only an error needs it

    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close and word else ""


def own_place(error: BaseException) -> str:
    """Return the file and the line of the user's code that raised ``error``; empty if it came from none of it.

    >>> own_place(KeyError("x"))
    ''
    """
    import sysconfig
    import traceback

    others = (str(Path(__file__).parent), *sysconfig.get_paths().values(), "<")
    places = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(others)]
    return f"{places[-1].filename}, line {places[-1].lineno}" if places else ""


def in_own_code(error: Exception) -> UsageError:
    """Return the error for what the user's code raised.

    Raises:
        Exception: ``error`` itself, if it came from elsewhere.
    """
    place = own_place(error)
    if not place:
        raise error
    reason = (str(error).strip().splitlines() or [""])[0]
    return UsageError(f"{place}: {type(error).__name__}{reason and ': '}{reason}; correct it there")


class ModelzooError(Exception):
    """Base class of all errors that are reported to the user."""


class UsageError(ModelzooError):
    """The command line or a setting is invalid."""


class EnvironmentProblem(ModelzooError):  # noqa: N818 - EnvironmentError is a builtin
    """The machine or the installation does not support what was requested."""


class InputError(ModelzooError):
    """An input file is missing or unreadable."""


class WeightsError(ModelzooError):
    """Weights are missing, unreadable, or do not fit the model."""


class DamagedWeightsError(WeightsError):
    """A checkpoint on this machine is truncated or has been altered."""


class WorkerError(ModelzooError):
    """A worker process ended without a result."""


class NoAnswerError(ModelzooError):
    """A call in a worker process did not return within ``--timeout``, or before the user interrupted it."""


KINDS: dict[str, type[ModelzooError]] = {
    name: kind for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, ModelzooError)
}
"""Class by name, for errors that a worker reports to its parent."""
