"""Compiled modes: what they need, and what they do not support."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.utils._python_dispatch import TorchDispatchMode

from modelzoo.engines.torch import compilation, execution
from modelzoo.engines.torch.compilation import GraphedModel
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.frozen import replace
from modelzoo.records.run_report import Compilation
from modelzoo.setting import Setting
from modelzoo.workload.declaration import Inputs, Workload

ARGS = (torch.ones(2, 3),)
INPUTS = Inputs(ARGS, ("a", "b"))
TOY = Workload("toy", "a toy", "rows", lambda options: torch.nn.Linear(3, 2), lambda request: INPUTS)
SCRIPTED = replace(TOY, script="script")
GRAPH = Setting(mode="graph", device="cuda")


def compile_toy(setting: Setting) -> Any:
    """Compile the toy as ``setting`` says."""
    model = SCRIPTED.build({}).eval()
    return compilation.compiled(SCRIPTED, model, ARGS, setting)[0]


def test_a_strangers_cache_is_not_compiled_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """inductor loads pickles and libraries from a directory whose name anybody can predict; a chosen one is used."""
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    place = Path(default_cache_dir())
    compilation.require_mode(Setting(mode="compile"))
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o777)
    with pytest.raises(EnvironmentProblem) as caught:
        compilation.require_mode(Setting(mode="compile"))
    assert str(caught.value) == (
        f"{place} is not a directory that only you can write to, so others may have put files there; remove it, or set "
        "TORCHINDUCTOR_CACHE_DIR to a directory of your own"
    )
    compilation.require_mode(Setting(mode="script"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "chosen"))
    compilation.require_mode(Setting(mode="compile"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [*compilation.INDUCTOR, compilation.AOT, "script"])
def test_every_mode_computes_the_same(mode: str) -> None:
    """Of weights that were made in inference mode, as those of a worker are."""
    with torch.inference_mode():
        model = TOY.build({}).eval()
        run, _ = compilation.compiled(TOY, model, ARGS, Setting(mode=mode))
        torch.testing.assert_close(run(*ARGS), model(*ARGS))


def test_the_first_answer_is_timed_and_compiled_libraries_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call compiles, so it is the first answer; a library that lay in the cache was not compiled."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    now = [0.0]
    monkeypatch.setattr(compilation, "perf_counter", lambda: now[0])

    def compiling(model: Any, setting: Setting) -> Any:
        def call(*args: Any) -> None:
            library = tmp_path / "ab" / "cabd.so"
            now[0] += 1 if library.is_file() else 40
            library.parent.mkdir(exist_ok=True)
            if not library.is_file():
                library.write_text("compiled")

        return call

    monkeypatch.setattr(compilation, "inductor", compiling)
    model = SCRIPTED.build({}).eval()
    found = [compilation.compiled(SCRIPTED, model, ARGS, Setting(mode="compile"))[1] for _ in range(2)]
    assert found == [Compilation(41, 40, 1), Compilation(2, 1, 0)]
    _, script = compilation.compiled(SCRIPTED, model, ARGS, Setting(mode="script"))
    assert script.libraries is None


def test_a_model_scripted_from_source_does_not_support_autocast() -> None:
    """TorchScript would ignore autocast, so the error says what to use instead."""
    with pytest.raises(UsageError, match="--mode script compiles toy from source, .* use --bf16=fastmath"):
        compile_toy(Setting("bf16", "autocast", mode="script"))
    with torch.inference_mode():
        assert compile_toy(Setting(mode="script"))(*ARGS).shape == (2, 2)


def test_processes_that_have_compiled_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the model is specialized by two calls: they would be suspended with the worker, or run while it samples."""
    from torch._inductor import async_compile

    calls: list[str] = []
    monkeypatch.setattr(compilation, "inductor", lambda model, setting: lambda *args: calls.append("called"))
    monkeypatch.setattr(async_compile, "shutdown_compile_workers", lambda: calls.append("ended"))
    compile_toy(Setting(mode="compile"))
    assert calls == ["called", "called", "ended"]


class Recorder(TorchDispatchMode):
    """Records each operator with its arguments and its output."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, output))
        return output


class Graph:
    """A simulated ``torch.cuda.CUDAGraph``."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        for function, args, kwargs, output in self.recorder.calls:
            output.copy_(function(*args, **kwargs))


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Graph]]:
    """Simulated CUDA graphs on the CPU; the list has all that were made."""
    made: list[Graph] = []

    def create() -> Graph:
        made.append(Graph())
        return made[-1]

    @contextmanager
    def capture(graph: Graph) -> Iterator[None]:
        with graph.recorder:
            yield

    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name, value in (
        ("Stream", lambda: stream),
        ("current_stream", lambda: stream),
        ("stream", lambda stream: nullcontext()),
        ("CUDAGraph", create),
        ("graph", capture),
    ):
        monkeypatch.setattr(torch.cuda, name, value)
    yield made


def test_other_shapes_are_refused(replayed: list[Graph]) -> None:
    """A graph has fixed shapes; copying another one in would broadcast or fail with torch's words."""
    model = GraphedModel(torch.relu, (torch.ones(2, 3),))
    with pytest.raises(UsageError, match=r"captured with a tensor of shape \(2, 3\), not \(1, 3\); use another --mode"):
        model.load((torch.ones(1, 3),))


def test_an_executable_in_graph_mode(replayed: list[Graph]) -> None:
    """A batch is copied into the graph's inputs, and outputs out of it; the model is called before the capture only."""
    calls: list[int] = []
    setting = replace(GRAPH, device="cpu")  # the device is simulated, the tensors are not
    with torch.inference_mode():
        model = TOY.build({}).eval()
        model.register_forward_hook(lambda *_: calls.append(1))
        made = execution.build(TOY, model, INPUTS, setting)
        outputs = [made.own(made.call(*made.prepare((batch,)))) for batch in (torch.ones(2, 3), torch.zeros(2, 3))]
        assert (len(calls), replayed[0].replays) == (compilation.CALLS_BEFORE_CAPTURE + 1, 2)
        expected = [model(torch.ones(2, 3)), model(torch.zeros(2, 3))]
    assert made.compilation is not None
    torch.testing.assert_close(outputs, expected)


def test_a_model_that_cannot_be_captured_is_one_line(replayed: list[Graph]) -> None:
    """torch's error says first what is wrong, and ends with advice for its developers."""
    problem = "CUDA error: operation not permitted when stream is capturing"

    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError(f"{problem}\nCUDA kernel errors might be asynchronously reported\nCompile with ...")

    with pytest.raises(UsageError) as raised:
        execution.build(TOY, Reads(), INPUTS, replace(GRAPH, device="cpu"))
    assert str(raised.value) == f"toy cannot run with fp32 graph: {problem}; use --mode eager or compile"
