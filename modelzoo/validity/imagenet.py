"""Classification sets as people have them: a directory a class, or WordNet ids in the file names."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path

from modelzoo.errors import InputError
from modelzoo.validity.items import Item
from modelzoo.workload.images import SUFFIXES, find_pictures, read_picture

_WNID = re.compile(r"(?<![0-9A-Za-z])(n\d{8})(?![0-9])")


def wnids() -> tuple[str, ...]:
    """WordNet ids of the 1,000 ImageNet classes, in the order of the models' outputs."""
    stored = json.loads(Path(__file__).with_name("imagenet_wnids.json").read_text(encoding="utf-8"))
    return tuple(stored["wnids"])


def read(data: Path, names: Sequence[str], ids: Sequence[str] | None) -> tuple[list[Item], bool]:
    """Return the pictures of ``data`` and whether their classes are known.

    Classes are known from directories named by WordNet id or by class name, from one directory for every
    class (in sorted order, as torchvision's ``ImageFolder`` counts), or from WordNet ids in the file names.

    Args:
        names: the model's class names. ids: its WordNet ids, or ``None``.

    Raises:
        InputError: nothing there, no pictures, or a class that the model does not have.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or directory")
    if data.is_file():
        return [_item(data, data.name, None)], False
    paths = find_pictures(data)
    if not paths:
        raise InputError(f"{data} holds no pictures ({', '.join(SUFFIXES)})")
    index = {wnid: number for number, wnid in enumerate(ids or ())}
    by_name = _by_name(names)
    folders = sorted({path.parent.name for path in paths if path.parent != data})
    in_folders = all(path.parent != data for path in paths)
    labels: list[int | None]
    if index and in_folders and all(_WNID.fullmatch(folder) for folder in folders):
        labels = [_known(path.parent.name, index, path) for path in paths]
    elif in_folders and folders and all(_plain(folder) in by_name for folder in folders):
        labels = [by_name[_plain(path.parent.name)] for path in paths]
    elif in_folders and len(folders) == len(names):
        labels = [folders.index(path.parent.name) for path in paths]
    elif index and all(_WNID.search(path.name) for path in paths):
        labels = [_known(_wnid(path.name), index, path) for path in paths]
    else:
        labels = [None] * len(paths)
    known = None not in labels
    return [_item(p, str(p.relative_to(data)), label) for p, label in zip(paths, labels)], known


def _item(path: Path, name: str, label: int | None) -> Item:
    return Item(name, functools.partial(read_picture, path, name, label is None), label)


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
    """Class names that are unambiguous (ImageNet has two cranes and two maillots) to their index."""
    plain = [_plain(name) for name in names]
    return {name: number for number, name in enumerate(plain) if plain.count(name) == 1}
