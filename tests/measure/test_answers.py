"""What workers may answer: a container, whatever it says, decides nothing about this machine."""

from __future__ import annotations

from typing import Any

import fake_runs
import pytest

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.measure.answers import accepted
from modelzoo.records.exhibits import CsvRows, DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot, PictureSource
from modelzoo.records.fleet import Shard, ShardPlan
from modelzoo.records.partial import Matches
from modelzoo.records.protocol import (
    Assignment,
    Exhibited,
    Failed,
    Measured,
    MeasureJob,
    Preparation,
    PrepareJob,
    Progress,
    SettingsPrepared,
    ShardsPlanned,
)
from modelzoo.records.run import Prepared
from modelzoo.records.workload import LocalWeights, Verification, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting, Setting

ASKED = Setting(weights="/home/me/w.pth", input="/data/pictures")
RESOLVED = ResolvedSetting(weights="/home/me/w.pth", input="/data/pictures")
JOB = PrepareJob("/work", (ASKED,), 1, math_mode="bf16")
SHOWN = ("/home/me/w.pth", "/data/pictures")


def weights(path: str) -> Weights:
    """Weights as a message has them."""
    return Weights(WeightsKind.PATH, "w.pth", path, "0" * 64)


def answer(job: PrepareJob = JOB, shown: tuple[str, ...] | None = SHOWN, **fields: Any) -> Preparation:
    """What is made of one preparation, of a container unless ``shown`` is ``None``."""
    prepared = Prepared(fields.pop("setting", RESOLVED), fields.pop("weights", weights("/home/me/w.pth")))
    found = Preparation(**{"prepared": prepared, **fields})
    message = accepted(SettingsPrepared((found,)), job, shown)
    assert isinstance(message, SettingsPrepared)
    return message.settings[0]


def weights_of(found: Preparation) -> Weights:
    """The weights that were prepared."""
    assert found.prepared is not None
    return found.prepared.weights


@pytest.mark.parametrize(
    ("path", "is_local"),
    [
        ("/home/me/w.pth", True),
        ("/data/pictures/below", True),
        ("/etc/shadow", False),
        ("/var/run/docker.sock", False),
        ("/data/pictures/../../etc/shadow", False),
        ("/home/me/w.pth.other", False),
        ("/modelzoo/cache/modelzoo/random/w.safetensors", False),
        ("", False),
    ],
)
def test_weights_of_a_container_are_files_of_this_machine_only_if_it_was_shown_them(path: str, is_local: bool) -> None:
    """Others lie in the image: they are never mounted."""
    found = weights_of(answer(weights=weights(path)))
    assert type(found) is (LocalWeights if is_local else Weights)
    assert found is not None
    assert found.path == path


def test_weights_that_a_worker_of_this_machine_has_found_are_files_of_it() -> None:
    """They may be anywhere."""
    found = weights_of(answer(shown=None, weights=weights("/root/.cache/w.safetensors")))
    assert type(found) is LocalWeights


def test_weights_that_others_have_found_stay_what_they_were() -> None:
    """A container may use them, and says nothing else about them; those of another image never become local."""
    mine = LocalWeights(WeightsKind.RANDOM, "seed 0", "/root/w", "1" * 64, 0)
    theirs = weights("/modelzoo/cache/w")
    job = replace(JOB, earlier=(Preparation(Prepared(RESOLVED, mine)), Preparation(Prepared(RESOLVED, theirs))))
    assert weights_of(answer(job, (*SHOWN, "/root/w"), weights=weights("/root/w"))) is mine
    assert weights_of(answer(job, (*SHOWN, "/root/w"), weights=weights("/modelzoo/cache/w"))) is theirs


@pytest.mark.parametrize(
    "change", [{"weights": "/etc/shadow"}, {"input": "/etc"}, {"device": "cuda"}, {"image": "b"}, {"python": "/p"}]
)
def test_a_worker_resolves_what_it_was_asked(change: dict[str, str]) -> None:
    """Nothing of this machine is decided by it."""
    with pytest.raises(WorkerError) as error:
        answer(setting=RESOLVED.replace(**change))
    (name,) = change
    assert str(error.value) == f"the worker resolved another setting than it was asked for: {name} differs"


def test_every_setting_has_one_answer() -> None:
    """Neither too few nor too many."""
    with pytest.raises(WorkerError, match="the worker answered for 0 settings, not 1"):
        accepted(SettingsPrepared(()), JOB, SHOWN)
    with pytest.raises(WorkerError, match="the worker answered for 2 settings, not 1"):
        accepted(SettingsPrepared((Preparation(), Preparation())), JOB, SHOWN)


def test_an_answer_without_weights_is_an_error_and_nothing_else() -> None:
    """Whatever else it says; terminals show no control characters of it."""
    found = answer(prepared=None, variables={"A": "b"}, error="no \x1b[2J", error_kind="InputError")
    assert found == Preparation(error="no \\x1b[2J", error_kind="InputError")
    assert answer(prepared=None).error == "the setting was not resolved"


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A B", "x"), ("A\x1b", "x"), ("A", "\0")])
@pytest.mark.parametrize("field", ["variables", "validation_variables"])
def test_variables_must_be_possible(field: str, name: str, value: str) -> None:
    """No process could be started with others."""
    with pytest.raises(WorkerError, match="which no process can have"):
        answer(**{field: {name: value}})


