"""Which files a container is shown, and where it sees them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from modelzoo.errors import UsageError
from modelzoo.measure.mounts import (
    USER,
    cache_name,
    cache_options,
    inside,
    mount_options,
    named_files,
    network_options,
    outside,
    place,
)
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import CsvRows, Exhibit
from modelzoo.records.protocol import Assignment, Job, PrepareJob, decode_job, encode_job
from modelzoo.records.run import Prepared
from modelzoo.records.validity import ValidityRequest
from modelzoo.records.workload import Conversion, Export, LocalWeights, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.discovery import CHECKOUT

RESNET50 = str(CHECKOUT / "resnet50")
CACHE_A, CACHE_B = cache_name("sha256:" + "a" * 64), cache_name("sha256:" + "b" * 64)
DEFAULT = Setting()


@pytest.fixture(autouse=True)
def _readable(tmp_path: Path) -> None:
    """What a test makes can be read by the user of containers, whatever the mask of this process."""
    before = os.umask(0o022)
    tmp_path.chmod(0o700)  # the directories above a file may be closed
    yield
    os.umask(before)


def weights(path: Path) -> LocalWeights:
    """Weights in this file or directory, found on this machine."""
    return LocalWeights(WeightsKind.PRETRAINED, "w", str(path), "0" * 64)


def in_image(path: str) -> Weights:
    """Weights that an image says it has."""
    return Weights(WeightsKind.RANDOM, "seed 0", path, "0" * 64)


def measuring(found: Weights, requested: Setting = DEFAULT) -> Assignment:
    """The job of a worker that measures with these weights."""
    resolved = ResolvedSetting(weights=requested.weights, input=requested.input)
    return Assignment(RESNET50, requested, Prepared(resolved, found), 1)


def sent(job: Job, **environ: str) -> Job:
    """The job as a container of image A reads it."""
    return decode_job(inside(encode_job(job), job, named_files(job, environ), CACHE_A))


def made(path: Path) -> Path:
    """A file that exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def mounts(job: Job, **environ: str) -> list[tuple[str, str]]:
    """Sources and targets of all mounts, which are read-only."""
    found = []
    for option in mount_options(job, environ):
        kind, source, target, mode = option.removeprefix("--mount=").split(",")
        assert (kind, mode) == ("type=bind", "readonly")
        found.append((source.removeprefix("source="), target.removeprefix("target=")))
    return found


def shown(job: Job, **environ: str) -> list[str]:
    """The files of this machine that a container is shown, each at its own place."""
    found = mounts(job, **environ)
    assert [target for _, target in found] == [place(source) for source, _ in found]
    return [source for source, _ in found]


def test_a_place_depends_on_the_path_alone_and_keeps_the_name() -> None:
    """Suffixes mean something; two files of one name do not meet; a directory that is closed is no part of it."""
    assert place("/root/.cache/w.safetensors") == "/modelzoo/inputs/0c5dd3debebb/w.safetensors"
    assert place("/home/me/w.safetensors") != place("/root/.cache/w.safetensors")


def test_an_image_has_the_workloads_that_are_copied_into_it() -> None:
    """The standard four and the examples; any other directory is shown."""
    mine = str(CHECKOUT / "tests" / "docker" / "conv_linear")
    copied = {RESNET50: "/modelzoo/resnet50", str(CHECKOUT / "examples" / "mlp"): "/modelzoo/examples/mlp"}
    for directory, expected in {**copied, mine: place(mine), "/home/me/mine": place("/home/me/mine")}.items():
        job = PrepareJob(directory, (Setting(),), 1)
        assert sent(job).directory == expected
        assert named_files(job, {}) == (() if directory in copied else (directory,))


def test_what_leads_to_the_hub_is_for_a_container_that_downloads(tmp_path: Path) -> None:
    """A mirror, proxies and the certificates to check them with; nothing of it, and no network, for any other."""
    bundle = made(tmp_path / "company.pem")
    environ = {"HF_ENDPOINT": "https://m", "NO_PROXY": "10.0.0.1", "SSL_CERT_FILE": str(bundle), "HF_TOKEN": "secret"}
    job = PrepareJob(RESNET50, (Setting(),), None)
    found = ["--env=HF_ENDPOINT", "--env=NO_PROXY", f"--env=SSL_CERT_FILE={place(str(bundle))}"]
    assert network_options(job, environ) == found
    assert shown(job, **environ) == [str(bundle)]
    others = (measuring(in_image("w")), PrepareJob(RESNET50, (Setting(weights="random"),), None))
    for other, given in (*((each, environ) for each in others), (job, {**environ, "MODELZOO_OFFLINE": "1"})):
        assert network_options(other, given) == ["--network=none"]
        assert shown(other, **given) == []


