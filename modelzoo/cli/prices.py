"""The values of ``--price``: prices of machines, given one by one or in a dated list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modelzoo.comparison.model import Price
from modelzoo.comparison.prices import parse_price, parse_price_list
from modelzoo.errors import InputError


def read_prices(given: Sequence[str]) -> tuple[Price, ...]:
    """Return the prices that ``NAME=PRICE`` and ``@FILE`` give; the format of the file is in ``comparison.prices``.

    Raises:
        UsageError: a value or a row of a file is no price.
        InputError: a file cannot be read.
    """
    return tuple(price for text in given for price in (_listed(text[1:]) if text[:1] == "@" else [parse_price(text)]))


def _listed(path: str) -> tuple[Price, ...]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InputError(f"--price: {path} cannot be read: {reason}; it must be a CSV file") from error
    return parse_price_list(text, Path(path).name)
