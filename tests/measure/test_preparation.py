"""Settings are resolved once, and mistakes are found before minutes go into weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fake_runs import changed
from toy_workloads import BF16, RANDOM, mlp, odd

from modelzoo.frozen import replace
from modelzoo.measure.preparation import prepare
from modelzoo.records.protocol import Preparation, PrepareJob, Progress
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import find_workload, load_workload


def prepared(work: Workload, *settings: Setting) -> tuple[Preparation, ...]:
    """What preparing ``settings`` gives, in this process."""
    return prepare(PrepareJob(str(work.directory), settings, 0), lambda message: None)


def test_everything_is_decided_and_equal_weights_are_made_once() -> None:
    """Threads, batch, options and the bf16 method; both precisions share one weights file, and progress is reported."""
    sent: list[object] = []
    settings = RANDOM, RANDOM.replace(device="tpu"), BF16.replace(batch=2)
    first, failed, second = prepare(PrepareJob(str(mlp().directory), settings, 0), sent.append)
    assert first.prepared is not None and second.prepared is not None
    setting = first.prepared.setting
    assert (setting.batch, setting.threads, setting.bf16_method) == (16, 1, None)
    assert setting.options == {"width": 256, "depth": 8}
    assert (second.prepared.setting.batch, second.prepared.setting.bf16_method is None) == (2, False)
    assert first.prepared.weights == second.prepared.weights
    assert (failed.prepared, failed.error_kind) == (None, "UsageError")
    assert failed.error is not None and "no such kind of device" in failed.error
    assert set(sent) == {Progress("weights")}


def test_a_setting_has_its_memory_and_its_threads_from_the_first_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP and BLAS libraries read these variables once, and an allocator is preloaded or never used."""
    monkeypatch.setattr("modelzoo.machine.environment.find_library", lambda name: f"/lib/{name}.so")
    (found,) = prepared(mlp(), RANDOM.replace(malloc="tcmalloc"))
    for variables in (found.variables, found.validation_variables):
        assert variables["LD_PRELOAD"] == "/lib/tcmalloc.so"
        assert {variables[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"1"}


def test_mistakes_are_found_before_weights_are_made(tmp_path: Path) -> None:
    """A picture that is not one, and a file that the user of the worker cannot read, are named in one line."""
    text = tmp_path / "text.txt"
    text.write_text("no picture")
    (found,) = prepared(load_workload(find_workload("resnet50")), RANDOM.replace(input=str(text)))
    assert found.error_kind == "InputError"
    line = "raise PermissionError(13, 'Permission denied', '/closed/input')"
    (found,) = prepared(odd(tmp_path / "odd", inputs=line), RANDOM.replace(input="/closed/input"))
    reason = "/closed/input cannot be read: permission denied to the user of the worker; change its mode"
    assert (found.error, found.error_kind) == (reason, "UsageError")
    assert not (tmp_path / "cache").exists()


def test_weights_that_another_worker_has_made_are_used_if_they_can_be_read_here(tmp_path: Path) -> None:
    """Two releases of torch would make different random weights; another file in its place does not count."""
    (made,) = prepared(mlp(), RANDOM)
    assert made.prepared is not None
    elsewhere = tmp_path / "elsewhere.safetensors"
    shutil.copy(made.prepared.weights.path, elsewhere)
    earlier = changed(made, weights=replace(made.prepared.weights, path=str(elsewhere)))

    def weights(setting: Setting) -> str | None:
        job = PrepareJob(str(mlp().directory), (setting,), None, earlier=(earlier.prepared,))
        (found,) = prepare(job, lambda message: None)
        return found.prepared and found.prepared.weights.path

    assert weights(RANDOM) == str(elsewhere)
    assert weights(RANDOM.replace(seed=1)) not in (None, str(elsewhere))
    elsewhere.write_bytes(b"damaged")
    assert weights(RANDOM) == made.prepared.weights.path
    elsewhere.unlink()
    elsewhere.symlink_to("/proc/self/mem")  # it can be opened and not be read, even by root
    assert weights(RANDOM) == made.prepared.weights.path


@pytest.mark.parametrize(
    ("device", "architecture", "expected"),
    [("cpu", "aarch64", "fastmath"), ("cuda", "aarch64", "autocast"), ("cpu", "x86_64", "autocast")],
)
def test_one_rule_decides_the_bf16_method(
    device: str, architecture: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ARM host with a CUDA device runs autocast there, and gets no fast-math variable."""
    monkeypatch.setattr("platform.machine", lambda: architecture)
    monkeypatch.setattr("modelzoo.engines.torch.devices.check_device", lambda name: None)
    (found,) = prepared(mlp(), BF16.replace(device=device))
    assert found.prepared is not None
    assert found.prepared.setting.bf16_method == expected
    assert ("DNNL_DEFAULT_FPMATH_MODE" in found.variables) == (expected == "fastmath")
