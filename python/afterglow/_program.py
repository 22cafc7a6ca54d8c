"""Finds the program and runs it: arguments in, one JSON object out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class AfterglowError(RuntimeError):
    """The program failed: its message, and as `code` its exit code.

    1 other failure, 2 wrong usage, 3 input missing or unreadable, 4 no usable GPU, 5 out of memory, 6 non-finite numbers,
    7 a check failed, 130 interrupted.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def program() -> str:
    """The path of the program: `AFTERGLOW_PROGRAM` if it is set, else the one in this package, else the one on the PATH."""
    named = os.environ.get("AFTERGLOW_PROGRAM")
    if named:
        return named
    inside = Path(__file__).parent / "bin" / "afterglow"
    if inside.is_file():
        return str(inside)
    found = shutil.which("afterglow")
    if found is None:
        raise AfterglowError("the program afterglow is neither in this package nor on the PATH; "
                             "set AFTERGLOW_PROGRAM to where it is", 1)
    return found


def call(*arguments: str | os.PathLike[str]) -> dict[str, Any]:
    """Runs a command and returns its JSON object. Ctrl C also reaches the program, which saves a snapshot and ends."""
    words = [program(), *(os.fspath(argument) for argument in arguments), "--json", "--quiet"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            out, err = process.communicate()
        except KeyboardInterrupt:
            process.communicate()
            raise
    return _result(out, err, process.returncode)


def _result(out: str, err: str, code: int) -> dict[str, Any]:
    lines = out.splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else {}
    except ValueError:
        answer = {}
    if code == 0 and isinstance(answer, dict) and answer.get("ok"):
        return answer
    raise AfterglowError(answer.get("error") or err.strip() or f"the program ended with code {code}", code)


def assignments(settings: Mapping[str, Any], above: str = "") -> list[str]:
    """Settings as the program's --set takes them: {"task": {"bindings": 8}} becomes task.bindings=8."""
    words: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            words += assignments(value, f"{above}{name}.")
        else:
            text = value if isinstance(value, str) else json_text(value)
            words += ["--set", f"{above}{name}={text}"]
    return words


def plain(value: Any) -> Any:
    """NumPy and torch numbers and arrays as Python objects, paths as strings; other values unchanged."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def json_text(value: Any) -> str:
    """The JSON text of an object, which may contain NumPy and torch values."""
    def known(inner: Any) -> Any:
        converted = plain(inner)
        if converted is inner:
            raise TypeError(f"a value of type {type(inner).__name__} cannot be written as JSON: {inner!r}")
        return converted
    return json.dumps(value, default=known)


def option(name: str, value: object) -> Sequence[str]:
    """`--name value`, once for each entry of a list; `--name` alone for True; nothing for None and False."""
    value = plain(value)
    if isinstance(value, bool):
        return (name,) if value else ()
    if isinstance(value, (list, tuple)):
        return [word for entry in value for word in option(name, entry)]
    return () if value is None else (name, str(value))
