"""Predictions of Jittor in a process of its own: a process that judges has imported torch, and must not import Jittor.

``RemoteModel`` starts ``modelzoo.engines.jittor.server`` in Jittor's environment, and sends it batches: on the pipe, an
array is its length in bytes and then numpy's ``.npy`` format.
"""

from __future__ import annotations

import atexit
import io
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from modelzoo.engines.jittor import environment
from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import WorkerError
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence
from modelzoo.setting import ResolvedSetting
from modelzoo.warning import WarningMessage
from modelzoo.workload.discovery import import_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.records.workload import Count


_LENGTH = struct.Struct("<Q")


def write_array(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Write ``array`` and flush."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    stream.write(_LENGTH.pack(content.tell()))
    stream.write(content.getbuffer())
    stream.flush()


def read_array(stream: IO[bytes]) -> NDArray[Any] | None:
    """Read an array; ``None`` if the other side has closed the pipe.

    Raises:
        EOFError: it was closed within an array.
    """
    import numpy as np

    header = stream.read(_LENGTH.size)
    if not header:
        return None
    if len(header) == _LENGTH.size:
        (length,) = _LENGTH.unpack(header)
        content = stream.read(length)
        if len(content) == length:
            found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
            return found
    raise EOFError("the pipe was closed within an array")


SERVER = "modelzoo.engines.jittor.server"
ELSEWHERE = Unavailable("predictions are judged beside Jittor's own process; 'run' proves its precision")


class RemoteModel:
    """The exported model in the directory ``path``, which only predicts. Its process ends with this one, or before."""

    compilation = None
    module = None

    def __init__(self, path: Path, setting: ResolvedSetting) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the process has ended
        self._process = subprocess.Popen(
            [environment.interpreter(), "-m", SERVER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(setting),
        )
        atexit.register(self.close)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def call(self, *args: Any) -> NDArray[Any]:
        (pictures,) = args
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            write_array(self._process.stdin, pictures)
            found = read_array(self._process.stdout)
        except (OSError, EOFError) as error:
            raise self._ended() from error
        if found is None:
            raise self._ended()
        return found

    def _ended(self) -> WorkerError:
        """Say why the process ended."""
        code = self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return WorkerError(f"Jittor's process ended with code {code}: {lines[-1] if lines else 'no output'}")

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        import numpy as np

        return tuple(np.ascontiguousarray(np.asarray(arg), dtype=np.float32) for arg in args)

    def predict(self, *args: Any) -> Any:
        import torch

        return torch.from_numpy(self.call(*self.prepare(args)))

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        yield

    def outputs(self, args: tuple[Any, ...]) -> Unavailable:
        return ELSEWHERE

    def stored_bytes(self) -> None:
        return None

    def warnings(self) -> tuple[WarningMessage, ...]:
        return ()

    def counts(self, args: tuple[Any, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        return ()

    def kernels(self, args: tuple[Any, ...]) -> Unavailable:
        return ELSEWHERE

    def audit(self, args: tuple[Any, ...], *, passes: int, canary: Canary | None, replay: bool = False) -> Unavailable:
        return ELSEWHERE

    def flops(self, args: tuple[Any, ...]) -> Unavailable:
        return ELSEWHERE

    def profile(self, args: tuple[Any, ...], *, evidence: Evidence | None) -> Unavailable:
        return ELSEWHERE


def _environment(setting: ResolvedSetting) -> dict[str, str]:
    found = {**os.environ, **environment.variables(setting.threads)}
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(import_root()), os.environ.get("PYTHONPATH")]))
    return found
