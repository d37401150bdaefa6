"""COCO data sets: an ``instances_*.json`` with its picture folder.

The format is that of cocodataset.org/#format-data; what pycocotools reads of it is decoded here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.exhibits import PictureSource
from modelzoo.records.validity import DataNote, DataNoteKind, ValidityRequest
from modelzoo.validity import picture_sets
from modelzoo.workload.inputs import EXIF_QUARTER_TURNS, read_json

ImageId = int | str
SYNONYMS = {
    **{"aeroplane": "airplane", "motorbike": "motorcycle", "sofa": "couch", "tvmonitor": "tv", "television": "tv"},
    **{"mobilephone": "cellphone", "doughnut": "donut", "hairdryer": "hairdrier"},
}
"""Other names of COCO's categories, letters only: PASCAL VOC's, which Darknet's coco.names has too, and spellings."""
OUTSIDE = 1.0
"""Pixels that a box may end outside of its picture, by rounding."""


class Image(msgspec.Struct, frozen=True):
    """A picture, of which the size may be missing."""

    id: ImageId
    file_name: str
    width: int | None = None
    height: int | None = None

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height, if both are known."""
        return None if self.width is None or self.height is None else (self.width, self.height)


class Category(msgspec.Struct, frozen=True):
    """A category."""

    id: int
    name: str


class RunLengths(msgspec.Struct, frozen=True):
    """A mask of (height, width) by columns: lengths of background and object in turn, which may be compressed."""

    size: tuple[int, int]
    counts: str | list[int]


class Object(msgspec.Struct, frozen=True):
    """An annotated object; its box is left, top, width and height in pixels."""

    image_id: ImageId
    category_id: int
    bbox: tuple[float, float, float, float]
    area: float | None = None
    iscrowd: bool | int = False
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


class Instances(msgspec.Struct, frozen=True):
    """What is read of the file."""

    images: list[Image]
    annotations: list[Object]
    categories: list[Category]


class Annotations(msgspec.Struct, frozen=True):
    """What pycocotools takes for the content of the file, and the file's category id by the model's label.

    The objects have ids of our own, because COCOeval takes 0 for "unmatched", and of objects with the same id only the
    last counts. ``masks``: whether every object has a mask.
    """

    path: Path
    dataset: Mapping[str, Any]
    category_of: Mapping[int, int]
    masks: bool = False


def read(
    request: ValidityRequest, categories: Mapping[int, tuple[int, str]], masks: bool = False
) -> tuple[list[picture_sets.PictureItem], Annotations | None, list[DataNote]]:
    """Return the pictures to judge, the annotations if there are any, and what is to be said about them.

    Args:
        request: its ``data`` is an ``instances_*.json``, a directory that holds one (or
            ``annotations/instances_*.json``), a directory of pictures, or one picture.
        categories: (COCO category id, name) by the model's label.
        masks: whether the model computes masks.

    Raises:
        InputError: no such path, a malformed or inconsistent file, pictures that are missing, cannot be read or have
            another size than the file says, or no category in common.
    """
    data = Path(request.data or "")
    files = [data] if data.suffix.lower() == ".json" else []
    if not files and not data.is_file():
        files = sorted(data.glob("instances_*.json")) or sorted(data.glob("annotations/instances_*.json"))
    if len(files) > 1:
        raise InputError(f"{data} holds {len(files)} instances_*.json files; give one of them as --data")
    if not files:
        paths = picture_sets.pictures_at(data).items()
        items = [picture_sets.PictureItem(name, PictureSource(str(path), upright=True)) for name, path in paths]
        items, notes = picture_sets.readable(items, request)
        return items, None, notes
    (file,) = files
    found: Instances = read_json(file, Instances, "a COCO instances file")
    for problem in _inconsistent(found):
        raise InputError(f"{file} is not a COCO instances file: {problem}")
    images = picture_sets.sampled(found.images, request.limit, request.seed)
    objects: dict[ImageId, list[Object]] = {image.id: [] for image in images}
    counts = Counter(each.category_id for each in found.annotations if each.image_id in objects)
    category_of, notes = _categories(file, found.categories, counts, categories)
    known = {each.id: each.name for each in found.categories if each.id in category_of.values()}
    for each in found.annotations:
        if each.image_id in objects and each.category_id in known:
            objects[each.image_id].append(each)
    # The folder that holds the most of the pictures, among the usual places.
    split = file.stem.replace("instances_", "", 1)
    folders = [p / sub for p in (file.parent, file.parent.parent) for sub in (split, f"images/{split}", "images", ".")]
    folder = max(folders, key=lambda each: sum((each / image.file_name).is_file() for image in found.images))
    items, sizes, more = _fitting(images, folder, objects, request.skip_bad)
    content: list[dict[str, Any]] = []
    for each in (each for image_id in sizes for each in objects[image_id]):
        area = each.bbox[2] * each.bbox[3] if each.area is None else each.area
        mask = _mask(file, each, sizes[each.image_id]) if masks else None
        ids = {"id": len(content) + 1, "image_id": each.image_id, "category_id": each.category_id}
        box = {"bbox": list(each.bbox), "area": area, "iscrowd": int(each.iscrowd)}
        content.append({**ids, **box, **({"segmentation": mask} if mask else {})})
    if not content:
        raise InputError(f"{file}: none of the {len(items)} pictures has an object of a category that the model knows")
    lacking = sum("segmentation" not in each for each in content)
    if masks and lacking:
        more.append(DataNote(DataNoteKind.NO_MASKS, lacking))
    dataset = {
        "images": [{"id": name, "width": width, "height": height} for name, (width, height) in sizes.items()],
        "annotations": content,
        "categories": [{"id": number, "name": name} for number, name in known.items()],
    }
    return items, Annotations(file, dataset, category_of, masks and not lacking), [*notes, *more]


def _inconsistent(found: Instances) -> Iterator[str]:
    """What in the file contradicts itself."""
    if not found.images:
        yield "it names no images"
    ids, categories = {image.id for image in found.images}, {category.id for category in found.categories}
    if len({type(each) for each in ids}) > 1:
        yield "the ids of some images are numbers, those of others are text"
    unique: dict[str, list[Any]] = {
        "image id": [image.id for image in found.images],
        "file_name": [image.file_name for image in found.images],
        "category id": [category.id for category in found.categories],
        "category name": [category.name.strip().lower() for category in found.categories],
    }
    for what, values in unique.items():
        value, count = Counter(values).most_common(1)[0] if values else ("", 0)
        if count > 1:
            yield f"the {what} {value!r} occurs {count} times"
    for number, each in enumerate(found.annotations):
        if each.image_id not in ids:
            yield f"annotations[{number}] names image {each.image_id!r}, which is not listed"
        if each.category_id not in categories:
            yield f"annotations[{number}] names category {each.category_id}, which is not listed"
        if min(each.bbox[2:]) < 0:
            yield f"annotations[{number}] has a box of negative size"
    if found.annotations and max(max(each.bbox) for each in found.annotations) <= 1:
        yield "its boxes are fractions of the pictures' sizes, not pixels"


def _categories(
    file: Path, found: Sequence[Category], counts: Mapping[int, int], categories: Mapping[int, tuple[int, str]]
) -> tuple[dict[int, int], list[DataNote]]:
    """The model's labels to the file's category ids, by name; and notes on the names of the ``counts`` of objects."""
    by_name = {each.name.strip().lower(): each for each in found}
    by_letters = {_letters(each.name): each for each in found}
    matched, renamed = {}, []
    for label, (_, name) in categories.items():
        category = by_name.get(name.strip().lower())
        if category is None and (category := by_letters.get(_letters(name))) is not None:
            renamed.append(f"{category.name} is {name}")
        if category is not None:
            matched[label] = category.id
    if not matched:
        raise InputError(f"{file} has no category in common with the model (it has: {', '.join(list(by_name)[:5])} …)")
    unknown = [each for each in found if each.id not in matched.values() and counts[each.id]]
    notes = [DataNote(DataNoteKind.SYNONYMS, len(renamed), tuple(renamed))] if renamed else []
    if unknown:
        names = tuple(f"{each.name} ({counts[each.id]})" for each in unknown)
        notes.append(DataNote(DataNoteKind.UNKNOWN_CATEGORIES, sum(counts[each.id] for each in unknown), names))
    return matched, notes


def _letters(name: str) -> str:
    letters = re.sub(r"[\W_]+", "", name.lower())
    return SYNONYMS.get(letters, letters)


def _fitting(
    images: Sequence[Image], folder: Path, objects: Mapping[ImageId, Sequence[Object]], skip_bad: bool
) -> tuple[list[picture_sets.PictureItem], dict[ImageId, tuple[int, int]], list[DataNote]]:
    """Return the pictures that can be read and fit what the file says of them, their sizes, and notes.

    A picture is read upright if a quarter turn by its EXIF orientation gives its size in the file. Where sizes do not
    tell (half turns, mirrors, squares), all others decide if they agree; if not, it is read as stored.
    """
    sources = [PictureSource(str(folder / image.file_name)) for image in images]
    items = [picture_sets.PictureItem(image.file_name, each, image_id=image.id) for image, each in zip(images, sources)]
    stored = picture_sets.probed(items)
    problems = [
        each if isinstance(each, str) else _misfit(image, each, objects[image.id])
        for image, each in zip(images, stored)
    ]
    kept, notes = picture_sets.without_bad(list(zip(items, images, stored)), problems, skip_bad)
    sound = [(item, image.size, each) for item, image, each in kept if not isinstance(each, str)]
    # Whether the size is that of the upright picture; unknown if that and the stored one are equal.
    known = [None if _turned(each) == each[0] else size == _turned(each) for _, size, each in sound]
    others = set(known) - {None}
    upright = [others == {True} if each is None else each for each in known]
    turned = [item.name for (item, _, each), applied in zip(sound, upright) if each[1] != 1 and applied]
    unknown = [item.name for (item, _, each), told in zip(sound, known) if each[1] != 1 and told is None]
    if turned:
        notes.append(DataNote(DataNoteKind.UPRIGHT, len(turned), picture_sets.some(turned)))
    if unknown and len(others) != 1:
        notes.append(DataNote(DataNoteKind.UNKNOWN_ORIENTATION, len(unknown), picture_sets.some(unknown)))
    found = [replace(each[0], source=replace(each[0].source, upright=up)) for each, up in zip(sound, upright)]
    sizes = {item.image_id: size or each[0] for item, size, each in sound if item.image_id is not None}
    return found, sizes, notes


def _turned(stored: picture_sets.Stored) -> tuple[int, int]:
    size, orientation = stored
    return (size[1], size[0]) if orientation in EXIF_QUARTER_TURNS else size


def _misfit(image: Image, stored: picture_sets.Stored, objects: Sequence[Object]) -> str:
    """How a picture differs from what the file says of it; empty if it does not."""
    turned, size = _turned(stored), image.size or stored[0]
    shown, own = ("×".join(map(str, each)) for each in (size, stored[0]))
    if size not in (stored[0], turned):
        return f"{image.file_name} has {own} pixels, but {shown} in the annotations"
    if image.size is None and turned != stored[0]:
        return f"{image.file_name} is turned by its EXIF orientation, and its size in the annotations is missing"
    for each in objects:
        left, top, width, height = each.bbox
        if min(left, top, size[0] - left - width, size[1] - top - height) < -OUTSIDE:
            return f"{image.file_name}: the box {list(each.bbox)} (x, y, width, height) leaves the picture of {shown}"
    return ""


def _mask(file: Path, entry: Object, size: tuple[int, int]) -> Any:
    """The mask of an object as pycocotools takes it, without polygons that have no area; empty if there is none."""
    where = f"{file}: the segmentation of an object in image {entry.image_id}"
    try:
        found = msgspec.json.decode(entry.segmentation, type=list[list[float]] | RunLengths | None)
    except msgspec.DecodeError as error:
        raise InputError(f"{where} is neither polygons nor run lengths: {error}") from None
    if isinstance(found, RunLengths):
        counts = _decompressed(found.counts) if isinstance(found.counts, str) else found.counts
        if found.size != (size[1], size[0]) or sum(counts) != size[0] * size[1] or min(counts) < 0:
            raise InputError(f"{where} has run lengths for another picture than one of {size[0]}×{size[1]} pixels")
        return msgspec.to_builtins(found)
    if any(len(each) % 2 for each in found or ()):
        raise InputError(f"{where} has a polygon with an odd number of coordinates")
    return [each for each in found or () if len(each) > 4]


def _decompressed(text: str) -> list[int]:
    """The run lengths of COCO's compressed form, whose characters hold five bits each (pycocotools' ``maskApi.c``).

    From the fourth on, they are differences to the last but one.
    """
    counts: list[int] = []
    value = shift = 0
    for bits in (ord(each) - 48 for each in text):
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            value -= (1 << shift) if bits & 16 else 0
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    return counts
