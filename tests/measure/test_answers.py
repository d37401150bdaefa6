"""What workers may answer: a container, whatever it says, decides nothing about this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from example_machine import QUIET
from fake_docker import FakeDocker
from fake_runs import changed, make
from toy_workloads import SHORT, mlp

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.measure import jobs
from modelzoo.measure.container import ContainerLauncher, Launcher, check_answer, check_message
from modelzoo.measure.jobs import Request
from modelzoo.measure.mounts import named_files, place
from modelzoo.records.codec import decode, encode, encode_json
from modelzoo.records.exhibits import DetectionPicture, DrawnDetections, Exhibit, PictureSource
from modelzoo.records.fleet import Shard, ShardPlan
from modelzoo.records.machine import Placement
from modelzoo.records.partial import Matches
from modelzoo.records.protocol import Answer, Assignment, Message, Preparation, PrepareJob, Progress, decode_message
from modelzoo.records.run import Prepared, RunReport
from modelzoo.records.run_report import Observed
from modelzoo.records.serving import InstanceReport
from modelzoo.records.workload import LocalWeights, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting, Setting

HERE = Setting(weights="/home/me/w.pth", input="/data/pictures")
ASKED = HERE.replace(image="zoo:a")
SHOWN = ("/home/me/w.pth", "/data/pictures")
CACHE = "/modelzoo/caches/a"
Ask = Callable[..., tuple[Preparation, ...]]


def weights(path: str) -> Weights:
    """Weights as a message has them."""
    return Weights(WeightsKind.PATH, "w.pth", path, "0" * 64)


def found(path: str = "/home/me/w.pth", setting: Setting = ASKED, **fields: Any) -> Preparation:
    """A preparation that found weights there."""
    resolved = ResolvedSetting(weights=setting.weights, input=setting.input, image=setting.image)
    return Preparation(**{"prepared": Prepared(resolved, weights(path)), **fields})


@pytest.fixture
def answer(engine: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What is made of the preparations that each worker answers with: one list for this machine, one for an image."""
    for name in ("zoo:a", "zoo:b"):
        engine.add(name)

    def ask(answers: dict[str, list[Preparation]], *settings: Setting) -> tuple[Preparation, ...]:
        def remote(launcher: Launcher, job: PrepareJob, *others: object) -> Any:
            def call(name: str, result: Any, last: bool) -> Any:
                image = launcher.image if isinstance(launcher, ContainerLauncher) else ""
                message = launcher.read(job, encode_json(Answer(msgspec.Raw(encode_json(answers[image])))))
                assert isinstance(message, Answer)
                found = msgspec.json.decode(message.result, type=result)
                launcher.check(job, found)
                return found

            return nullcontext(SimpleNamespace(call=call))

        monkeypatch.setattr(jobs, "Remote", remote)
        return jobs.prepare(Request(mlp(), settings, SHORT), lambda event: None)

    return ask


def weights_of(preparation: Preparation) -> Weights:
    """The weights that were prepared."""
    assert preparation.prepared is not None, preparation.error
    return preparation.prepared.weights


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/data/pictures/../../etc/shadow",
        "/home/me/w.pth.other",
        "/modelzoo/cache/modelzoo/random/w.safetensors",
        "",
        "/home/me/w.pth",
        place("/data/pictures") + "/below",
    ],
)
def test_a_path_that_a_container_names_changes_nothing_that_is_shown_to_it(path: str, answer: Ask) -> None:
    """What the user has named is shown, and nothing else."""
    (prepared,) = answer({"zoo:a": [found(path)]}, ASKED)
    assert type(weights_of(prepared)) is Weights
    assert prepared.prepared is not None
    job = Assignment(str(mlp().directory), ASKED, prepared.prepared, 1)
    assert named_files(job, {}) == SHOWN


def test_weights_that_others_have_found_stay_what_they_were(answer: Ask) -> None:
    """A container may use them, and says nothing else about them; those of another image never become local."""
    claimed = changed(found(), weights=replace(weights(place("/root/w")), sha256="1" * 64))
    mine, used = answer({"": [found("/root/w", HERE)], "zoo:a": [claimed]}, HERE, ASKED)
    assert type(weights_of(mine)) is LocalWeights
    assert weights_of(used) is weights_of(mine)
    other = ASKED.replace(image="zoo:b")
    answers = {"zoo:a": [found("/etc/shadow")], "zoo:b": [found("/etc/shadow", other)]}
    assert [type(weights_of(each)) for each in answer(answers, ASKED, other)] == [Weights, Weights]


def test_an_image_reads_the_weights_that_another_has_made(answer: Ask) -> None:
    """Otherwise images of two releases of torch would have different random weights, and no verdict.

    An image that was not shown a cache, and names weights in it, guesses.
    """
    other, shared = ASKED.replace(image="zoo:b"), f"{CACHE}/w"
    answers = {"zoo:a": [found("/modelzoo/cache/w")], "zoo:b": [found(shared, other)]}
    assert [weights_of(each).path for each in answer(answers, ASKED, other)] == [shared, shared]
    for lie in ("/modelzoo/caches/b/w", "/modelzoo/caches/b/../b/w"):
        (refused,) = answer({"zoo:a": [found(lie)]}, ASKED)
        assert refused.error == f"the worker names {lie}, in the cache of an image that it was not shown"


