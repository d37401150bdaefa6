"""Pictures of a data set: the usual layouts of labelled ones, whatever does not fit the model, crops, and samples."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from validity.toys import cut

from modelzoo.errors import InputError, UsageError
from modelzoo.records.exhibits import PictureSource
from modelzoo.records.partial import PictureNote
from modelzoo.records.validity import DataNote, DataNoteKind, ValidityRequest
from modelzoo.validity import picture_sets
from modelzoo.validity.picture_sets import PictureItem, builtin_crops, reduced, sampled


def test_builtin_crops_are_different_pictures_without_labels() -> None:
    """Named by number; each is read again from a record that says where it is."""
    items = builtin_crops(4, 3, 0.5)
    assert items == builtin_crops(4, 3, 0.5) != builtin_crops(4, 4, 0.5)
    assert [(item.name, item.label) for item in items] == [(f"crop_0{number}", None) for number in range(4)]
    assert len({picture_sets.read(item.source).image.tobytes() for item in items}) == 4


def test_a_source_crops_mirrors_and_reduces(tmp_path: Path) -> None:
    """In this order; the size is that before the reduction, which is noted."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype="uint8")
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    picture = picture_sets.read(PictureSource(str(path), crop=(10, 20, 50, 40), mirrored=True))
    assert np.array_equal(np.asarray(picture.image), pixels[20:40, 10:50][:, ::-1])
    (item,) = reduced([PictureItem("a", PictureSource(str(path)))], 40)
    small = picture_sets.read(item.source)
    assert (small.size, small.image.size) == ((80, 60), (40, 30))
    assert small.notes == (PictureNote.REDUCED,)


def test_samples_are_reproducible_and_in_order() -> None:
    """The same seed draws the same items; a limit over the size takes all."""
    items = list(range(1000))
    drawn = list(sampled(items, 50, 7))
    assert drawn == sampled(items, 50, 7) == sorted(drawn)
    assert len(set(drawn)) == 50
    assert drawn != sampled(items, 50, 8)
    assert sampled(items, 5000, 7) == items


NAMES = ["tench", "great white shark", "crane", "crane"]
IDS = ["n01440764", "n01484850", "n02012849", "n03126707"]
THOUSAND = [f"class {number}" for number in range(1000)]


def put(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20)).save(root / name)
    return root


def read(root: Path, names: list[str] = NAMES, ids: Any = IDS, **request: Any) -> tuple[list[int | None], Any]:
    """The labels, which all pictures have or none, and the notes."""
    items, notes = picture_sets.read_classes(ValidityRequest(data=str(root), **request), names, ids)
    found = [item.label for item in items]
    assert None not in found or set(found) == {None}
    return found, notes


CRANES = ("c0 is tench", "c1 is great white shark", "c10 is crane", "c2 is crane")
SORTED = [DataNote(DataNoteKind.SORTED_CLASSES, 4, CRANES)]
NUMBERED = [DataNote(DataNoteKind.NUMBERED_CLASSES, 3, ("1 is class 1", "10 is class 10", "2 is class 2"))]
NO_CLASSES = [DataNote(DataNoteKind.NO_CLASSES, 1)]


@pytest.mark.parametrize(
    ("files", "names", "ids", "expected", "notes"),
    [
        # ImageNet's own layout, also under a split's directory.
        (["val/n01440764/a.jpg", "val/n03126707/b.JPEG"], NAMES, IDS, [0, 3], []),
        # Names are compared without case and punctuation, in any script.
        (["Tench/a.jpg", "great_white-shark/b.jpg"], NAMES, IDS, [0, 1], []),
        (["狗/a.jpg", "猫/b.jpg"], ["猫", "狗"], None, [1, 0], []),
        # As many directories as classes, as torchvision's ImageFolder counts.
        (["c0/a.jpg", "c1/a.jpg", "c10/a.jpg", "c2/a.jpg"], NAMES, IDS, [0, 1, 2, 3], SORTED),
        # Indices of a thousand classes, not in the order of their text, in which 10 follows 1.
        (["1/a.jpg", "10/a.jpg", "2/a.jpg"], THOUSAND, None, [1, 10, 2], NUMBERED),
        # WordNet ids at the beginning or at the end of a file's name.
        (["n01484850_shark.JPEG", "ILSVRC2012_val_00000001_n01440764.jpg"], NAMES, IDS, [0, 1], []),
        # Without classes there is agreement only, which is said if there are directories.
        (["a.jpg", "b.png", ".hidden.jpg"], NAMES, IDS, [None, None], []),
        (["a.jpg", "holidays/c.jpg"], NAMES, IDS, [None, None], NO_CLASSES),
    ],
)
def test_classes_are_known_by_the_usual_layouts(
    files: list[str], names: list[str], ids: Any, expected: list[int | None], notes: list[DataNote], tmp_path: Path
) -> None:
    """A mapping that is not in the names is said."""
    assert read(put(tmp_path, *files), names, ids) == (expected, notes)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("val.txt", "ILSVRC2012_val_00000001.JPEG 3\nval/ILSVRC2012_val_00000002.JPEG 0\n"),
        ("val.txt", "\ufeffILSVRC2012_val_00000001.JPEG n03126707\r\nILSVRC2012_val_00000002.JPEG,n01440764\r\n"),
        (
            "LOC_val_solution.csv",
            "ImageId,PredictionString\nILSVRC2012_val_00000001,n03126707 1 2 3 4 n03126707 5 6 7 8 \n"
            "ILSVRC2012_val_00000002,n01440764 1 2 3 4 \n",
        ),
    ],
)
@pytest.mark.parametrize("place", ["val", "."])
def test_classes_by_a_file_beside_the_pictures(tmp_path: Path, name: str, content: str, place: str) -> None:
    """Or in the directory above; a picture that it does not name is refused."""
    put(tmp_path / "val", "ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_val_00000002.JPEG")
    (tmp_path / place / name).write_text(content, encoding="utf-8", newline="")
    note = DataNote(DataNoteKind.LABEL_FILE, 2, (str(tmp_path / place / name),))
    assert read(tmp_path / "val") == ([3, 0], [note])
    put(tmp_path / "val", "ILSVRC2012_val_00000003.JPEG")
    with pytest.raises(InputError, match="1 of 3 pictures cannot be judged: .*'ILSVRC2012_val_00000003' is not one of"):
        read(tmp_path / "val")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("val.txt", "a.jpg 4", "class 4 of a.jpg is not one of this model's 4, from 0"),
        ("val.txt", "a.jpg n99999999", "class n99999999 of a.jpg is not one of"),
        ("val.txt", "a.jpg 1\na.jpg 2", "a.jpg has two classes"),
        ("ILSVRC2012_validation_ground_truth.txt", "490\n", "numbers classes by the ILSVRC development kit"),
    ],
)
def test_label_files_that_do_not_fit_are_refused(tmp_path: Path, name: str, content: str, says: str) -> None:
    """Whatever numbers classes otherwise than the model does is no label."""
    (put(tmp_path, "a.jpg") / name).write_text(content)
    with pytest.raises(InputError, match=says):
        read(tmp_path)


