"""Inputs: different pictures and texts, the user's own, and errors for those that cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from places import ROOT

from modelzoo.errors import InputError
from modelzoo.validity import picture_sets
from modelzoo.workload import InputRequest, discovery, inputs
from modelzoo.workload.declaration import inputs_digest

TIMED_NAMES = ["grace_hopper.jpg", "grace_hopper.jpg[48,53,458x537]", "grace_hopper.jpg[130,124,314x368]"]
JUDGED = [("crop_00", (512, 600)), ("crop_01", (364, 426)), ("crop_02", (360, 421))]
GREY = [[68, 115, 120, 74, 122, 108, 32, 52, 28], [111, 105, 53, 124, 129, 67, 54, 77, 31]]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A small picture with a gradient, so that every crop of it differs."""
    path = tmp_path / "gradient.png"
    image = Image.new("RGB", (64, 48))
    image.putdata([(4 * x, 5 * y, x + y) for y in range(48) for x in range(64)])
    image.save(path)
    return path


def test_the_photograph_is_found_without_importing_matplotlib() -> None:
    """Every process that times a picture needs it, and the import takes longer than reading it."""
    code = "import sys; from modelzoo.workload import photograph; photograph(); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(1, 12), seed=st.integers(0, 2**63 - 1))
@example(count=12, seed=62947)  # draws the same crop twice
def test_a_batch_never_repeats_a_picture(count: int, seed: int, picture: Path) -> None:
    """A batch of any size and seed holds different pictures with different names."""
    chosen = inputs.pictures(count, seed, picture)
    assert len(chosen) == count
    assert len({name for _, name in chosen}) == count
    assert len({image.tobytes() for image, _ in chosen}) == count
    assert chosen[0][1] == picture.name


def test_a_picture_with_few_crops_fills_a_large_batch(tmp_path: Path) -> None:
    """Ten pixels have fewer crops than that: some repeat, and the batch is complete."""
    Image.new("RGB", (10, 10)).save(tmp_path / "small.png")
    assert len(inputs.pictures(300, 0, tmp_path / "small.png")) == 300


def test_a_folder_gives_its_pictures_in_order_and_crops_when_they_are_few(picture: Path, tmp_path: Path) -> None:
    """The user's pictures come first, sorted by name; other files and directories are ignored."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "notes.txt").write_text("no picture")
    (folder / "inner").mkdir()
    (folder / "inner" / "0.png").write_bytes(picture.read_bytes())
    for name in ("b.png", "a.PNG"):
        (folder / name).write_bytes(picture.read_bytes())
    names = [name for _, name in inputs.pictures(3, 0, folder)]
    assert names[:2] == ["a.PNG", "b.png"]
    assert names[2].startswith("a.PNG[")
    assert [name for _, name in inputs.pictures(1, 0, folder)] == ["a.PNG"]


def test_the_recorded_crops_are_these_pixels() -> None:
    """Stored results name the crops that were timed and judged, so a name must always mean the same pixels."""
    timed = inputs.pictures(3, 0, None)
    assert [name for _, name in timed] == TIMED_NAMES
    judged = [picture_sets.read(crop.source) for crop in picture_sets.builtin_crops(3, 0, 0.5)]
    assert [crop.size for crop in judged] == [size for _, size in JUDGED]
    # The decoder may round pixels by one unit, so that a thumbnail is compared and not a checksum.
    grey = [list(picture.convert("L").resize((3, 3)).tobytes()) for picture in [timed[1][0], judged[1].image]]
    assert np.abs(np.array(grey) - np.array(GREY)).max() <= 2


def test_a_directory_without_pictures_is_named(tmp_path: Path) -> None:
    """What is wrong with a picture is in test_images.py."""
    with pytest.raises(InputError, match=r"no images in .* \(looked for .jpg"):
        inputs.pictures(1, 0, tmp_path)


def test_bert_fills_every_sequence_with_its_own_text(tmp_path: Path) -> None:
    """Three different rows of full length without padding, also from a text of one line."""
    work = discovery.load_workload(discovery.find_workload("bert"))
    own = tmp_path / "own.txt"
    own.write_text("The bridge was built by Anna in 1871. " * 3)
    for path in (None, own):
        made = work.inputs(InputRequest(3, 0, path, work.option_values({"sequence": 64})))
        ids, mask, segments = made.args
        assert ids.shape == mask.shape == segments.shape == (3, 64)
        assert mask.all(), "a padded sequence would cost what no question costs"
        assert len({tuple(row) for row in ids.tolist()}) == 3
        assert set(segments.flatten().tolist()) == {0, 1}
        assert len(set(made.items)) == 3


def test_bert_has_the_same_inputs_in_every_process() -> None:
    """Also without a checkpoint, whose tokenizer would decide the ids; results are compared by the inputs' digest."""
    work = discovery.load_workload(discovery.find_workload("bert"))
    digest = inputs_digest(work.inputs(InputRequest(2, 0, None, work.option_values({"sequence": 64}))).args)
    assert digest == "cf60b57b0f1e43c610cef98b2bfc45310350c584599655339dac4aa203ffcee3"


@pytest.mark.parametrize("own", [False, True])
def test_files_decode_to_the_pictures_of_a_batch(own: bool, picture: Path) -> None:
    """The bytes of the files and the crops give the same pixels and names as the decoded batch."""
    path = picture if own else None
    expected = inputs.pictures(4, 5, path)
    files = inputs.picture_files(4, 5, path)
    assert [file.name for file in files] == [name for _, name in expected]
    assert [file.decode().tobytes() for file in files] == [image.tobytes() for image, _ in expected]
    assert {len(file.data) for file in files} == {files[0].path.stat().st_size}


def test_own_pictures_are_turned_upright(tmp_path: Path) -> None:
    """A phone's upright picture stays upright: width and height are those that a person sees."""
    image = Image.new("RGB", (40, 20))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    ((picture, _),) = inputs.pictures(1, 0, tmp_path / "turned.jpg")
    assert picture.size == (20, 40)


def test_text_that_cannot_be_read_is_named(tmp_path: Path, picture: Path) -> None:
    """A missing file, a directory, a picture and an empty file are errors."""
    (tmp_path / "empty.txt").write_text(" \n")
    for path, message in (
        (tmp_path / "none.txt", "cannot read .*: No such file"),
        (tmp_path, "cannot read .*: Is a directory"),
        (picture, "is not UTF-8 text"),
        (tmp_path / "empty.txt", "holds no text"),
    ):
        with pytest.raises(InputError, match=message):
            inputs.read_text(path)
