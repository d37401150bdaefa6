"""The usual layouts of labelled pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from modelzoo.errors import InputError
from modelzoo.validity import picture_sets

NAMES = ["tench", "great white shark", "crane", "crane"]
IDS = ["n01440764", "n01484850", "n02012849", "n03126707"]


def put(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20)).save(root / name)
    return root


def labels(root: Path) -> tuple[list[int | None], bool]:
    labelled = [item.label for item in picture_sets.read_classes(root, NAMES, IDS)]
    assert None not in labelled or set(labelled) == {None}
    return labelled, None not in labelled


def test_directories_named_by_wordnet_id(tmp_path: Path) -> None:
    """ImageNet's own layout, also under a split's directory."""
    put(tmp_path, "val/n01440764/a.jpg", "val/n03126707/b.JPEG")
    assert labels(tmp_path) == ([0, 3], True)


def test_directories_named_by_class(tmp_path: Path) -> None:
    """Names are compared without case and punctuation."""
    put(tmp_path, "Tench/a.jpg", "great_white-shark/b.jpg")
    labelled, known = labels(tmp_path)
    assert known
    assert sorted(x for x in labelled if x is not None) == [0, 1]


def test_an_ambiguous_name_is_no_label(tmp_path: Path) -> None:
    """ImageNet has two classes named crane."""
    put(tmp_path, "crane/a.jpg", "tench/b.jpg")
    assert labels(tmp_path)[1] is False


def test_one_directory_for_every_class_in_sorted_order(tmp_path: Path) -> None:
    """As torchvision's ImageFolder counts."""
    put(tmp_path, "c0/a.jpg", "c1/a.jpg", "c2/a.jpg", "c3/a.jpg")
    assert labels(tmp_path) == ([0, 1, 2, 3], True)


def test_wordnet_ids_in_file_names(tmp_path: Path) -> None:
    """At the beginning or at the end of the name."""
    put(tmp_path, "n01484850_shark.JPEG", "ILSVRC2012_val_00000001_n01440764.jpg")
    assert labels(tmp_path) == ([0, 1], True)


def test_pictures_without_classes_are_taken_without_labels(tmp_path: Path) -> None:
    """Agreement only; hidden files and others are left out."""
    put(tmp_path, "a.jpg", "b.png", ".hidden.jpg")
    (tmp_path / "notes.txt").write_text("x")
    assert labels(tmp_path) == ([None, None], False)


def test_an_unknown_class_an_empty_directory_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    """Each in one line."""
    with pytest.raises(InputError, match="n99999999 is not one of this model's 4"):
        labels(put(tmp_path / "a", "n99999999/a.jpg", "n01440764/b.jpg"))
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match="holds no images"):
        labels(tmp_path / "b")
    with pytest.raises(InputError, match="no such file or directory"):
        labels(tmp_path / "c")


def test_the_thousand_wordnet_ids_are_in_the_models_order() -> None:
    """Spot checks of the list: sorted, unique, tench first, toilet tissue last."""
    ids = picture_sets.wnids()
    assert len(set(ids)) == 1000
    assert list(ids) == sorted(ids)
    assert (ids[0], ids[652], ids[999]) == ("n01440764", "n03763968", "n15075141")


def test_groups_hold_the_classes_that_belong_together() -> None:
    """Spot checks by the index of a class; there are 118 breeds of dogs, and every class has a group."""
    known = {
        "fish": (0, 6, 389, 397),
        "birds": (7, 24, 80, 100, 127, 146),
        "amphibians and reptiles": (25, 68),
        "invertebrates": (69, 79, 107, 126, 300, 329),
        "dogs": (151, 268),
        "cats": (281, 293),
        "other mammals": (101, 147, 150, 269, 280, 294, 299, 330, 388),
        "objects": (398, 923, 999),
        "food": (924, 969),
        "landscapes": (970, 980),
        "people": (981, 983),
        "plants and fungi": (984, 998),
    }
    for name, labels in known.items():
        assert {picture_sets.class_group(label) for label in labels} == {name}
    assert sum(picture_sets.class_group(label) == "dogs" for label in range(1000)) == 118
    assert {picture_sets.class_group(label) for label in range(1000)} == set(known)