def test_a_worker_resolves_what_it_was_asked(answer: Ask) -> None:
    """Nothing of this machine is decided by it, and every setting has one answer."""
    resolved = found().prepared
    assert resolved is not None
    lies = ("weights", "/etc/shadow"), ("input", "/etc"), ("device", "cuda"), ("image", "b"), ("image", None)
    for name, value in lies:
        setting = resolved.setting.replace(**{name: value, "python": "/p" if value is None else None})
        (prepared,) = answer({"zoo:a": [Preparation(replace(resolved, setting=setting))]}, ASKED)
        assert prepared.error == f"the worker resolved another setting than it was asked for: {name} differs"
    for answers in ([], [Preparation(), Preparation()]):
        (prepared,) = answer({"zoo:a": answers}, ASKED)
        assert prepared.error == f"the worker answered for {len(answers)} settings, not 1"


def test_variables_must_be_possible(answer: Ask) -> None:
    """No process could be started with others, or as a program whose name has a null character."""
    wrong = {"": "x"}, {"A=B": "x"}, {"A B": "x"}, {"A\x1b": "x"}, {"A": "\0"}
    lies = [{field: each} for field in ("variables", "validation_variables") for each in wrong]
    for lie in (*lies, {"interpreter": "python\0"}):
        with pytest.raises(msgspec.ValidationError):
            answer({"zoo:a": [found(**lie)]}, ASKED)
    (prepared,) = answer({"zoo:a": [found(variables={"A_1": "x\ny"}, interpreter="/opt/python")]}, ASKED)
    assert prepared.error is None


def exhibit(path: str | None, **changes: Any) -> Exhibit:
    """A picture to draw on."""
    none = DrawnDetections()
    picture = DetectionPicture(PictureSource(path), (10, 10), none, none, Matches(), 0.5, "fp32", "bf16")
    return Exhibit("a.jpg", detections=replace(picture, **changes))


def test_a_container_has_drawn_only_on_pictures_that_it_was_shown() -> None:
    """The parent reads the picture, with the rights of the user."""
    for path in (None, "/data/pictures/a.jpg", "/data/pictures"):
        check_message(exhibit(path), SHOWN)
    for path in ("/home/me/.ssh/id_rsa", "/data/pictures/../secret.jpg", "/data/pictures.jpg", "a.jpg"):
        with pytest.raises(WorkerError) as error:
            check_message(exhibit(path), SHOWN)
        assert str(error.value) == f"the worker wants to draw on {path}, a file that it was not shown"


REPORT = make((0.1, 0.2)).report


def test_a_report_is_of_what_the_worker_was_given() -> None:
    """Its setting and its weights, also in the report of an instance."""
    job, own = Assignment("/work", Setting(), REPORT.prepared, 1), REPORT.prepared.weights
    check_answer(REPORT, job, CACHE)
    for lie in (
        changed(REPORT, setting=REPORT.setting.replace(batch=1000)),
        changed(REPORT, weights=replace(own, sha256="0")),
        changed(REPORT, weights=replace(own, verification="full")),
    ):
        for answer in (lie, InstanceReport(Placement((1,), (0,)), Observed(), 0, QUIET, 0.1, 0.1, 0.1, (), lie)):
            with pytest.raises(WorkerError) as error:
                check_answer(answer, job, CACHE)
            assert str(error.value) == "the worker answered for another setting, or other weights, than it was given"


@pytest.mark.parametrize("values", [b"[]", b"[0.1,0.0]", b"[0.1,-1.0]", b"[1e30]"])
def test_a_worker_sends_samples_to_compute_with(values: bytes) -> None:
    """At least one, and times that can be."""
    line, said = encode_json(REPORT), "no time was sampled, or one that is not possible|Expected `float` >= 0.0"
    assert b'"values":[0.1,0.2]' in line
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.json.decode(line.replace(b'"values":[0.1,0.2]', b'"values":' + values), type=RunReport)


def cropped(*corners: int) -> Exhibit:
    """Of a part of a picture of the suite."""
    return exhibit(None, source=PictureSource(crop=corners))  # type: ignore[arg-type]


def masked(side: str, height: int, width: int) -> Exhibit:
    """With masks of this size."""
    return exhibit(None, **{side: DrawnDetections(mask_size=(height, width))})


@pytest.mark.parametrize(
    ("possible", "lie"),
    [
        (Progress("x" * 200), Progress("x" * 201)),
        (cropped(0, 0, 640, 480), cropped(0, 0, 100_000, 100_000)),
        (cropped(0, 0, 640, 480), cropped(-1, 0, 3, 4)),
        (masked("tested", 800, 1333), masked("tested", 100_000, 100_000)),
        (masked("reference", 800, 1333), masked("reference", -5, 4)),
    ],
)
def test_a_message_is_not_too_large(possible: Message, lie: Message) -> None:
    """A phase is drawn once a second, and memory is allocated for the crop of a picture and for a mask."""
    assert decode_message(encode_json(possible)) == possible
    with pytest.raises(msgspec.ValidationError):
        decode_message(encode_json(lie))


@pytest.mark.parametrize("identity", ["", "../../etc/cron.d/job", "a/b", "a.b", "²³", "a\n"])
def test_the_name_of_a_shard_is_one(identity: str) -> None:
    """A file is called after it, which stays in the directory of finished shards."""
    plan = ShardPlan({}, "picture", (Shard(0, 0, 4, "0a" * 32),))
    assert decode(ShardPlan, encode(plan)) == plan
    for shards in ((*plan.shards, Shard(1, 4, 5, identity)), ()):
        with pytest.raises(msgspec.ValidationError):
            decode(ShardPlan, encode(replace(plan, shards=shards)))
