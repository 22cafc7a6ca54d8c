"""Writes the states and numbers of a training of any library into a folder, which the window follows."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._model import _save_state, _whole
from ._program import AfterglowError, call, plain, program
from ._tensors import as_array

_pending_states = 2  # a slower disk skips states instead of delaying the training
_shown_values = 16  # eigenvalues and singular values of a matrix that become curves


class Watch:
    """Writes folders `step-N` (model.safetensors, config.json) and `log.jsonl`; a context manager, made by `watch`.

    `step` is the last step that was logged, `seconds` the time for which the training has waited for the copies, `share`
    that time as a share of all since the first log, `notes` what was skipped or could not be written; `close` prints them.
    """

    def __init__(self, model: Any, folder: str | os.PathLike[str], every: int, keep: int, config: Mapping[str, Any] | None,
                 sample: Any, states: Mapping[str, Callable[[], Any]]) -> None:
        if every < 1 or keep < 1:
            raise AfterglowError(f"every={every}, keep={keep}: give at least 1", 2)
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.seconds, self.notes = 0.0, list[str]()
        self._began = self._ended = 0.0
        for wrapper in ("module", "_orig_mod"):  # of DistributedDataParallel, of torch.compile
            model = getattr(model, wrapper, model)
        self._model, self._config, self._states = model, _config_of(model, config), dict(states)
        if self._config is None and not self._states:
            raise AfterglowError("nothing says the family of this model: give config={...}, the contents of its config.json, "
                                 'or states={"A": function} with the matrices to follow', 2)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.step = _last_logged(self.folder / "log.jsonl")
        if self.step > 0:
            self.notes.append(f"{self.folder} held a run up to step {self.step}, which was continued")
        self._script = () if sample is None else ("--script", self.folder / "sample.json")
        if sample is not None:
            (self.folder / "sample.json").write_text(json.dumps({"commands": _asking(sample)}), encoding="utf-8")
        self._saved, self._is_new = -1, True
        self._room = threading.Semaphore(_pending_states)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="afterglow.watch", daemon=True)
        self._writer.start()
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"<afterglow.Watch {self.folder}, step {self.step}, {self.seconds:.3g} s, {100 * self.share:.2g} % of the training>"

    @property
    def share(self) -> float:
        return self.seconds / max(self._ended - self._began, 1e-9)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def log(self, step: int | None = None, **numbers: Any) -> None:
        """Writes a line of numbers, and every `every` steps the state; without `step` it is one more than the last."""
        began = time.perf_counter()
        self._began = self._began or began
        self.step = self.step + 1 if step is None else int(step)
        line: dict[str, Any] = {"step": self.step, **{name: _number(value) for name, value in numbers.items()}}
        matrices: dict[str, np.ndarray] = {}
        if self.step % self.every == 0 and self.step != self._saved:
            self._saved = self.step
            matrices = {name: _copied(state())() for name, state in self._states.items()}
            if self._config is not None:
                self._save()
        self._work.put(lambda: self._append(line, matrices))
        self._ended = time.perf_counter()
        self.seconds += self._ended - began

    def close(self) -> None:
        """Waits until everything is written, and prints on stderr what was not."""
        if self._writer.is_alive():
            self._work.put(None)
            self._writer.join()
        atexit.unregister(self.close)
        for note in self.notes:
            print(f"afterglow.watch: {note}", file=sys.stderr)
        self.notes = []

    def window(self, *options: str | os.PathLike[str]) -> subprocess.Popen[bytes]:
        """Opens the window, which follows the folder, in a process of its own; writes the present state unless a state is there."""
        if self._config is None:
            raise AfterglowError(f"{self.folder} holds curves of matrices but no model, which the window needs; "
                                 f"`afterglow plot training --snapshot {self.folder} --svg FILE` draws the curves", 2)
        if not any(self.folder.glob("step-*")):
            is_written = threading.Event()
            self._save()
            self._work.put(is_written.set)
            is_written.wait()
        words = (self.folder, *self._script, *options)
        return subprocess.Popen([program(), *(os.fspath(word) for word in words)])

    def _save(self) -> None:
        """Copies the state; another thread writes it."""
        if not self._room.acquire(blocking=False):
            self.notes.append(f"step {self.step} was skipped: the disk was still writing earlier ones")
            return
        model = self._model
        state = model.state_dict() if hasattr(model, "state_dict") else model() if callable(model) else model
        step, copied = self.step, {name: _copied(value) for name, value in _flat(state).items()}
        self._work.put(lambda: self._write_state(step, copied))

    def _write_all(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception as error:  # a full disk must not end the training
                self.notes.append(f"not written: {error}")

    def _write_state(self, step: int, state: Mapping[str, Callable[[], np.ndarray]]) -> None:
        place, new = self.folder / f"step-{step}", self.folder / f".step-{step}.new"
        try:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            _save_state({name: value() for name, value in state.items()}, self._config, new)
            shutil.rmtree(place, ignore_errors=True)
            new.rename(place)
        finally:
            self._room.release()
        for old in sorted(self.folder.glob("step-*"), key=os.path.getmtime)[:-self.keep]:
            shutil.rmtree(old, ignore_errors=True)
        if self._is_new:
            self._is_new = False
            call("info", place)  # says why, if Afterglow cannot open this family

    def _append(self, line: dict[str, Any], matrices: Mapping[str, np.ndarray]) -> None:
        line = {name: float(value().item()) if callable(value) else value for name, value in line.items()}
        for name, matrix in matrices.items():
            line.update(_numbers_of(name, matrix))
        finite = {name: value if np.isfinite(value) else None for name, value in line.items()}
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite) + "\n")


def watch(model: Any = None, *, folder: str | os.PathLike[str], every: int = 100, keep: int = 20,
          config: Mapping[str, Any] | None = None, sample: Any = None,
          states: Mapping[str, Callable[[], Any]] | None = None) -> Watch:
    """Follows a training: `with afterglow.watch(model, folder="runs/a") as w:`, and in its loop `w.log(loss=loss)`.

    model: a torch module (anything with `state_dict()`), a dict of arrays, or a function that returns the present weights,
    such as a pytree of JAX (nested dicts and lists, whose names are joined by dots). Of a family that `afterglow info --models`
    lists, with its `config`, or with `config` given as the contents of config.json. every: steps between saved states.
    keep: how many of them stay. sample: a text or token ids that `window` inspects. states: functions that return matrices,
    for any other model; every `every` steps the moduli of their eigenvalues, singular values and condition become curves.
    `log` copies the weights, a thread writes them, and files appear whole, so that either side may end at any time.
    `afterglow FOLDER` opens the folder, on this machine or another, during the training or after it.
    """
    return Watch(model, folder, every, keep, config, sample, states or {})


def TrainerCallback(folder: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """A callback for transformers' Trainer with the options of `watch`; folder: "afterglow" in the Trainer's by default."""
    opened: list[Watch] = []

    def begin(_: Any, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        if state.is_world_process_zero:
            opened.append(watch(model, folder=folder or Path(args.output_dir, "afterglow"), **options))

    def log(_: Any, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **more: Any) -> None:
        for one in opened:
            one.log(state.global_step, **_numbers_in(logs or {}))

    return _callback("transformers", "TrainerCallback", opened, on_train_begin=begin, on_step_end=log, on_log=log)


def LightningCallback(folder: str | os.PathLike[str], **options: Any) -> Any:
    """A callback for Lightning's Trainer with the options of `watch`; it follows `module.model`, or else the module."""
    opened: list[Watch] = []

    def begin(_: Any, trainer: Any, module: Any) -> None:
        if trainer.is_global_zero:
            opened.append(watch(getattr(module, "model", module), folder=folder, **options))
            opened[-1].step = trainer.global_step  # a new training in the folder of another one begins again

    def after_batch(_: Any, trainer: Any, *more: Any) -> None:
        for one in opened:
            if trainer.global_step > one.step:
                one.log(trainer.global_step, **_numbers_in(trainer.callback_metrics))

    library = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    return _callback(library, "Callback", opened, on_train_start=begin, on_train_batch_end=after_batch)


