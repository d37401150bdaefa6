"""COCO data sets: an ``instances_*.json`` with its picture folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Optional, Union

import msgspec

from modelzoo.errors import InputError
from modelzoo.records.exhibits import PictureSource
from modelzoo.validity.picture_sets import PictureItem
from modelzoo.workload.inputs import find_pictures

REQUIRED_FIELDS = {
    "images": ("id", "file_name"),
    "categories": ("id", "name"),
    "annotations": ("id", "image_id", "category_id", "bbox"),
}
ImageId = Union[int, str]


class Annotations(msgspec.Struct, frozen=True):
    """The content of the file, and the file's category id by the model's label."""

    path: Path
    dataset: Mapping[str, Any]
    category_of: Mapping[int, int]


def read(data: Path, categories: Mapping[int, tuple[int, str]]) -> tuple[list[PictureItem], Optional[Annotations]]:
    """Return the pictures of ``data``, and its annotations if it has any.

    Args:
        data: an ``instances_*.json``, a directory that holds one (or ``annotations/instances_*.json``), a directory
            of pictures, or one picture.
        categories: (COCO category id, name) by the model's label.

    Raises:
        InputError: no such path, a malformed file, missing pictures (with their number), or no category in common.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or directory")
    file = data if data.suffix.lower() == ".json" else _annotation_file(data)
    if file is None:
        if data.is_file():
            return [_item(data, data.name, None, True)], None
        paths = find_pictures(data)
        if not paths:
            raise InputError(f"{data} holds neither an instances_*.json nor images")
        return [_item(path, str(path.relative_to(data)), None, True) for path in paths], None
    dataset = _load(file)
    folder = _picture_folder(file, [image["file_name"] for image in dataset["images"]])
    items = [_item(folder / image["file_name"], image["file_name"], image["id"], False) for image in dataset["images"]]
    return items, Annotations(file, dataset, _categories(file, dataset, categories))


def _item(path: Path, name: str, image_id: Optional[ImageId], upright: bool) -> PictureItem:
    return PictureItem(name, PictureSource(str(path), upright=upright), image_id=image_id)


def _annotation_file(directory: Path) -> Optional[Path]:
    if directory.is_file():
        return None
    files = sorted(directory.glob("instances_*.json")) or sorted(directory.glob("annotations/instances_*.json"))
    if len(files) > 1:
        raise InputError(f"{directory} holds {len(files)} instances_*.json files; give one of them as --data")
    return files[0] if files else None


def _load(file: Path) -> dict[str, Any]:
    """Read the file and check every field that is used."""
    try:
        dataset = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON: {' '.join(str(error).split())}") from None
    problem = _malformed(dataset)
    if problem:
        raise InputError(f"{file} is not a COCO instances file: {problem}")
    for annotation in dataset["annotations"]:
        annotation.setdefault("iscrowd", 0)
        annotation.setdefault("area", float(annotation["bbox"][2]) * float(annotation["bbox"][3]))
    return dict(dataset)


def _malformed(dataset: Any) -> str:
    """What is wrong with the structure of a COCO file; empty if nothing is."""
    if not isinstance(dataset, dict):
        return f"it holds a {type(dataset).__name__}, not an object"
    for key in REQUIRED_FIELDS:
        if not isinstance(dataset.get(key), list):
            return f"it has no list {key!r}"
    if not dataset["images"]:
        return "it names no images"
    problems = chain(_missing_fields(dataset), _malformed_images(dataset["images"]), _malformed_annotations(dataset))
    return next(problems, "")


def _missing_fields(dataset: Mapping[str, Any]) -> Iterator[str]:
    for key, fields in REQUIRED_FIELDS.items():
        for number, entry in enumerate(dataset[key]):
            for name in fields:
                if not isinstance(entry, dict) or name not in entry:
                    yield f"{key}[{number}] has no {name!r}"


def _malformed_images(images: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for image in images:
        if not isinstance(image["file_name"], str):
            yield "an image's 'file_name' is not text"
        if not isinstance(image["id"], (int, str)):
            yield f"the 'id' of {image['file_name']} is neither a number nor text"


def _malformed_annotations(dataset: Mapping[str, Any]) -> Iterator[str]:
    images = {image["id"] for image in dataset["images"]}
    categories = {category["id"] for category in dataset["categories"]}
    for number, entry in enumerate(dataset["annotations"]):
        box = entry["bbox"]
        if not isinstance(box, list) or len(box) != 4 or not all(isinstance(v, (int, float)) for v in box):
            yield f"annotations[{number}]'s 'bbox' is not four numbers"
        if entry["image_id"] not in images:
            yield f"annotations[{number}] names image {entry['image_id']}, which is not listed"
        if entry["category_id"] not in categories:
            yield f"annotations[{number}] names category {entry['category_id']}, which is not listed"


def _picture_folder(file: Path, names: Sequence[str]) -> Path:
    """The folder that holds the most of the pictures, among the usual places.

    Raises:
        InputError: some are missing.
    """
    split = file.stem.replace("instances_", "", 1)
    parents = (file.parent, file.parent.parent)
    folders = [p / sub for p in parents for sub in (split, f"images/{split}", "images", ".")]
    counted = [(sum((folder / name).is_file() for name in names), folder) for folder in folders if folder.is_dir()]
    most, folder = max(counted, key=lambda pair: pair[0])
    if most < len(names):
        lacking = [name for name in names if not (folder / name).is_file()]
        where = folder if most else file.parent / split
        raise InputError(
            f"{file} names {len(names)} images and {len(lacking)} of them are missing in {where} (first: {lacking[0]})"
        )
    return folder


def _categories(file: Path, dataset: Mapping[str, Any], categories: Mapping[int, tuple[int, str]]) -> dict[int, int]:
    """The model's labels to the file's category ids, matched by name."""
    by_name = {str(category["name"]).strip().lower(): category["id"] for category in dataset["categories"]}
    matched = {
        label: by_name[name.strip().lower()]
        for label, (_, name) in categories.items()
        if name.strip().lower() in by_name
    }
    if not matched:
        raise InputError(f"{file} has no category in common with the model (it has: {', '.join(list(by_name)[:5])} …)")
    return matched
