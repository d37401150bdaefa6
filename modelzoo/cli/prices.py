"""The values of ``--price``: prices of machines, given one by one or in a dated list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from modelzoo.comparison.machines import Price, parse_price, parse_price_list
from modelzoo.errors import InputError, UsageError
from modelzoo.records.throughput import MachinePrice


def read_prices(given: Sequence[str]) -> tuple[Price, ...]:
    """Return the prices that ``NAME=PRICE`` and ``@FILE`` give; the format of the file is in ``comparison.prices``.

    Raises:
        UsageError: a value or a row of a file is no price.
        InputError: a file cannot be read.
    """
    return tuple(price for text in given for price in (_listed(text[1:]) if text[:1] == "@" else [parse_price(text)]))


def machine_price(given: str, instance_type: Optional[str]) -> MachinePrice:
    """Return the price of this machine that ``PRICE``, ``NAME=PRICE`` or ``@FILE`` gives.

    Args:
        given: the value of ``--price``.
        instance_type: the name under which a price list has this machine, if the provider tells.

    Raises:
        UsageError: the value is no price, or the list has no price for this type of machine.
        InputError: the file cannot be read.
    """
    if not given.startswith("@"):
        try:
            price = parse_price(given if "=" in given else f"this machine={given}")
        except UsageError:
            raise UsageError(f"--price must be a price per hour over 0, or @FILE, not {given!r}") from None
        return MachinePrice(price.per_hour, price.currency)
    found = next((price for price in _listed(given[1:]) if price.name == instance_type), None)
    if found is None:
        type_text = f"of type {instance_type}" if instance_type else "whose type the firmware does not tell"
        raise UsageError(f"--price: {given[1:]} has no price for this machine, {type_text}; give the number itself")
    return MachinePrice(found.per_hour, found.currency, found.date, found.source)


def _listed(path: str) -> tuple[Price, ...]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InputError(f"--price: {path} cannot be read: {reason}; it must be a CSV file") from error
    return parse_price_list(text, Path(path).name)
