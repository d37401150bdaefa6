"""Every error that a user can cause, in one tree.

    ModelzooError            one line on stderr, exit code 2
    ├── UsageError           an unknown workload, an option value that makes no sense
    ├── EnvironmentProblem   this machine or installation cannot do it (no torch, no such device …)
    ├── InputError           a picture or text that is missing or cannot be read
    ├── WeightsError         weights that are missing, damaged or made for another model
    │   └── DamagedWeightsError  a checkpoint whose checksum is not the published one
    └── WorkerError          the measuring process died or ran out of memory

The message of each is one sentence that says what was wrong and what to do about it.
"""

from __future__ import annotations


class ModelzooError(Exception):
    """An error with a message for the user; the command line prints it and exits with 2."""


class UsageError(ModelzooError):
    """The call itself makes no sense."""


class EnvironmentProblem(ModelzooError):  # noqa: N818 - EnvironmentError is a builtin
    """The machine or the installation lacks what was asked for."""


class InputError(ModelzooError):
    """The user's input is missing or unreadable."""


class WeightsError(ModelzooError):
    """Weights are missing, damaged, or do not fit the model."""


class DamagedWeightsError(WeightsError):
    """A checkpoint on this machine is truncated or altered."""


class WorkerError(ModelzooError):
    """The worker process ended without a result."""


KINDS: dict[str, type[ModelzooError]] = {
    kind.__name__: kind
    for kind in (
        ModelzooError,
        UsageError,
        EnvironmentProblem,
        InputError,
        WeightsError,
        DamagedWeightsError,
        WorkerError,
    )
}
"""Name to class, for errors that cross the border between worker and parent."""
