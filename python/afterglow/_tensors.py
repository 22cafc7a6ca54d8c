"""safetensors files as NumPy arrays. A file is 8 bytes for the header's length, a JSON header, and the numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}
_names = {np.dtype(kind): name for name, kind in _kinds.items()}


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of a file by name, each read on first use. bfloat16 becomes float32."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._bytes = np.memmap(path, np.uint8, "r")
        length = int(self._bytes[:8].view("<u8")[0]) if self._bytes.size >= 8 else 0
        if not 0 < length <= self._bytes.size - 8:
            raise ValueError(f"{os.fspath(path)} is not a safetensors file")
        self._entries = json.loads(self._bytes[8:8 + length].tobytes())
        self.metadata: dict[str, str] = self._entries.pop("__metadata__", {})
        self._begin = 8 + length

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        first, last = entry["data_offsets"]
        data = self._bytes[self._begin + first:self._begin + last].tobytes()
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(data, "<u2").astype("<u4") << 16
            return wide.view("<f4").reshape(entry["shape"])
        return np.frombuffer(data, _kinds[entry["dtype"]]).reshape(entry["shape"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def load_tensors(path: str | os.PathLike[str]) -> Tensors:
    """Opens a safetensors file: its tensors by name, and as `metadata` its strings."""
    return Tensors(path)


def save_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any],
                 metadata: Mapping[str, str] | None = None) -> None:
    """Writes a safetensors file of arrays, torch tensors or lists; an existing file is replaced."""
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays = {name: as_array(value) for name, value in tensors.items()}
    offset = 0
    for name, array in arrays.items():
        entries[name] = {"dtype": _names[array.dtype], "shape": list(array.shape),
                         "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with Path(path).open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.writelines(array.data for array in arrays.values())  # without a copy, and without holding Python's lock


def as_array(value: Any) -> np.ndarray:
    """A contiguous, little-endian array of a dtype that a file can hold; a torch tensor in bfloat16 becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if "bfloat16" in str(value.dtype) else value).numpy()
    array = np.ascontiguousarray(value)
    array = array.reshape(np.shape(value))  # NumPy turns a scalar into a row
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype not in _names:
        raise TypeError(f"a safetensors file cannot hold {array.dtype}; convert it to a number type such as float32")
    return array
