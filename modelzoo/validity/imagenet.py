"""Classification data sets in their usual layouts: one directory per class, or WordNet ids in the file names."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from modelzoo.errors import InputError
from modelzoo.records.exhibits import PictureSource
from modelzoo.validity.picture_sets import PictureItem
from modelzoo.workload.inputs import SUFFIXES, find_pictures

_WNID = re.compile(r"(?<![0-9A-Za-z])(n\d{8})(?![0-9])")

GROUPS = (
    (0, "fish"),
    (7, "birds"),
    (25, "amphibians and reptiles"),
    (69, "invertebrates"),
    (80, "birds"),
    (101, "other mammals"),
    (107, "invertebrates"),
    (127, "birds"),
    (147, "other mammals"),
    (151, "dogs"),
    (269, "other mammals"),
    (281, "cats"),
    (294, "other mammals"),
    (300, "invertebrates"),
    (330, "other mammals"),
    (389, "fish"),
    (398, "objects"),
    (924, "food"),
    (970, "landscapes"),
    (981, "people"),
    (984, "plants and fungi"),
    (999, "objects"),
)
"""First class and name of each group of the 1,000 ImageNet classes, whose order by WordNet id keeps related ones
together. A sample of the data set has few pictures per class, but enough per group."""


def group(label: int) -> str:
    """The group of the ImageNet class ``label`` (0 to 999): "dogs", "food", …"""
    return GROUPS[bisect_right(GROUPS, (label, "\uffff")) - 1][1]


def wnids() -> tuple[str, ...]:
    """The WordNet ids of the 1,000 ImageNet classes, in the order of the models' outputs."""
    stored = json.loads(Path(__file__).with_name("imagenet_wnids.json").read_text(encoding="utf-8"))
    return tuple(stored["wnids"])


def read(data: Path, names: Sequence[str], ids: Optional[Sequence[str]]) -> list[PictureItem]:
    """Return the pictures of ``data``, either all with labels or none.

    Classes are known from directories named by WordNet id or by class name, from one directory for each class (in
    sorted order, like torchvision's ``ImageFolder``), or from WordNet ids in the file names.

    Args:
        data: a directory, or one picture.
        names: the model's class names. ids: its WordNet ids, if the classes are ImageNet's.

    Raises:
        InputError: no such path, no pictures, or a class that the model does not have.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or directory")
    if data.is_file():
        return [_item(data, data.name, None)]
    paths = find_pictures(data)
    if not paths:
        raise InputError(f"{data} holds no pictures ({', '.join(SUFFIXES)})")
    labels = _labels(data, paths, names, {wnid: number for number, wnid in enumerate(ids or ())})
    return [_item(path, str(path.relative_to(data)), label) for path, label in zip(paths, labels)]


def _labels(data: Path, paths: Sequence[Path], names: Sequence[str], index: dict[str, int]) -> Sequence[Optional[int]]:
    in_folders = all(path.parent != data for path in paths)
    if in_folders:
        folders = sorted({path.parent.name for path in paths})
        by_name = _by_name(names)
        if index and all(_WNID.fullmatch(folder) for folder in folders):
            return [_known(path.parent.name, index, path) for path in paths]
        if all(_plain(folder) in by_name for folder in folders):
            return [by_name[_plain(path.parent.name)] for path in paths]
        if len(folders) == len(names):
            return [folders.index(path.parent.name) for path in paths]
    if index and all(_WNID.search(path.name) for path in paths):
        return [_known(_wnid(path.name), index, path) for path in paths]
    return [None] * len(paths)


def _item(path: Path, name: str, label: Optional[int]) -> PictureItem:
    return PictureItem(name, PictureSource(str(path), upright=label is None), label)


def _wnid(name: str) -> str:
    match = _WNID.search(name)
    return match.group(1) if match else ""


def _known(wnid: str, index: dict[str, int], path: Path) -> int:
    if wnid not in index:
        raise InputError(f"{path}: class {wnid} is not one of this model's {len(index)}")
    return index[wnid]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def _by_name(names: Sequence[str]) -> dict[str, int]:
    """Index by class name; ambiguous names (ImageNet has two cranes and two maillots) are left out."""
    plain = [_plain(name) for name in names]
    return {name: number for number, name in enumerate(plain) if plain.count(name) == 1}
