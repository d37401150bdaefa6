"""Compiled modes: what they need, and what they do not support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from modelzoo.engines.torch import compilation
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.frozen import replace
from modelzoo.setting import Setting
from modelzoo.workload.declaration import InputRequest, Inputs, Workload

ARGS = (torch.ones(2, 3),)


def make_inputs(request: InputRequest) -> Inputs:
    """Two rows of ones."""
    return Inputs(ARGS, ("a", "b"))


SCRIPTED = Workload("toy", "a toy", "rows", lambda options: torch.nn.Linear(3, 2), make_inputs, script="script")


def compile_toy(setting: Setting) -> Any:
    """Compile the toy as ``setting`` says."""
    model = SCRIPTED.build({}).eval()
    return compilation.compiled(SCRIPTED, model, ARGS, setting)


def test_compile_reports_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing compiler, or a torch without torch.compile, is reported before anything is tried."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(torch, "compile", None, raising=False)
    wanted = Setting(mode="compile")
    for check in (lambda: compile_toy(wanted), lambda: compilation.require_mode(wanted)):
        with pytest.raises(EnvironmentProblem, match=r"--mode compile needs a C\+\+ compiler: install g\+\+"):
            check()
    monkeypatch.delattr(torch, "compile")
    with pytest.raises(EnvironmentProblem, match="--mode compile needs torch 2.1 or newer, .*; use --mode script"):
        compilation.require_mode(wanted)
    compilation.require_mode(Setting(mode="script"))


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


@pytest.mark.parametrize("mode", ["max-autotune", "cpp-wrapper", "aot"])
def test_a_torch_without_a_mode_says_which_has_it(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mode is a feature of the compiler, which older versions lack."""
    import torch._inductor as inductor

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    compilation.require_mode(Setting(mode=mode))
    monkeypatch.setattr(inductor, "list_mode_options", lambda: {"default": {}})
    monkeypatch.setattr(inductor, "list_options", lambda: ["freezing"])
    monkeypatch.delattr(inductor, "aoti_compile_and_package")
    with pytest.raises(EnvironmentProblem, match=f"--mode {mode} needs torch 2[.]. or newer, .*; use --mode script"):
        compilation.require_mode(Setting(mode=mode))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [*compilation.INDUCTOR, compilation.AOT, "script"])
def test_every_mode_computes_the_same(mode: str) -> None:
    """Of weights that were made in inference mode, as those of a worker are."""
    work = replace(SCRIPTED, script="trace")
    with torch.inference_mode():
        model = work.build({}).eval()
        run = compilation.compiled(work, model, ARGS, Setting(mode=mode))
        torch.testing.assert_close(run(*ARGS), model(*ARGS))


def test_a_model_scripted_from_source_does_not_support_autocast() -> None:
    """TorchScript would ignore autocast, so the error says what to use instead."""
    with pytest.raises(UsageError, match="--mode script compiles toy from source, .* use --bf16=fastmath"):
        compile_toy(Setting("bf16", "autocast", mode="script"))
    with torch.inference_mode():
        assert compile_toy(Setting(mode="script"))(*ARGS).shape == (2, 2)


def test_a_compiled_model_has_been_specialized(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called twice before it is handed out, so that no compilation falls into the timed calls."""
    calls: list[int] = []
    monkeypatch.setattr(compilation, "_inductor", lambda model, setting: lambda *args: calls.append(1))
    compile_toy(Setting(mode="compile"))
    assert len(calls) == 2
