"""``--print-completion``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from modelzoo.cli import app, parser


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The completion script of a shell."""
    with pytest.raises(SystemExit) as ended:
        app.main(["--print-completion", shell])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", parser.SHELLS)
def test_a_script_is_generated_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It knows the commands, their options and the workloads."""
    text = script(shell, capsys)
    assert all(word in text for word in ("validate", "channels-last", "maskrcnn", "tcmalloc"))


def test_bash_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    """As a user would see it."""
    text = script("bash", capsys)
    lines = [("val", "validate"), ("run --marg", "--margin"), ("run mask", "maskrcnn"), ("run --mode co", "compile")]
    for typed, expected in lines:
        words = ["modelzoo", *typed.split()]
        code = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_modelzoo; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", f"{text}\n{code}"], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected]


def test_without_shtab_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is an optional package."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as ended:
        app.main(["--print-completion", "bash"])
    assert ended.value.code == 2
    assert "install shtab" in capsys.readouterr().err
