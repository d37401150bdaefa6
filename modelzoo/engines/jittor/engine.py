"""Jittor as an engine: ResNet50 on the CPU, in fp32, with the kernels of oneDNN 2.x.

A process that judges has imported torch, and must not import Jittor: ``RemoteModel`` starts this module in Jittor's
environment, ``python -m modelzoo.engines.jittor.engine EXPORT PIPE``, with the directory of an exported model and the
number of a file descriptor. A message is the shape of an array in fp32 and its bytes: the two environments have
different releases of numpy, which need not read each other's pickles.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from modelzoo.engines import jittor as environment
from modelzoo.engines.export.engine import ExportedEngine, ExportedModel, ExportedSession
from modelzoo.engines.export.store import read_batch
from modelzoo.engines.jittor import model
from modelzoo.engines.protocol import Model, Observed, Unavailable
from modelzoo.errors import ModelzooError, UsageError, WorkerError
from modelzoo.machine import installation
from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Libraries
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload
from modelzoo.workload.discovery import import_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.engines.export.source import TorchSource

_FLAGS = {"use_cuda": 0, "no_grad": 1}


class JittorEngine(ExportedEngine):
    """Jittor 1.3, in the environment that ``scripts/setup-jittor`` makes.

    In a process that has not imported Jittor, its models run in processes of their own.
    """

    name, title = "jittor", "Jittor"

    def options(self, setting: ResolvedSetting) -> Mapping[str, str]:
        return {f"jittor.flags.{name}": str(value) for name, value in _FLAGS.items() if environment.is_inside()}

    def context(self) -> AbstractContextManager[object]:
        if not environment.is_inside():
            return nullcontext()
        import jittor

        scope: AbstractContextManager[object] = jittor.flag_scope(**_FLAGS)
        return scope

    def model(self, session: ExportedSession, workload: Workload, inputs: Inputs, export: Export) -> Model:
        if not environment.is_inside():
            return RemoteModel(workload.name, session.setting, Path(export.path))
        loaded = model.load(Path(export.path))
        return model.JittorModel(workload.name, session.setting, loaded, inputs, read_batch(export).flops)

    def canary(self, session: ExportedSession) -> Observed[Canary]:
        return model.run_canary() if environment.is_inside() else ELSEWHERE

    def load(self) -> None:
        environment.interpreter()
        if environment.is_inside():
            environment.import_jittor()

    def versions(self) -> Mapping[str, str]:
        found = {**super().versions(), "jittor": environment.version() or "unknown"}
        if environment.is_inside():
            found["onednn"] = environment.onednn_version()
        return found

    def libraries(self) -> Libraries | None:
        if not environment.is_inside():
            return None
        versions = self.versions()
        line = f"jittor {versions['jittor']}: oneDNN {versions['onednn']}"
        return installation.read_engine_libraries(line, "onednn", self._threads)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.precision != "fp32":
            raise UsageError(f"--precision {setting.precision}: Jittor computes in fp32; use fp32 or another --engine")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        return model.export(source)

    def interpreter(self) -> str:
        return environment.interpreter()

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        return environment.variables(setting.threads)


SERVER = "modelzoo.engines.jittor.engine"
ELSEWHERE = Unavailable("predictions are judged beside Jittor's own process; 'run' proves its precision")


def send(pipe: Connection, array: NDArray[Any]) -> None:
    """Send an array in fp32."""
    pipe.send((array.shape, array.tobytes()))


def receive(pipe: Connection) -> NDArray[Any]:
    """Receive an array in fp32.

    Raises:
        EOFError: the other side has closed the pipe.
    """
    import numpy as np

    shape, content = pipe.recv()
    array: NDArray[Any] = np.frombuffer(bytearray(content), np.float32).reshape(shape)  # bytes cannot be written to
    return array


class RemoteModel(ExportedModel):
    """The exported model in the directory ``path``, which only predicts. Its process ends with this one, or before."""

    def __init__(self, workload: str, setting: ResolvedSetting, path: Path) -> None:
        super().__init__(workload, setting)
        variables = {**os.environ, **environment.variables(setting.threads)}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(import_root()), os.environ.get("PYTHONPATH")]))
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the process has ended
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [environment.interpreter(), "-m", SERVER, str(path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=variables,
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        self._log.close()

    def call(self, *args: Any) -> NDArray[Any]:
        (pictures,) = args
        try:
            send(self._pipe, pictures)
            return receive(self._pipe)
        except (OSError, EOFError) as error:
            code = self._process.wait()
            self._log.seek(0)
            lines = [line.strip() for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
            problem = f"Jittor's process ended with code {code}: {lines[-1] if lines else 'no output'}"
            raise WorkerError(problem) from error

    def listed(self, args: tuple[Any, ...], passes: int) -> Unavailable:
        return ELSEWHERE

    def outputs(self, args: tuple[Any, ...]) -> Unavailable:
        return ELSEWHERE

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        import numpy as np

        return tuple(np.asarray(arg, dtype=np.float32) for arg in args)

    def predict(self, *args: Any) -> Any:
        import torch

        return torch.from_numpy(self.call(*self.prepare(args)))


def main() -> int:
    """Predict until the pipe is closed; the entry point of the process."""
    path, pipe = Path(sys.argv[1]), Connection(int(sys.argv[2]))
    try:
        jittor = environment.import_jittor()
        network = model.load(path)
    except ModelzooError as error:
        print(error, file=sys.stderr)
        return 2
    with jittor.flag_scope(use_cuda=0, no_grad=1), suppress(EOFError):
        while True:
            send(pipe, network(jittor.array(receive(pipe))).numpy())
    return 0


if __name__ == "__main__":
    sys.exit(main())
