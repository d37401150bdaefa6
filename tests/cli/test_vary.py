"""The grammar of --vary and --setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import fields

from modelzoo.cli.setting_options import FIELDS, check_names, combine, parse_axis, parse_setting, parse_settings
from modelzoo.errors import UsageError
from modelzoo.setting import Setting


def test_every_field_of_a_setting_can_be_varied() -> None:
    """Under the name of its option on the command line."""
    names = {field.name.replace("_", "-") for field in fields(Setting)} - {"options"}
    assert {"bf16" if name == "bf16-method" else name for name in names} == set(FIELDS)


def test_an_axis_is_a_name_and_its_values() -> None:
    """In the order given, repetitions included; a value may contain an equals sign."""
    assert parse_axis("batch=1, 8,1").choices == ({"batch": "1"}, {"batch": "8"}, {"batch": "1"})
    assert parse_axis("weights=a=b.pth").choices == ({"weights": "a=b.pth"},)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have the form NAME=V1,V2"),
        ("batch", "must have the form NAME=V1,V2"),
        ("=1,2", "must have the form NAME=V1,V2"),
        ("batch=", "has an empty value"),
        ("batch=1,", "has an empty value"),
        ("batch=,", "has an empty value"),
    ],
)
def test_an_axis_without_name_or_values_is_refused(text: str, message: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match=message):
        parse_axis(text)


def test_the_first_axis_varies_slowest() -> None:
    """The order of the table is that of the command line."""
    found = combine([parse_axis("mode=eager,compile"), parse_axis("batch=1,8")])
    assert [(each["mode"], each["batch"]) for each in found] == [
        ("eager", "1"),
        ("eager", "8"),
        ("compile", "1"),
        ("compile", "8"),
    ]
    assert combine([]) == [{}]


@pytest.mark.parametrize(
    "order", [("precision=fp32,bf16", "bf16=auto,cast"), ("bf16=auto,cast", "precision=fp32,bf16")]
)
def test_only_bf16_has_methods(order: tuple[str, str]) -> None:
    """fp32 occurs once, however many methods there are."""
    assert combine([parse_axis(text) for text in order]) == [
        {"precision": "fp32"},
        {"precision": "bf16", "bf16": "auto"},
        {"precision": "bf16", "bf16": "cast"},
    ]


def test_a_setting_is_a_list_of_values() -> None:
    """Quotes protect spaces, as in a shell."""
    assert parse_setting("mode=compile  threads=2") == {"mode": "compile", "threads": "2"}
    assert parse_setting("input='my pictures/a.jpg'") == {"input": "my pictures/a.jpg"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names nothing; for the default setting, write mode=eager"),
        ("compile", "'compile' must have the form NAME=VALUE"),
        ("mode=", "'mode=' must have the form NAME=VALUE"),
        ("mode=eager mode=script", "names mode twice"),
        ("input='a", "No closing quotation"),
    ],
)
def test_a_setting_of_another_form_is_refused(text: str, message: str) -> None:
    """The message shows the words."""
    with pytest.raises(UsageError, match=message):
        parse_setting(text)


def test_a_file_has_a_setting_on_each_line(tmp_path: Path) -> None:
    """With comments; a file name may contain the sign that begins one."""
    file = tmp_path / "settings"
    file.write_text("# all of them\n\nmode=eager\nmode=script batch=2\t# two\ninput=a#b.jpg\n   # end\n")
    assert parse_settings(["seed=1", f"@{file}"]) == [
        {"seed": "1"},
        {"mode": "eager"},
        {"mode": "script", "batch": "2"},
        {"input": "a#b.jpg"},
    ]


def test_a_file_without_settings_is_refused(tmp_path: Path) -> None:
    """So is one that does not exist, a directory, and one that is no text."""
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "picture").write_bytes(b"\xff\xd8\xff\xe0")
    for name, message in [
        ("empty", "the file names no setting"),
        ("nosuch", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("picture", "cannot be read: it is not a text file"),
    ]:
        with pytest.raises(UsageError, match=message):
            parse_settings([f"@{tmp_path / name}"])


def test_names_are_checked() -> None:
    """The message lists those that exist."""
    check_names(["mode", "sequence"], ["sequence"], "--vary")
    with pytest.raises(UsageError, match=r"--vary: there is no option 'sequence' \(there are: precision, .*, image\)$"):
        check_names(["sequence"], [], "--vary")