def _asking(sample: Any) -> list[dict[str, Any]]:
    """Commands of the window that inspect a text or token ids."""
    if isinstance(sample, str):
        return [{"name": "probe_sequence", "value": {"text": sample}}]
    tokens = _whole(sample).ravel().tolist()
    task = {"kind": "ids", "vocab": max(tokens) + 1, "length": len(tokens)}
    return [{"name": "probe", "value": {"index": 0, "task": task}}, {"name": "probe_sequence", "value": {"tokens": tokens}}]


def _callback(library: str, base: str, opened: list[Watch], **methods: Any) -> Any:
    def end(*_: Any, **more: Any) -> None:
        while opened:
            opened.pop().close()

    known = getattr(importlib.import_module(library), base)
    return type("AfterglowCallback", (known,), {**methods, "on_train_end": end})()


def _numbers_in(logs: Mapping[str, Any]) -> dict[str, float]:
    found = {name: plain(value) for name, value in logs.items()}
    return {name: float(value) for name, value in found.items() if name != "step" and isinstance(value, (int, float))}


def _config_of(model: Any, config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    given: Any = config if config is not None else getattr(model, "config", None)
    given = given.to_dict() if hasattr(given, "to_dict") else given
    return dict(given) if isinstance(given, Mapping) else None


def _number(value: Any) -> float | Callable[[], np.ndarray]:
    """A number; of a tensor on a GPU a function that waits for it, so that the training itself need not."""
    return _copied(value) if getattr(value, "is_cuda", False) else float(plain(value))


def _flat(tree: Any, place: str = "") -> dict[str, Any]:
    """The arrays of nested dicts and lists by their places: "layers.0.weight"."""
    if not isinstance(tree, (Mapping, list, tuple)):
        return {place: tree}
    found: dict[str, Any] = {}
    for name, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        found.update(_flat(value, f"{place}.{name}" if place else str(name)))
    return found


def _copied(value: Any) -> Callable[[], np.ndarray]:
    """Copies an array or tensor; the result gives the copy as an array, and waits for one from a GPU."""
    if getattr(value, "is_cuda", False):
        torch: Any = importlib.import_module("torch")
        copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True).copy_(value.detach(), non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return lambda: (done.synchronize(), as_array(copy))[1]
    copy = value.detach().clone() if hasattr(value, "detach") else np.array(value)
    return lambda: as_array(copy)


def _numbers_of(name: str, matrix: np.ndarray) -> dict[str, float]:
    """What is followed of a matrix, as columns of the log; not finite where the matrix is not."""
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        return {f"{name} condition": np.nan}
    singular = np.linalg.svd(matrix, compute_uv=False)
    numbers = {f"{name} singular value {i}": float(value) for i, value in enumerate(singular[:_shown_values])}
    numbers[f"{name} condition"] = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    if matrix.shape[0] == matrix.shape[1]:
        moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
        numbers.update({f"{name} |eigenvalue {i}|": float(value) for i, value in enumerate(moduli[:_shown_values])})
    return numbers


def _last_logged(log: Path) -> int:
    lines = log.read_text("utf-8").splitlines()[-2:] if log.exists() else []
    return max([int(found[1]) for line in lines if (found := re.match(r'\{"step": (\d+)', line))], default=0)
