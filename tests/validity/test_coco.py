"""COCO files in their usual layouts, and whatever in them does not fit the pictures or the task."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as run_lengths
from validity.toys import annotation, cut

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.validity import DataNote, DataNoteKind, ValidityRequest
from modelzoo.validity import coco, picture_sets

CATEGORIES = {1: (1, "person"), 2: (3, "airplane")}
WIDTH, HEIGHT = 40, 30
NAMES = [f"{number:04d}.png" for number in range(1, 4)]
MASK = np.zeros((HEIGHT, WIDTH), dtype="uint8", order="F")
MASK[2:8, 3:9] = 1


def dataset() -> dict[str, Any]:
    """Three pictures with two objects each, of which one is a crowd."""
    annotations = []
    for image in range(1, 4):
        for category, (x, y, side) in ((1, (3, 2, 6)), (3, (10, 5, 20))):
            annotations.append(annotation(len(annotations) + 1, image, category, x, y, side, side))
    counts = [len(list(run)) for run in np.split(MASK.T.ravel(), np.flatnonzero(np.diff(MASK.T.ravel())) + 1)]
    annotations[0] |= {"iscrowd": 1, "segmentation": {"size": [HEIGHT, WIDTH], "counts": counts}}
    images = [
        {"id": number + 1, "file_name": name, "width": WIDTH, "height": HEIGHT} for number, name in enumerate(NAMES)
    ]
    return {"images": images, "annotations": annotations,
            "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "airplane"}]}  # fmt: skip


def stored(folder: Path, content: Any, inside: str = "val2017") -> Path:
    """Write the pictures and the file, and return the file."""
    (folder / inside).mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        Image.new("RGB", (WIDTH, HEIGHT)).save(folder / inside / name)
    path = folder / "instances_val2017.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


Read = tuple[list[Any], Any, list[DataNote]]


def read(data: Path, masks: bool = True, **request: Any) -> Read:
    return coco.read(ValidityRequest(data=str(data), **request), CATEGORIES, masks)


@pytest.mark.parametrize(
    ("inside", "beside"),
    [("val2017", ""), ("images/val2017", ""), ("images", ""), (".", ""), ("val2017", "annotations")],
)
def test_the_picture_folder_is_found_where_people_keep_it(tmp_path: Path, inside: str, beside: str) -> None:
    """Beside the file, by the split's name or under images, or as COCO's own; the directory itself may be given."""
    file = stored(tmp_path, dataset(), inside=inside)
    (tmp_path / beside).mkdir(exist_ok=True)
    file.rename(tmp_path / beside / file.name)
    items, annotations, notes = read(tmp_path)
    assert [picture_sets.read(item.source).size for item in items] == [(WIDTH, HEIGHT)] * 3
    assert (annotations.category_of, annotations.masks, notes) == ({1: 1, 2: 3}, True, [])


def test_a_directory_of_pictures_has_no_annotations(tmp_path: Path) -> None:
    """Agreement only; an empty directory is refused."""
    with pytest.raises(InputError, match="holds no images"):
        read(tmp_path)
    Image.new("RGB", (50, 40)).save(tmp_path / "a.png")
    items, annotations, _ = read(tmp_path)
    assert (len(items), annotations) == (1, None)


Change = Callable[[dict[str, Any]], Any]


def each(kind: str, **values: Any) -> Change:
    """Set fields of every entry of a kind; a function is called with the entry's number, ``...`` removes the field."""

    def change(content: dict[str, Any]) -> None:
        for number, entry in enumerate(content[kind]):
            for name, value in values.items():
                if value is ...:
                    del entry[name]
                else:
                    entry[name] = value(number) if callable(value) else value

    return change


def one(kind: str, **values: Any) -> Change:
    """Set fields of the second entry of a kind."""
    return lambda content: each(kind, **values)({kind: content[kind][1:2]})


def whole(change: Callable[[bytes], bytes]) -> Change:
    return lambda content: change(json.dumps(content, ensure_ascii=False).encode())