def test_what_is_shown_of_a_worker_is_printable() -> None:
    """A phase is short, and nothing of it is a command to the terminal."""
    assert accepted(Progress("\x1b[2J" + "x" * 1000, 3), JOB) == Progress("\\x1b[2J" + "x" * 196, 3)
    assert accepted(Failed("a\x07", "InputError"), JOB) == Failed("a\\x07", "InputError")


def exhibit(path: str | None) -> Exhibited:
    """A picture to draw on."""
    none = DrawnDetections()
    picture = DetectionPicture(PictureSource(path), (10, 10), none, none, Matches(), 0.5, "fp32", "bf16")
    return Exhibited(Exhibit("a.jpg", detections=picture))


def test_a_container_has_drawn_only_on_pictures_that_it_was_shown() -> None:
    """The parent reads the picture, with the rights of the user."""
    for path in (None, "/data/pictures/a.jpg"):
        assert accepted(exhibit(path), JOB, SHOWN) == exhibit(path)
    for path in ("/home/me/.ssh/id_rsa", "/data/pictures/../secret.jpg", "a.jpg"):
        with pytest.raises(WorkerError) as error:
            accepted(exhibit(path), JOB, SHOWN)
        assert str(error.value) == f"the worker wants to draw on {path}, a file that it was not shown"
        assert accepted(exhibit(path), JOB) == exhibit(path), "a worker on this machine sees all files anyway"


def measured(**changes: Any) -> Measured:
    """What a worker reports of ``measuring()``, but for ``changes``."""
    run = fake_runs.make((0.1, 0.2))
    assert run.report is not None
    return Measured(fake_runs.changed(run.report, **changes))


def measuring() -> MeasureJob:
    """The job that ``measured()`` answers."""
    report = measured().report
    return MeasureJob(Assignment("/work", Setting(), report.prepared, 1), report.plan)


def test_a_report_is_of_what_the_worker_was_given() -> None:
    """Its setting and its weights; it has samples to compute with."""
    report = measured().report
    assert accepted(measured(), measuring(), SHOWN) == measured()
    assert report.timing is not None
    for changes, message in (
        ({"setting": report.setting.replace(batch=1000)}, "the worker answered for another setting than it was given"),
        (
            {"weights": replace(report.prepared.weights, sha256="0")},
            "the worker answered for other weights than it was given",
        ),
        (
            {"weights": replace(report.prepared.weights, verification=Verification.FULL)},
            "the worker answered for other weights than it was given",
        ),
        ({"timing": replace(report.timing, series=())}, "the worker sent no samples, or some that are not positive"),
        (
            {"timing": replace(report.timing, series=(replace(report.timing.series[0], values=(0.1, 0.0)),))},
            "the worker sent no samples, or some that are not positive",
        ),
    ):
        with pytest.raises(WorkerError) as error:
            accepted(measured(**changes), measuring(), SHOWN)
        assert str(error.value) == message
    assert accepted(measured(), JOB, SHOWN) == measured(), "as the answer to another job it counts for nothing"


@pytest.mark.parametrize(
    "change",
    [
        {"source": PictureSource(crop=(0, 0, 100_000, 100_000))},
        {"source": PictureSource(crop=(-1, 0, 3, 4))},
        {"source": PictureSource(crop=(5, 0, 3, 4))},
        {"tested": DrawnDetections(mask_size=(100_000, 100_000))},
        {"reference": DrawnDetections(mask_size=(-5, 4))},
    ],
)
def test_no_memory_is_allocated_for_a_picture_that_cannot_be(change: dict[str, Any]) -> None:
    """Neither for a crop nor for a mask."""
    picture = exhibit(None).exhibit.detections
    assert picture is not None
    message = Exhibited(Exhibit("a.jpg", detections=replace(picture, **change)))
    with pytest.raises(WorkerError) as error:
        accepted(message, JOB)
    assert str(error.value) == "the worker describes a crop or a mask that is larger than any image"


def test_the_suffix_of_a_file_is_that_of_its_content() -> None:
    """No worker writes a program."""
    for part, name in (({"csv": CsvRows((), ())}, "a.csv"), ({"layer_errors": LayerErrorPlot((), "b", 4.0)}, "a.png")):
        accepted(Exhibited(Exhibit(name, **part)), JOB)
        with pytest.raises(WorkerError, match=f"calls an exhibit a.py, which does not end in {name[1:]}"):
            accepted(Exhibited(Exhibit("a.py", **part)), JOB)


@pytest.mark.parametrize("identity", ["", "../../etc/cron.d/job", "a/b", "a.b", "²³"])
def test_the_name_of_a_shard_is_one(identity: str) -> None:
    """A file is called after it, which stays in the directory of finished shards."""
    plan = ShardPlan({}, "picture", (Shard(0, 0, 4, "0a" * 32),))
    assert accepted(ShardsPlanned(plan), JOB) == ShardsPlanned(plan)
    for shards in ((*plan.shards, Shard(1, 4, 5, identity)), ()):
        with pytest.raises(WorkerError, match="into no shards, or into shards that have no name"):
            accepted(ShardsPlanned(replace(plan, shards=shards)), JOB)
