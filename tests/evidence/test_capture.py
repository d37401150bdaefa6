"""Output of native libraries is captured at file-descriptor level."""

from __future__ import annotations

import os

import pytest

from modelzoo.evidence.profiler import captured_output


def test_capture_reads_c_stdio() -> None:
    """Output in the buffer of C's stdio is captured as well as Python's."""
    import ctypes

    problems: list[str] = []
    with captured_output(problems) as written:
        ctypes.CDLL(None).printf(b"onednn_verbose,from C\n")
        print("onednn_verbose,from Python", flush=True)
        text = written()
    assert "from C" in text
    assert problems == []


def test_noise_of_the_libraries_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines of oneDNN, MKL and Kineto are not printed; other lines go to standard error."""
    with captured_output([]):
        os.write(1, b"onednn_verbose,exec\nMKL_VERBOSE SGEMM(1)\nSTAGE:2024-01-31 Kineto\nfrom the model\n")
    assert tuple(capfd.readouterr()) == ("", "from the model\n")


def test_output_is_restored_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """An exception in the block leaves no redirected file descriptor."""
    with pytest.raises(ValueError, match="broken"), captured_output([]):
        raise ValueError("broken")
    os.write(1, b"still here\n")
    assert capfd.readouterr().out == "still here\n"