def rename(name: str, other: str) -> Callable[[Path], Any]:
    return lambda root: (root / name).rename(root / other)


def linked(root: Path) -> None:
    """Every class is a link, one directory holds a link to the whole, and one to itself."""
    shutil.move(root / "n01484850", root.parent / "elsewhere")
    (root / "n01484850").symlink_to(root.parent / "elsewhere")
    (root / "n01440764" / "loop").symlink_to(root)
    (root / "n01440764" / "self").symlink_to(root / "n01440764" / "self")


SAME = "judged the same"
MUTATIONS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a hidden directory": (lambda root: put(root, ".ipynb_checkpoints/a-checkpoint.jpg"), SAME),
    "a file of another kind": (lambda root: (root / "n01440764" / "list.csv").write_text("a"), SAME),
    "links": (linked, SAME),
    "an empty directory": (lambda root: (root / "n02012849").mkdir(), SAME),
    "an unknown class": (rename("n01440764", "n99999999"), "'n99999999' is not one of this model's 4 classes"),
    "a directory without a class": (rename("n01440764", "other"), "'other' is not one of this model's 4 classes"),
    "a picture beside the classes": (lambda root: put(root, "stray.jpg"), "'stray.jpg' is not one of"),
    "truncated": (
        lambda root: cut(root / "n01440764" / "a.jpg"),
        "1 of 3 pictures cannot be judged: .*a.jpg .*truncated",
    ),
    "a dangling link": (
        lambda root: (root / "n01440764" / "c.jpg").symlink_to(root / "gone.jpg"),
        "no such image: .*c.jpg",
    ),
    "no pictures": (lambda root: [each.unlink() for each in root.glob("*/*.jpg")], "holds no images"),
    "nothing": (shutil.rmtree, "no such file or directory"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_inconsistent_folder_is_refused_in_one_line_or_judged_the_same(tmp_path: Path, name: str) -> None:
    """Before the first batch, and never as pictures without classes."""
    change, expected = MUTATIONS[name]
    change(put(tmp_path / "set", "n01440764/a.jpg", "n01440764/b.jpg", "n01484850/c.jpg"))
    if expected == SAME:
        assert read(tmp_path / "set") == ([0, 0, 1], [])
    else:
        with pytest.raises(InputError, match=expected) as caught:
            read(tmp_path / "set")
        assert "\n" not in str(caught.value)


def test_bad_pictures_are_left_out_on_request(tmp_path: Path) -> None:
    """Those without a class, of which one is ambiguous, and those that cannot be read; each kind is counted."""
    put(tmp_path, "tench/a.jpg", "crane/b.jpg", "tench/c.jpg")
    (tmp_path / "tench" / "c.jpg").write_text("text")
    with pytest.raises(InputError, match="1 of 3 pictures cannot be judged: .*'crane' is not one of .* --skip-bad"):
        read(tmp_path)
    found, notes = read(tmp_path, skip_bad=True)
    assert found == [0]
    assert [(note.kind, note.count) for note in notes] == [(DataNoteKind.SKIPPED, 1)] * 2


def test_labels_that_would_be_off_by_one_are_refused(tmp_path: Path) -> None:
    """A background class before the others, and directories numbered from 1, also with --skip-bad."""
    with pytest.raises(UsageError, match="5 labels but 4 WordNet ids"):
        read(put(tmp_path / "ids", "n01440764/a.jpg"), ["background", *NAMES])
    with pytest.raises(InputError, match="class indices from 0 to 999, not 1000"):
        read(put(tmp_path / "numbers", "1/a.jpg", "1000/a.jpg"), THOUSAND, None, skip_bad=True)


def test_the_thousand_wordnet_ids_and_their_groups_are_in_the_models_order() -> None:
    """Sorted, tench first, toilet tissue last; there are 118 breeds of dogs, and every class has a group."""
    ids = picture_sets.wnids()
    assert (len(set(ids)), list(ids)) == (1000, sorted(ids))
    assert (ids[0], ids[652], ids[999]) == ("n01440764", "n03763968", "n15075141")
    groups = [picture_sets.class_group(label) for label in range(1000)]
    assert (groups.count("dogs"), len(set(groups))) == (118, 12)
    assert [groups[label] for label in (0, 397, 7, 146, 281, 388, 924, 984)] == [
        *("fish", "fish", "birds", "birds", "cats", "other mammals", "food", "plants and fungi")
    ]
