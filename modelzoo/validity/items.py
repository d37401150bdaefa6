"""The pictures that predictions are judged on, as items that are read when they are needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, TypeVar

from modelzoo.workload.images import Picture
from modelzoo.workload.inputs import photograph_crops

T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """A picture of a set.

    Attributes:
        name: what tables call it.
        read: reads the picture.
        label: index of its class, if that is known.
        image_id: its id in an annotation file.
    """

    name: str
    read: Callable[[], Picture]
    label: int | None = None
    image_id: int | None = None


def builtin_items(count: int, seed: int, min_scale: float) -> list[Item]:
    """Return crops of the photograph that matplotlib ships; see ``photograph_crops``."""
    return [Item(crop.name, crop) for crop in photograph_crops(count, seed, min_scale)]


def sampled(items: Sequence[T], limit: int | None, seed: int) -> list[T]:
    """Draw at most ``limit`` items and keep their order; the same ones on every machine."""
    if limit is None or limit >= len(items):
        return list(items)
    chosen = sorted(random.Random(seed).sample(range(len(items)), limit))
    return [items[index] for index in chosen]