def test_the_files_that_a_job_names_are_shown(tmp_path: Path) -> None:
    """The workload unless the image has it, weights, inputs, data; nothing twice."""
    work, checkpoint, picture = tmp_path / "work", made(tmp_path / "w" / "w.pth"), made(tmp_path / "work" / "p.jpg")
    made(work / "workload.py")
    setting = Setting(weights=str(checkpoint), input=str(picture))
    assert shown(PrepareJob(str(work), (setting, setting), None)) == [str(work), str(checkpoint), str(picture)]
    assert shown(measuring(weights(checkpoint))) == [str(checkpoint)]
    data = made(tmp_path / "data.json")
    request = ValidityRequest(data=str(data))
    job = Assignment(RESNET50, setting, Prepared(ResolvedSetting(), weights(checkpoint)), None, validity=request)
    assert shown(job) == [str(checkpoint), str(picture), str(data)]


def test_what_an_image_names_is_not_shown(tmp_path: Path) -> None:
    """Its weights and what it resolved may be any path of this machine; none of them is mounted."""
    secret = str(made(tmp_path / "secret"))
    prepared = Prepared(ResolvedSetting(weights=secret, input=secret), in_image(secret))
    job = Assignment(RESNET50, Setting(), prepared, 1)
    assert shown(job) == shown(PrepareJob(RESNET50, (Setting(),), None, earlier=(prepared,))) == []
    found = sent(job)
    assert isinstance(found, Assignment)
    assert found.prepared.weights == in_image(secret)


def test_weights_found_on_this_machine_and_the_users_own_are_shown_to_the_preparation(tmp_path: Path) -> None:
    """What images have made themselves lies in their caches."""
    found, own = made(tmp_path / "found.pth"), made(tmp_path / "own" / "w.pth").parent
    known = weights(found), in_image(f"{CACHE_A}/random/w"), in_image(f"{CACHE_B}/random/w")
    job = PrepareJob(RESNET50, (Setting(),), None, earlier=tuple(Prepared(ResolvedSetting(), each) for each in known))
    assert shown(job, MODELZOO_WEIGHTS=str(own)) == [str(found), str(own)]
    seen = sent(job, MODELZOO_WEIGHTS=str(own))
    assert isinstance(seen, PrepareJob)
    paths = [each.weights.path for each in seen.earlier]
    assert paths == [place(str(found)), "/modelzoo/cache/random/w", f"{CACHE_B}/random/w"]


def test_a_job_has_the_places_and_an_answer_the_paths(tmp_path: Path) -> None:
    """Every path that is sent, and whatever text it comes back in."""
    data, picture, checkpoint = "/d/set", "/p/größe \\ it's.jpg", "/home/me/w.pth"
    requested = Setting(weights=checkpoint, input=picture)
    resolved = ResolvedSetting(weights=checkpoint, input=picture)
    request = ValidityRequest(data=data)
    job = Assignment("/work", requested, Prepared(resolved, weights(Path(checkpoint))), 7, validity=request)
    own = sent(job)
    assert isinstance(own, Assignment) and own.validity is not None
    assert (own.directory, own.validity.data) == (place("/work"), place(data))
    for setting in (own.requested, own.setting):
        assert (setting.weights, setting.input) == (place(checkpoint), place(picture))
    assert own.prepared.weights.path == place(checkpoint)
    there, here = (
        encode_json(Exhibit("a.csv", csv=CsvRows(("text",), ((f"{each(data)}/a.jpg and {each(picture)}",),))))
        for each in (place, str)
    )
    assert outside(there, named_files(job, {}), CACHE_A) == here


def test_an_image_has_a_cache_of_its_own_and_reads_weights_in_others() -> None:
    """By the id of the image; nothing else of another's cache is shown, and nothing that no other process has named."""
    own, other = "--volume=modelzoo-cache-aaaaaaaaaaaa:/modelzoo/cache", f"modelzoo-cache-bbbbbbbbbbbb:{CACHE_B}:ro"
    for path, expected in {
        f"{CACHE_A}/w": [own],
        f"{CACHE_B}/w": [own, f"--volume={other}"],
        f"{CACHE_A}/../{Path(CACHE_B).name}/w": [own],
        "/modelzoo/hub/w": [own],
    }.items():
        assert cache_options(measuring(in_image(path)), CACHE_A) == expected
        earlier = (Prepared(ResolvedSetting(), in_image(path)),)
        assert cache_options(PrepareJob(RESNET50, (Setting(),), None, earlier=earlier), CACHE_A) == expected


def test_the_cache_of_an_image_has_a_name_of_its_own_here() -> None:
    """Images give the same name to different files; what only looks like it stays."""
    line = b'["/modelzoo/cache/w", "in /modelzoo/cache/w: no", "/modelzoo/cachet", "/a/modelzoo/cache/w"]'
    expected = f'["{CACHE_A}/w", "in {CACHE_A}/w: no", "/modelzoo/cachet", "/a/modelzoo/cache/w"]'
    assert outside(line, (), CACHE_A) == expected.encode()
    export = Export(f"{CACHE_A}/exports/e", "b", Conversion("toy", "1"), "", "")
    prepared = Prepared(ResolvedSetting(), in_image(f"{CACHE_A}/w"), export)
    seen = sent(Assignment(RESNET50, DEFAULT, prepared, 1))
    assert isinstance(seen, Assignment) and seen.prepared.export is not None
    assert seen.prepared.export.path == "/modelzoo/cache/exports/e"
    assert seen.prepared.weights.path == "/modelzoo/cache/w"


