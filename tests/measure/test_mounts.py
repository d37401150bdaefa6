"""Which files a container is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.errors import UsageError
from modelzoo.measure.mounts import image_directory, mount_options
from modelzoo.records.protocol import Job, MeasureJob, Preparation, PrepareJob, ReferenceJob, ValidateJob
from modelzoo.records.run import EnvironmentChanges
from modelzoo.records.validity import ValidityRequest
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import Plan, ResolvedSetting, Setting
from modelzoo.workload.discovery import CHECKOUT

RESNET50 = str(CHECKOUT / "resnet50")


def weights(path: Path) -> Weights:
    """Weights in this file or directory."""
    return Weights(WeightsKind.PRETRAINED, "w", str(path), "0" * 64, "")


def made(path: Path) -> Path:
    """A file that exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def shown(job: Job, **environ: str) -> list[str]:
    """The paths that a job's container is shown; all are read-only, at the same path."""
    found = []
    for option in mount_options(job, environ):
        kind, source, target, mode = option.removeprefix("--mount=").split(",")
        assert (kind, mode, source.removeprefix("source=")) == ("type=bind", "readonly", target.removeprefix("target="))
        found.append(target.removeprefix("target="))
    return found


def test_an_image_has_the_workloads_that_are_copied_into_it() -> None:
    """The standard four and the examples; any other directory keeps its path."""
    assert image_directory(RESNET50) == "/modelzoo/resnet50"
    assert image_directory(str(CHECKOUT / "examples" / "mlp")) == "/modelzoo/examples/mlp"
    assert image_directory(str(CHECKOUT / "tests" / "docker" / "conv_linear")).startswith(str(CHECKOUT))
    assert image_directory("/home/me/mine") == "/home/me/mine"


def test_the_files_that_a_job_names_are_shown(tmp_path: Path) -> None:
    """The workload unless the image has it, weights, inputs, data; nothing twice, nothing within another."""
    work, checkpoint, picture = tmp_path / "work", made(tmp_path / "w" / "w.pth"), made(tmp_path / "work" / "p.jpg")
    setting = Setting(weights=str(checkpoint), input=str(picture))
    assert shown(PrepareJob(str(work), (setting, setting), None)) == [str(work), str(checkpoint)]
    resolved = ResolvedSetting()
    changes, plan, data = EnvironmentChanges(), Plan(), made(tmp_path / "data.json")
    measured = MeasureJob(RESNET50, Setting(), resolved, weights(checkpoint), plan, None, changes)
    assert shown(measured) == [str(checkpoint)]
    judged = ValidateJob(
        RESNET50, Setting(), resolved, weights(checkpoint), None, changes, ValidityRequest(data=str(data))
    )
    assert shown(judged) == [str(checkpoint), str(data)]
    assert shown(ReferenceJob(None)) == []


def test_weights_that_others_have_found_and_the_users_own_are_shown_to_the_preparation(tmp_path: Path) -> None:
    """What an image has made itself does not exist here."""
    found, own = made(tmp_path / "found.pth"), made(tmp_path / "own" / "w.pth").parent
    earlier = (
        Preparation(ResolvedSetting(), weights(found)),
        Preparation(error="none"),
        Preparation(ResolvedSetting(), weights(Path("/modelzoo/cache/modelzoo/random/w.safetensors"))),
    )
    job = PrepareJob(RESNET50, (Setting(),), None, earlier=earlier)
    assert shown(job, MODELZOO_WEIGHTS=str(own)) == [str(found), str(own)]


def test_the_targets_of_links_are_shown_with_them(tmp_path: Path) -> None:
    """Hugging Face's cache keeps files in blobs/ and links in snapshots/."""
    blob = made(tmp_path / "blobs" / "abc")
    snapshot = tmp_path / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    (snapshot / "dangling").symlink_to("../nowhere")
    (snapshot / "alias").symlink_to("model.safetensors")
    job = MeasureJob(RESNET50, Setting(), ResolvedSetting(), weights(snapshot), Plan(), None, EnvironmentChanges())
    assert shown(job) == [str(snapshot), str(blob)]


def test_a_comma_in_a_path_is_refused(tmp_path: Path) -> None:
    """``--mount`` separates its parts by commas."""
    picture = made(tmp_path / "a,b.jpg")
    with pytest.raises(UsageError, match="because its name has a comma; rename it"):
        mount_options(PrepareJob(RESNET50, (Setting(input=str(picture)),), None), {})
