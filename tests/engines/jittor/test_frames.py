"""Arrays on a pipe."""

from __future__ import annotations

import io

import numpy as np
import pytest

from modelzoo.engines.jittor.remote import read_array, write_array


def test_arrays_arrive_as_they_were_sent() -> None:
    """Values, shape and type, one after another, until the pipe is closed."""
    sent = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7), np.zeros((0, 3))]
    stream = io.BytesIO()
    for each in sent:
        write_array(stream, each)
    stream.seek(0)
    for each in sent:
        found = read_array(stream)
        assert found is not None
        assert (found.dtype, found.shape) == (each.dtype, each.shape)
        assert np.array_equal(found, each)
    assert read_array(stream) is None


@pytest.mark.parametrize("length", [3, 8, 20])
def test_a_pipe_that_is_closed_within_an_array_is_an_error(length: int) -> None:
    """The process at the other end has died."""
    stream = io.BytesIO()
    write_array(stream, np.zeros(5))
    with pytest.raises(EOFError):
        read_array(io.BytesIO(stream.getvalue()[:length]))
