"""COCO files in their usual layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from modelzoo.errors import InputError
from modelzoo.validity import coco

CATEGORIES = {1: (1, "person"), 2: (3, "car")}
RNG = np.random.default_rng(3)


def dataset(count: int = 6) -> dict[str, Any]:
    """Pictures of 200×200 with three boxes of different sizes each."""
    annotations = []
    for image in range(1, count + 1):
        for size, category in ((20, 1), (60, 3), (120, 1)):
            x, y = (float(v) for v in RNG.integers(0, 80, 2))
            box = [x, y, float(size), float(size)]
            polygon = [x, y, x + size, y, x + size, y + size, x, y + size]
            annotations.append(
                {"id": len(annotations) + 1, "image_id": image, "category_id": category, "bbox": box,
                 "area": float(size * size), "iscrowd": 0, "segmentation": [polygon]}
            )  # fmt: skip
    images = [{"id": i, "file_name": f"{i:04d}.jpg", "width": 200, "height": 200} for i in range(1, count + 1)]
    return {"images": images, "annotations": annotations,
            "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}]}  # fmt: skip


def stored(folder: Path, content: Any, pictures: int = 6, inside: str = "val2017") -> Path:
    (folder / inside).mkdir(parents=True, exist_ok=True)
    for number in range(1, pictures + 1):
        Image.new("RGB", (200, 200)).save(folder / inside / f"{number:04d}.jpg")
    path = folder / "instances_val2017.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_malformed_image_ids_are_refused(tmp_path: Path) -> None:
    """An id must be a number or text, because results are stored by it."""
    content = dataset()
    content["images"][0]["id"] = [1]
    with pytest.raises(InputError, match="the 'id' of 0001.jpg is neither a number nor text"):
        coco.read(stored(tmp_path, content), CATEGORIES)


@pytest.mark.parametrize("inside", ["val2017", "images/val2017", "images", "."])
def test_the_picture_folder_is_found_where_people_keep_it(tmp_path: Path, inside: str) -> None:
    """Beside the file, by the split's name or under images; the directory itself may be given."""
    stored(tmp_path, dataset(), inside=inside)
    items, annotations = coco.read(tmp_path, CATEGORIES)
    assert annotations is not None
    assert [item.read().size for item in items] == [(200, 200)] * 6
    assert annotations.category_of == {1: 1, 2: 3}


def test_annotations_in_their_own_directory(tmp_path: Path) -> None:
    """COCO's own layout: annotations/instances_val2017.json and val2017/."""
    stored(tmp_path, dataset())
    (tmp_path / "annotations").mkdir()
    (tmp_path / "instances_val2017.json").rename(tmp_path / "annotations" / "instances_val2017.json")
    assert len(coco.read(tmp_path, CATEGORIES)[0]) == 6


def test_missing_pictures_are_counted(tmp_path: Path) -> None:
    """The message says how many of how many, and the first."""
    path = stored(tmp_path, dataset(), pictures=4)
    with pytest.raises(InputError, match=r"names 6 images and 2 of them are missing in .*first: 0005.jpg"):
        coco.read(path, CATEGORIES)


def test_a_directory_of_pictures_has_no_annotations(tmp_path: Path) -> None:
    """Agreement only."""
    Image.new("RGB", (50, 40)).save(tmp_path / "a.png")
    items, annotations = coco.read(tmp_path, CATEGORIES)
    assert (len(items), annotations) == (1, None)


def broken(change: str) -> Any:
    content = dataset()
    if change == "list":
        return []
    if change == "images":
        del content["images"]
    elif change == "none":
        content["images"] = []
    elif change == "name":
        del content["images"][1]["file_name"]
    elif change == "box":
        content["annotations"][2]["bbox"] = [1, 2, 3]
    elif change == "picture":
        content["annotations"][2]["image_id"] = 99
    elif change == "category":
        content["annotations"][2]["category_id"] = 99
    elif change == "others":
        content["categories"] = [{"id": 1, "name": "whale"}, {"id": 3, "name": "submarine"}]
    return content


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("list", "holds a list"),
        ("images", "no list 'images'"),
        ("none", "names no images"),
        ("name", r"images\[1\] has no 'file_name'"),
        ("box", r"annotations\[2\]'s 'bbox' is not four numbers"),
        ("picture", "names image 99"),
        ("category", "names category 99"),
        ("others", "no category in common"),
    ],
)
def test_files_of_another_shape_are_refused_in_one_line(tmp_path: Path, change: str, says: str) -> None:
    """Each says what is wrong and where."""
    path = stored(tmp_path, broken(change))
    with pytest.raises(InputError, match=says) as caught:
        coco.read(path, CATEGORIES)
    assert "\n" not in str(caught.value)


def test_text_and_an_empty_directory_are_refused(tmp_path: Path) -> None:
    """Neither holds a set."""
    with pytest.raises(InputError, match="is not JSON"):
        coco.read(stored(tmp_path / "a", "{not json"), CATEGORIES)
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match="neither"):
        coco.read(tmp_path / "b", CATEGORIES)
