"""What the parent is asked to run, and what it tells while it runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Callable, Optional

from modelzoo.measure.container import ContainerLauncher
from modelzoo.measure.launcher import Launcher, LocalLauncher
from modelzoo.plan import Plan
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import Exhibited, Message, Progress
from modelzoo.setting import Setting
from modelzoo.workload import Workload


@dataclass(frozen=True)
class Event:
    """Progress of one worker: which workload, setting (by its label) and round, and its message."""

    workload: str
    label: str
    round: int
    message: Progress


OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Request:
    """One workload with the settings to compare; the first is the baseline.

    ``first_group`` is the number of the first setting's group in the result; ``launcher``, if
    given, starts the workers of all settings, whatever interpreter, image or engine they name; ``locked_mhz`` is the
    frequency that the GPUs' clocks are locked at.
    """

    workload: Workload
    settings: tuple[Setting, ...]
    plan: Plan
    profiling: bool = False
    trace: Optional[str] = None
    audit: bool = True
    first_group: int = 0
    launcher: Optional[Launcher] = None
    locked_mhz: Optional[int] = None

    @property
    def uses_containers(self) -> bool:
        """Whether any of the settings runs in a container."""
        return not all(self.launcher_of(setting).is_local for setting in self.settings)

    def launcher_of(
        self, setting: Setting, interpreter: Optional[str] = None, cpus: Optional[frozenset[int]] = None
    ) -> Launcher:
        """Return what starts the workers of ``setting``.

        Args:
            interpreter: the one that the measuring workers of its engine need (``Preparation.interpreter``), on this
                machine or in the image.
            cpus: the logical CPUs that they are restricted to, by default those of this process.
        """
        if self.launcher is not None:
            return self.launcher
        if setting.image is not None:
            return ContainerLauncher(setting.image, interpreter or "python3", cpus)
        return LocalLauncher(interpreter or setting.python or sys.executable, cpus)


def listener(
    workload: str,
    label: str,
    round_number: int,
    on_event: OnEvent,
    on_exhibit: Optional[Callable[[Exhibit], None]] = None,
) -> Callable[[Message], None]:
    """Return what passes on a worker's messages as events and exhibits."""

    def listen(message: Message) -> None:
        if isinstance(message, Progress):
            on_event(Event(workload, label, round_number, message))
        elif isinstance(message, Exhibited) and on_exhibit is not None:
            on_exhibit(message.exhibit)

    return listen