def given(path: Path) -> list[tuple[str, str]]:
    """What is mounted if the user names ``path`` as the input."""
    return mounts(measuring(in_image("/w"), Setting(input=str(path))))


def refusal(path: Path) -> str:
    """Why it is not shown."""
    with pytest.raises(UsageError) as error:
        given(path)
    return str(error.value)


def test_a_checkpoint_in_a_hubs_cache_is_shown_file_by_file(tmp_path: Path) -> None:
    """Hugging Face's cache keeps files in blobs/ and links in snapshots/."""
    repository = tmp_path / "models--a--b"
    blob = made(repository / "blobs" / "abc")
    snapshot = repository / "snapshots" / "1"
    (snapshot / "deep").mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    (snapshot / "deep" / "config.json").symlink_to("../../../blobs/abc")
    (snapshot / "dangling").symlink_to("../../blobs/nothing")
    assert mounts(measuring(weights(snapshot))) == [
        (str(blob), f"{place(str(snapshot))}/model.safetensors"),
        (str(blob), f"{place(str(snapshot))}/deep/config.json"),
    ]
    (snapshot / "evil").symlink_to("/etc/passwd")
    assert refusal(snapshot).startswith(f"{snapshot}/evil is a link out of {repository}, and a container is shown only")


@pytest.mark.parametrize("target", ["/etc/passwd", "../elsewhere", "deep/../../elsewhere"])
def test_a_link_that_leaves_a_directory_is_refused(target: str, tmp_path: Path) -> None:
    """Whoever made the directory would decide what is shown; links within it are harmless."""
    folder = made(tmp_path / "folder" / "deep" / "w.pth").parents[1]
    (folder / "alias").symlink_to("deep/w.pth")
    assert given(folder) == [(str(folder), place(str(folder)))]
    (folder / "out").symlink_to(target)
    assert refusal(folder) == (
        f"{folder}/out is a link out of {folder}, and a container is shown only what is in it: put a copy of {target} "
        "in its place"
    )


def test_what_the_user_names_is_followed_if_it_is_a_link_and_left_to_the_worker_if_it_does_not_exist(
    tmp_path: Path,
) -> None:
    """The target of a link is seen under its name; the worker knows what it was asked for."""
    real, link = made(tmp_path / "real.pth"), tmp_path / "w.pth"
    link.symlink_to(real)
    assert given(link) == [(str(real), place(str(link)))]
    assert given(tmp_path / "nothing") == []
    reason = refusal(made(tmp_path / "file") / "below").partition("file/")[2]
    assert reason == "below cannot be shown to a container: Not a directory; name another file"


def test_a_socket_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it is named: whoever is on its other end takes orders from what runs in the container."""
    monkeypatch.chdir(tmp_path)  # the path of a socket may have 107 characters
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("docker.sock")
        path = tmp_path / "docker.sock"
        path.chmod(0o666)
        assert refusal(path) == f"{path} is neither a file nor a directory, so it cannot be shown to a container"


def test_a_file_that_the_user_of_containers_cannot_read_is_refused(tmp_path: Path) -> None:
    """By its own mode, the mode of a directory, or that of a file in it; hidden files are not looked at."""
    single, folder = made(tmp_path / "my w.pth"), made(tmp_path / "folder" / "a" / "w.pth").parents[1]
    made(folder / ".hidden").chmod(0o600)
    for path in (single, folder / "a" / "w.pth", folder / "a", folder):
        named = folder if folder in path.parents else path
        assert len(given(named)) == 1
        mode = path.stat().st_mode
        path.chmod(mode & 0o700)
        command = f"chmod a+r '{named}'" if named == single else f"chmod -R a+rX {named}"
        assert refusal(named) == (
            f"{path} cannot be read in a container, which runs as user 1000: run '{command}' (the directories above it "
            "may stay closed)"
        )
        path.chmod(mode)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_user_of_containers_may_read_its_own_files(tmp_path: Path) -> None:
    """The first user of a machine often has the same number."""
    path = made(tmp_path / "w.pth")
    for owner, group, mode in ((USER, 0, 0o600), (0, USER, 0o640)):
        os.chown(path, owner, group)
        path.chmod(mode)
        assert len(given(path)) == 1


def test_a_path_that_an_option_cannot_express_is_refused(tmp_path: Path) -> None:
    """``--mount`` separates its parts by commas."""
    for name in ("a,b.jpg", 'a"b.jpg', "a\nb.jpg"):
        assert refusal(made(tmp_path / name)).endswith("has a comma, a quotation mark or a line break; rename it")