COMPRESSED = run_lengths.encode(MASK)["counts"].decode()
SAME = "judged the same"
MUTATIONS: dict[str, tuple[Change, str]] = {
    # ids
    "annotation ids are 0": (each("annotations", id=0), SAME),
    "annotation ids begin at 0": (each("annotations", id=lambda number: number), SAME),
    "annotation ids restart in each picture": (each("annotations", id=lambda number: number % 2), SAME),
    "annotation ids are missing": (each("annotations", id=...), SAME),
    "image ids repeat": (one("images", id=1), "the image id 1 occurs 2 times"),
    "image ids are text": (each("images", id=str), "names image 1, which is not listed"),
    "image ids are of two kinds": (one("images", id="2"), "are numbers, those of others are text"),
    "an unknown image": (one("annotations", image_id=99), r"annotations\[1\] names image 99"),
    "an unknown category": (one("annotations", category_id=99), r"annotations\[1\] names category 99"),
    "category ids repeat": (one("categories", id=1), "the category id 1 occurs 2 times"),
    "category names repeat": (one("categories", name="Person"), "the category name 'person' occurs 2 times"),
    "a file is named twice": (one("images", file_name=NAMES[0]), "the file_name '0001.png' occurs 2 times"),
    # types
    "a box of three numbers": (one("annotations", bbox=[1, 2, 3]), r"array` of length 4 - at `\$.annotations\[1\]"),
    "iscrowd is a truth value": (each("annotations", iscrowd=lambda number: number == 0), SAME),
    "areas are missing": (each("annotations", area=...), SAME),
    "no images": (lambda content: content.update(images=[]), "names no images"),
    "no annotations": (lambda content: content.update(annotations=[]), "none of the 3 pictures has an object"),
    "other categories": (each("categories", name=lambda number: f"whale {number}"), "in common"),
    # sizes
    "sizes are missing": (each("images", width=..., height=...), SAME),
    "heights are null": (each("images", height=None), SAME),
    "sizes are half": (each("images", width=WIDTH // 2, height=HEIGHT // 2), "has 40×30 pixels, but 20×15 in"),
    "width and height are exchanged": (one("images", width=HEIGHT, height=WIDTH), "has 40×30 pixels, but 30×40 in"),
    "boxes are two corners": (each("annotations", bbox=[10, 5, 30, 29]), "leaves the picture of 40×30"),
    "boxes are fractions": (each("annotations", bbox=[0.1, 0.1, 0.5, 0.5]), "are fractions"),
    "a box has a negative size": (one("annotations", bbox=[30, 25, -10, -10]), "a box of negative size"),
    # masks
    "a polygon is flat": (one("annotations", segmentation=[1, 1, 5, 1, 5, 5]), "neither polygons nor run lengths"),
    "a polygon is odd": (one("annotations", segmentation=[[1, 1, 5, 1, 5, 5, 1]]), "an odd number of coordinates"),
    "run lengths of another size": (
        one("annotations", segmentation={"size": [WIDTH, HEIGHT], "counts": [WIDTH * HEIGHT]}),
        "run lengths for another picture",
    ),
    "run lengths end early": (
        one("annotations", segmentation={"size": [HEIGHT, WIDTH], "counts": COMPRESSED[:-2]}),
        "run lengths for another picture",
    ),
    # encoding, truncation, layout
    "a byte order mark": (whole(lambda text: b"\xef\xbb\xbf" + text), SAME),
    "lines end as in DOS": (whole(lambda text: text.replace(b", ", b",\r\n")), SAME),
    "UTF-16": (whole(lambda text: text.decode().encode("utf-16")), "not UTF-8"),
    "cut off": (whole(lambda text: text[:-40]), "is not JSON"),
    "a list": (whole(lambda text: b"[]"), "Expected `object`, got `array`"),
    "empty": (whole(lambda text: b""), "holds no text"),
    "too deep": (whole(lambda text: b"[" * 100_000), "is not "),
    "a folder of pictures moved": (each("images", file_name=lambda number: f"old/{NAMES[number]}"), "no such image"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_inconsistent_file_is_refused_in_one_line_or_judged_the_same(tmp_path: Path, name: str) -> None:
    """Before the first batch: what pycocotools is given, and the pictures, are what they were, or there is an error."""
    change, expected = MUTATIONS[name]
    original = read(stored(tmp_path / "a", dataset()))
    content = dataset()
    changed = change(content)
    path = stored(tmp_path / "b", changed if isinstance(changed, bytes) else content)
    if expected == SAME:
        items, annotations, notes = read(path)
        assert annotations.dataset == original[1].dataset
        assert [item.name for item in items] == [item.name for item in original[0]]
        assert not notes
    else:
        with pytest.raises(InputError, match=expected) as caught:
            read(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("segmentation", [[], None, ..., [[1, 1, 5, 5]]], ids=["empty", "null", "missing", "a line"])
def test_objects_without_masks_are_judged_by_their_boxes(tmp_path: Path, segmentation: Any) -> None:
    """A note counts them, but not compressed run lengths; a model without masks needs none, and is not told."""
    content = dataset()
    one("annotations", segmentation={"size": [HEIGHT, WIDTH], "counts": COMPRESSED})(content)
    _, annotations, notes = read(stored(tmp_path, content))
    assert run_lengths.area(annotations.dataset["annotations"][1]["segmentation"]) == MASK.sum()
    assert (annotations.masks, notes) == (True, [])
    one("annotations", segmentation=segmentation)(content)
    _, annotations, notes = read(stored(tmp_path, content))
    assert (annotations.masks, notes) == (False, [DataNote(DataNoteKind.NO_MASKS, 1)])
    assert len(annotations.dataset["annotations"]) == 6
    assert read(tmp_path, masks=False)[2] == []


def oriented(path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (WIDTH, HEIGHT)).save(path, exif=exif)


def test_pictures_are_turned_as_the_sizes_in_the_file_are(tmp_path: Path) -> None:
    """Boxes of the upright picture need it upright; half turns, which sizes do not show, follow the others."""
    content = dataset()
    each("annotations", bbox=[3, 2, 6, 6])(content)
    path = stored(tmp_path, content)
    second, third = (tmp_path / "val2017" / name for name in NAMES[1:])
    oriented(third, 3)
    items, _, notes = read(path, masks=False)
    assert not items[2].source.upright
    assert notes == [DataNote(DataNoteKind.UNKNOWN_ORIENTATION, 1, (NAMES[2],))]
    oriented(second, 6)
    one("images", width=HEIGHT, height=WIDTH)(content)
    path.write_text(json.dumps(content))
    items, _, notes = read(path, masks=False)
    assert picture_sets.read(items[1].source).image.size == (HEIGHT, WIDTH)
    assert items[2].source.upright
    assert notes == [DataNote(DataNoteKind.UPRIGHT, 2, (NAMES[1], NAMES[2]))]
    one("images", width=..., height=...)(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"0002.png is turned by its EXIF orientation, and its size .* is missing"):
        read(path, masks=False)


def test_categories_are_known_by_other_names_and_others_are_listed(tmp_path: Path) -> None:
    """Synonyms map, saying so; objects of unknown categories are counted, and judged in neither model."""
    content = dataset()
    content["categories"][1]["name"] = "Aero_plane"
    content["categories"].append({"id": 9, "name": "whale"})
    one("annotations", category_id=9)(content)
    _, annotations, notes = read(stored(tmp_path, content))
    assert annotations.category_of == {1: 1, 2: 3}
    assert notes == [
        DataNote(DataNoteKind.SYNONYMS, 1, ("Aero_plane is airplane",)),
        DataNote(DataNoteKind.UNKNOWN_CATEGORIES, 1, ("whale (1)",)),
    ]
    assert len(annotations.dataset["annotations"]) == 5
    assert [category["id"] for category in annotations.dataset["categories"]] == [1, 3]


def test_bad_pictures_are_found_first_and_left_out_on_request(tmp_path: Path) -> None:
    """Missing, truncated, and of another size: counted, with the first one's fault."""
    path = stored(tmp_path, dataset())
    cut(tmp_path / "val2017" / NAMES[2])
    (tmp_path / "val2017" / NAMES[0]).unlink()
    with pytest.raises(InputError, match="2 of 3 pictures cannot be judged: no such image: .*0001.png; .* --skip-bad"):
        read(path)
    items, annotations, (note,) = read(path, skip_bad=True)
    assert [item.name for item in items] == [NAMES[1]]
    assert [image["id"] for image in annotations.dataset["images"]] == [2]
    assert replace(note, names=()) == DataNote(DataNoteKind.SKIPPED, 2)
    (tmp_path / "val2017" / NAMES[1]).unlink()
    with pytest.raises(InputError, match="3 of 3 pictures cannot be judged"):
        read(path, skip_bad=True)
