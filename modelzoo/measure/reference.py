"""The process of the reference load as seen by the parent."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Optional

from modelzoo.errors import ModelzooError
from modelzoo.machine.environment import OPENMP_AND_BLAS_THREADS
from modelzoo.measure.jobs import job_environment
from modelzoo.measure.launcher import Launcher, LocalLauncher
from modelzoo.measure.process import WorkerProcess
from modelzoo.records.protocol import Judged, ReferenceJob, ReferenceTaken
from modelzoo.records.reference import ReferenceTurn


class Reference:
    """The reference load, in a process of its own that is suspended between its turns.

    It always runs on this machine and in the interpreter of the suite, whatever runs the workers. If its process dies,
    the measurement goes on without it.

    Args:
        threads: number of threads, the same as the workers'.

    Attributes:
        threads: as given.
        problem: why it takes no more turns; ``None`` while it does.
    """

    def __init__(self, threads: int, launcher: Optional[Launcher] = None) -> None:
        self.threads = threads
        self.problem: Optional[str] = None
        variables = job_environment(dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(threads))).variables
        job = ReferenceJob(os.getpid())
        self._process = WorkerProcess(launcher or LocalLauncher(), job, variables, lambda message: None)

    def __enter__(self) -> Reference:
        self._process.__enter__()
        self._advance()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.__exit__(kind, error, trace)

    def turn(self) -> Optional[ReferenceTurn]:
        """Take one turn; ``None`` if the process has died."""
        if self.problem is not None:
            return None
        self._process.resume()
        if not self._advance():
            return None
        return self._process.result(ReferenceTaken).turn

    def _advance(self) -> bool:
        if self._process.advance():
            return True
        try:
            self._process.result(Judged)  # there is none, so this tells how it ended
        except ModelzooError as problem:
            self.problem = str(problem)
        return False
