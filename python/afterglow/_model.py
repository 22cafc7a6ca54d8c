"""A model to analyse: a snapshot, or a folder as transformers and flash-linear-attention save it."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._program import AfterglowError, call, option, plain, program
from ._tensors import Tensors, as_array, load_tensors, save_tensors


class Figure:
    """A figure as in the window. A notebook draws it; `svg` is the file's text, `data` the numbers drawn."""

    def __init__(self, name: str, svg: str, table: str) -> None:
        self.name = name
        self.svg = svg
        self._table = table

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<afterglow.Figure {self.name}>"

    @property
    def data(self) -> dict[str, np.ndarray]:
        """Columns of the figure's table; a column of texts stays texts, an empty field becomes nan."""
        rows = [row for row in csv.reader(self._table.splitlines()) if row and not row[0].startswith("#")]
        return {name: _column([row[place] for row in rows[1:]]) for place, name in enumerate(rows[0])}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG file, or with the ending .csv the numbers."""
        is_table = Path(path).suffix == ".csv"
        Path(path).write_text(self._table if is_table else self.svg, encoding="utf-8")


class Generated(NamedTuple):
    """Generated text: the text, the token numbers, and the text of the prompt."""

    text: str
    tokens: np.ndarray
    begun: str


class Model:
    """Weights on disk, and the analyses of the program on them."""

    def __init__(self, path: str | os.PathLike[str], kept: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.path = Path(path)
        self._kept = kept  # a temporary folder, removed with the last model in it

    def __repr__(self) -> str:
        return f"<afterglow.{type(self).__name__} {self.path}>"

    @property
    def info(self) -> dict[str, Any]:
        """What the file or folder holds: recipe, tensors, metadata."""
        return call("info", self.path)

    @property
    def snapshot(self) -> Tensors:
        """The tensors by name, as NumPy arrays; those of the optimiser begin with `optim.`."""
        if self.path.is_dir():
            raise AfterglowError(f"{self.path} is a folder of another library; load_tensors reads its files", 2)
        return load_tensors(self.path)

    def figure(self, name: str, *, number: int | None = None, layer: int | str | None = None, head: int | None = None,
               token: int | None = None, **options: Any) -> Figure:
        """A plot by its name (`afterglow info` lists them); further options as those of `afterglow plot`."""
        return self._plot(name, ["--snapshot", os.fspath(self.path)],
                          number=number, layer=layer, head=head, token=token, **options)

    def spectrum(self, *, layer: int | str | None = None, head: int | None = None) -> np.ndarray:
        """Eigenvalues of a head's Koopman operator, complex."""
        return _eigenvalues(self.figure("spectrum", layer=layer, head=head))

    def patch(self, *, clean: Sequence[int] | None = None, corrupted: Sequence[int] | None = None,
              measure: str = "logit difference", device: str = "auto") -> dict[str, np.ndarray]:
        """Activation patching: the effect of a clean value in the corrupted run, for each place and position.

        clean, corrupted: token numbers, equally long; without them a held-out sequence and the same with the asked value
        changed. measure: "logit difference", "probability" or "loss". Columns: part, place, hook (named as in
        TransformerLens), position, token, attributed (one reverse pass), exact; 1 is the whole clean answer.
        """
        asked: list[dict[str, Any]] = []
        if clean is not None:
            asked.append({"name": "probe_sequence", "value": {"tokens": _whole(clean).tolist()}})
        pair: dict[str, Any] = {"measure": measure}
        if corrupted is not None:
            pair["tokens"] = _whole(corrupted).tolist()
        asked.append({"name": "pair", "value": pair})
        return self.figure("patch", ask=[json.dumps(command) for command in asked], device=device).data

    def forward(self, tokens: Any, *, device: str = "auto") -> np.ndarray:
        """Logits [sequences, tokens, vocabulary] for token numbers [sequences, tokens].

        tokens: an array, nested lists, or what a tokenizer answers: `input_ids`, with an `attention_mask` where sequences
        are padded. Logits of padding are 0.
        """
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = Path(folder, "tokens.safetensors"), Path(folder, "logits.safetensors")
            _save_tokens(asked, tokens)
            call("forward", self.path, "--tokens", asked, "--out", answered, "--device", device)
            return load_tensors(answered)["logits"]

    def generate(self, prompt: Any = None, *, count: int = 256, temperature: float = 1.0,
                 top: int | None = None, draw: int = 0, prefill: bool = False, freeze_scale: bool = False,
                 device: str = "auto") -> Generated:
        """What the model writes behind a beginning, token by token in its recurrent form, from the first token on.

        prompt: a text, labels of tokens with spaces between, or token numbers as `forward` takes them; without it a
        held-out sequence up to its question. temperature: 0 takes the most probable token. top: draws from the so many most probable ones alone.
        prefill: reads the beginning at once, as a prompt, in each layer's own form of a whole sequence. freeze_scale: the
        scale m of SKA stays as the beginning left it (Echo 3.2.1), else it runs on.
        The same model, prompt and draw write the same.
        """
        words: list[str] = [word for name, value in (("--count", count), ("--temperature", temperature), ("--top", top),
                                                     ("--draw", draw), ("--prefill", prefill),
                                                     ("--freeze-scale", freeze_scale), ("--device", device))
                            for word in option(name, value)]
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(prompt, str):
                words += ["--prompt", prompt]
            elif prompt is not None:
                begun = Path(folder, "tokens.safetensors")
                _save_tokens(begun, prompt)
                words += ["--tokens", os.fspath(begun)]
            answer = call("generate", self.path, *words)
        return Generated(answer["text"], np.array(answer["tokens"], np.int64), answer["begun"])

    def window(self, *options: str | os.PathLike[str]) -> subprocess.Popen[bytes]:
        """Opens the window on this model; the program runs as a separate process until it is closed.

        options: further words for the program, such as "--theme", "light", or "--script" and a file of commands.
        """
        return subprocess.Popen([program(), os.fspath(self.path), *(os.fspath(option) for option in options)])

    @staticmethod
    def _plot(name: str, start: list[str], **options: Any) -> Figure:
        words = [word for key, value in options.items() for word in option("--" + key.replace("_", "-"), value)]
        with tempfile.TemporaryDirectory() as folder:
            svg, table = Path(folder, "figure.svg"), Path(folder, "figure.csv")
            answer = call("plot", name, *start, *words, "--svg", svg, "--csv", table)
            return Figure(answer.get("figure", name), svg.read_text("utf-8"), table.read_text("utf-8"))


