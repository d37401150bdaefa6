"""Files that are named on the command line: results, by the names of files and directories, and lists of prices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.errors import InputError, UsageError

if TYPE_CHECKING:
    from modelzoo.comparison.machines import Price
    from modelzoo.records.race import MachinePrice
    from modelzoo.records.run import Result


def result_files(path: Path) -> list[Path]:
    """Return the files that ``path`` stands for: itself, or the JSON files directly in it, sorted by name.

    Raises:
        InputError: it is a directory that cannot be read, or has no such files.
    """
    try:
        if not path.is_dir():
            return [path]
        files = sorted(each for each in path.iterdir() if each.match("[!.]*.json") and each.is_file())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not files:
        raise InputError(f"{path} contains no results (*.json)")
    return files


def read_all(paths: list[str]) -> list[tuple[str, Result]]:
    """Read every file that ``paths`` stand for, before anything is done with one of them.

    Raises:
        InputError: a file cannot be read, is damaged, or is of a newer format.
    """
    from modelzoo.results import store

    return [(path_text(file), store.read(file)) for path in paths for file in result_files(Path(path))]


def short_names(paths: Sequence[Path], given: Sequence[str] = ()) -> list[str]:
    """Return a name for each path: as much of its end as tells it from the others, without ``.json``.

    If a path occurs several times, its names are numbered.

    Args:
        paths: the paths.
        given: the name that was given to each of them, empty if there is none; by default none has one.
    """
    full = [Path(os.path.normpath(path.absolute())) for path in paths]
    own = given or [""] * len(full)
    for count in range(1, max(len(path.parts) for path in full) + 1):
        names = [name or _end(path, count) for name, path in zip(own, full)]
        if len(set(names)) == len(names):
            return names
    names = [name or _end(path, 1) for name, path in zip(own, full)]
    return [name if name not in names[:i] else f"{name} #{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def path_text(path: Path) -> str:
    """Return the path as text; bytes that are not UTF-8 are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def _end(path: Path, count: int) -> str:
    """The last ``count`` parts of a path, without the ending ``.json``."""
    shown = path.with_suffix("") if path.suffix == ".json" else path
    return path_text(Path(*shown.parts[-count:]))


def read_prices(given: Sequence[str]) -> tuple[Price, ...]:
    """Return the prices that ``NAME=PRICE`` and ``@FILE`` give; the format of the file is in ``comparison.machines``.

    Raises:
        UsageError: a value or a row of a file is no price.
        InputError: a file cannot be read.
    """
    from modelzoo.comparison.machines import parse_price

    return tuple(price for text in given for price in (_listed(text[1:]) if text[:1] == "@" else [parse_price(text)]))


def machine_price(given: str, instance_type: str | None) -> MachinePrice:
    """Return the price of this machine that ``PRICE``, ``NAME=PRICE`` or ``@FILE`` gives.

    Args:
        given: the value of ``--price``.
        instance_type: the name under which a price list has this machine, if the provider tells.

    Raises:
        UsageError: the value is no price, or the list has no price for this type of machine.
        InputError: the file cannot be read.
    """
    from modelzoo.comparison.machines import parse_price
    from modelzoo.records.race import MachinePrice

    if not given.startswith("@"):
        try:
            price = parse_price(given if "=" in given else f"this machine={given}")
        except UsageError:
            raise UsageError(f"--price must be a price per hour over 0, or @FILE, not {given!r}") from None
        return MachinePrice(price.per_hour, price.currency)
    listed = next((price for price in _listed(given[1:]) if price.name == instance_type), None)
    if listed is None:
        type_text = f"of type {instance_type}" if instance_type else "whose type the firmware does not tell"
        raise UsageError(f"--price: {given[1:]} has no price for this machine, {type_text}; give the number itself")
    return MachinePrice(listed.per_hour, listed.currency, listed.date, listed.source)


def _listed(path: str) -> tuple[Price, ...]:
    from modelzoo.comparison.machines import parse_price_list

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InputError(f"--price: {path} cannot be read: {reason}; it must be a CSV file") from error
    return parse_price_list(text, Path(path).name)
