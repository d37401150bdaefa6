"""Arrays on a pipe: the length in bytes, then the array in numpy's ``.npy`` format."""

from __future__ import annotations

import io
import struct
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")


def write_array(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Write ``array`` and flush."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    stream.write(_LENGTH.pack(content.tell()))
    stream.write(content.getbuffer())
    stream.flush()


def read_array(stream: IO[bytes]) -> NDArray[Any] | None:
    """Read an array; ``None`` if the other side has closed the pipe.

    Raises:
        EOFError: it was closed within an array.
    """
    import numpy as np

    header = stream.read(_LENGTH.size)
    if not header:
        return None
    if len(header) == _LENGTH.size:
        (length,) = _LENGTH.unpack(header)
        content = stream.read(length)
        if len(content) == length:
            found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
            return found
    raise EOFError("the pipe was closed within an array")