def open(model: Any, *, config: Mapping[str, Any] | None = None) -> Model:
    """Opens a model.

    model: a snapshot, recipe or figure of afterglow; a folder with config.json and safetensors; a model of transformers or
    flash-linear-attention (anything with save_pretrained); or a state_dict, with `config` as its config.json.
    """
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if not path.exists():
            raise AfterglowError(f"there is no file or folder {path}", 3)
        opened = Model(path)
        if path.is_file() and path.suffix.lower() not in (".safetensors", ".json", ".svg", ".pdf", ".png", ".gif", ".csv"):
            opened.info  # raises now for a file without a model, not at the first analysis
        return opened
    kept = tempfile.TemporaryDirectory(prefix="afterglow_")
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(kept.name, safe_serialization=True)
    else:
        _save_state(model, config, Path(kept.name))
    return Model(kept.name, kept)


def patch(model: Any, **options: Any) -> dict[str, np.ndarray]:
    """`Model.patch` of a model, or of anything that `open` opens."""
    return (model if isinstance(model, Model) else open(model)).patch(**options)


def _save_state(model: Any, config: Mapping[str, Any] | None, folder: Path) -> None:
    given: Any = config if config is not None else getattr(model, "config", None)
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    if given is None:
        raise AfterglowError("weights alone do not say what model they belong to: give `config`, as its config.json", 2)
    state = model.state_dict() if hasattr(model, "state_dict") else model
    text = json.dumps(dict(given), default=lambda value: str(value) if plain(value) is value else plain(value))
    (folder / "config.json").write_text(text, encoding="utf-8")
    save_tensors(folder / "model.safetensors", state, {"format": "pt"})


def _whole(numbers: Any) -> np.ndarray:
    """Token numbers as an array; raises for floating numbers, because truncation would be a guess."""
    try:
        array = np.asarray(numbers.detach().cpu() if hasattr(numbers, "detach") else numbers)
    except ValueError as error:
        raise AfterglowError("the sequences differ in length; pad them and give the attention_mask, too", 2) from error
    if array.dtype.kind not in "iu" and array.size > 0:
        raise AfterglowError(f"token numbers are whole numbers, and these are {array.dtype}; "
                             "a tokenizer makes them of a text: tokenizer(text)", 2)
    return array.astype(np.int64)


def _save_tokens(path: Path, tokens: Any) -> None:
    """Token numbers for --tokens, with the attention mask of a tokenizer's result."""
    given = tokens if isinstance(tokens, Mapping) else {"input_ids": tokens}
    if "input_ids" not in given:
        raise AfterglowError(f"there are no 'input_ids' among {', '.join(map(str, given))}; give what a tokenizer answers", 2)
    tensors = {"input_ids": np.atleast_2d(_whole(given["input_ids"]))}
    if given.get("attention_mask") is not None:
        tensors["attention_mask"] = np.atleast_2d(as_array(given["attention_mask"]) != 0)
    save_tensors(path, tensors)


def _column(fields: list[str]) -> np.ndarray:
    try:
        return np.array([float(field) if field else np.nan for field in fields])
    except ValueError:
        return np.array(fields)


def _eigenvalues(figure: Figure) -> np.ndarray:
    data = figure.data
    here = data["series"] == "eigenvalues"
    real, imaginary = (data[name][here] for name in data if re.match(r"(Re|Im)\b", name))
    return np.asarray(real + 1j * imaginary)
