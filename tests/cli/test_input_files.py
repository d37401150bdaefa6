"""Files named on the command line: results, and lists of prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.cli.input_files import machine_price, read_prices, result_files, short_names
from modelzoo.comparison.machines import Price
from modelzoo.errors import InputError, UsageError
from modelzoo.records.throughput import MachinePrice


def test_a_directory_stands_for_the_json_files_in_it(tmp_path: Path) -> None:
    """Hidden files, other files and directories are left out."""
    for name in ("b.json", "a.json", "c.svg", ".d.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "e.json").mkdir()
    assert result_files(tmp_path) == [tmp_path / "a.json", tmp_path / "b.json"]
    assert result_files(tmp_path / "c.svg") == [tmp_path / "c.svg"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/r/a.json"], ["a"]),
        (["/r/a.json", "/r/b.json"], ["a", "b"]),
        (["/r/x/s1.json", "/r/y/s1.json"], ["x/s1", "y/s1"]),
        (["/r/a.json", "/r/a.json", "/r"], ["a", "a #2", "r"]),
        (["/"], ["/"]),
    ],
)
def test_names_are_as_short_as_they_can_be(paths: list[str], names: list[str]) -> None:
    """The end of each path that tells it from the others."""
    assert short_names([Path(path) for path in paths]) == names


PRICES = "name,per_hour,currency,date\nc7g.large,0.07,USD,2026-11-01\n"


def test_prices_are_given_one_by_one_and_in_files(tmp_path: Path) -> None:
    """A byte order mark, as Excel writes it, is no part of the first column; what is no text is refused."""
    path = tmp_path / "cloud.csv"
    path.write_text(PRICES, encoding="utf-8-sig")
    listed = Price("c7g.large", 0.07, "USD", "2026-11-01", "cloud.csv")
    assert read_prices(["BASE=0.42", f"@{path}"]) == (Price("BASE", 0.42), listed)
    path.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    with pytest.raises(InputError, match="--price: .* cannot be read: it is not UTF-8 text"):
        read_prices([f"@{path}"])


def test_the_price_of_this_machine_is_a_number_or_in_a_list(tmp_path: Path) -> None:
    """A list has it under the type of the instance, which not every firmware tells."""
    path = tmp_path / "cloud.csv"
    path.write_text(PRICES)
    assert machine_price("mine=4.5", None) == MachinePrice(4.5)
    assert machine_price(f"@{path}", "c7g.large") == MachinePrice(0.07, "USD", "2026-11-01", "cloud.csv")
    for kind, message in (("c7g.metal", "of type c7g.metal; give the number"), (None, "whose type the firmware does")):
        with pytest.raises(UsageError, match=f"has no price for this machine, {message}"):
            machine_price(f"@{path}", kind)
