"""Training and its results."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._model import Figure, Model, _column, _eigenvalues
from ._program import assignments, call, json_text, option


class Run(Model):
    """A finished training: a model, its curves, its recipe. The same recipe gives the same bits."""

    def __init__(self, result: Mapping[str, Any], kept: tempfile.TemporaryDirectory[str] | None = None) -> None:
        super().__init__(result["snapshot"], kept)
        self.result = dict(result)
        self.checksum: str = result["checksum"]
        self.step: int = result["steps"]
        self.loss: float = result["loss"]
        self.accuracy: float = result["accuracy"]

    def __repr__(self) -> str:
        return f"<afterglow.Run step {self.step}, loss {self.loss:.4f}, checksum {self.checksum}>"

    @property
    def recipe(self) -> dict[str, Any]:
        """The configuration, seed and commands, which determine the run."""
        return dict(json.loads(Path(self.result["recipe"]).read_text("utf-8")))

    @property
    def curves(self) -> dict[str, np.ndarray]:
        """What was measured at each step, float64 arrays by name: step, loss, accuracy, gradient_norm, ..., without units."""
        text = Path(self.result["metrics"]).read_text("utf-8")
        rows = [row for row in csv.reader(text.splitlines()) if row and not row[0].startswith("#")]
        return {name.split(" [")[0]: _column([row[place] for row in rows[1:]]) for place, name in enumerate(rows[0])}

    def figure(self, name: str, *, step: int | None = None, **options: Any) -> Figure:
        """Draws a plot of the end of the run, or of an earlier `step`, for which the run is repeated from its recipe."""
        if step is None or step == self.step:
            return super().figure(name, **options)
        return self._plot(name, ["--recipe", self.result["recipe"], "--steps", str(step)], **options)

    def spectrum(self, step: int | None = None, *, layer: int | str | None = None,
                 head: int | None = None) -> np.ndarray:
        """The eigenvalues of a head's Koopman operator, complex128, at the end of the run or at an earlier step."""
        return _eigenvalues(self.figure("spectrum", step=step, layer=layer, head=head))


def train(recipe: str | os.PathLike[str] | Mapping[str, Any] = "tiny", *, steps: int | None = None,
          until: int | None = None, seed: int | None = None, data: str | os.PathLike[str] | None = None,
          device: str = "auto", threads: int | None = None, out: str | os.PathLike[str] | None = None,
          **settings: Any) -> Run:
    """Trains a preset, a recipe file or a recipe as a dict, and returns the finished run.

    steps: the length of training and of its schedule. until: stops at this step, with the schedule unchanged. data: the
    file of a task that reads one. device: "cpu", "cuda" or "auto". settings: changes of the recipe, as --set makes them:
    learning_rate=1e-3, task={"bindings": 8}. out: the folder for snapshot, curves and recipe; without it a temporary folder
    that is removed with the run.
    """
    kept: tempfile.TemporaryDirectory[str] | None = None
    if out is None:
        kept = tempfile.TemporaryDirectory(prefix="afterglow_")
        out = kept.name
    folder = Path(out)
    if isinstance(recipe, Mapping):
        folder.mkdir(parents=True, exist_ok=True)
        start = ["--recipe", os.fspath(folder / "given_recipe.json")]
        Path(start[1]).write_text(json_text(recipe), encoding="utf-8")
    else:
        start = ["--recipe" if Path(recipe).is_file() else "--preset", os.fspath(recipe)]
    result = call("train", *start, *assignments(settings), *option("--steps", steps), *option("--until", until),
                  *option("--seed", seed), *option("--data", data), *option("--threads", threads),
                  "--device", device, "--no-figures", "--out", folder)
    return Run(result, kept)
