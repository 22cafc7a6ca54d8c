"""A model to analyse: a snapshot, or a folder that transformers or flash-linear-attention saved."""

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
    """A figure as in the window. A notebook displays it; `svg` is the file's text, `data` the numbers in it."""

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
        """The columns of the figure's table by name: float64, with nan for an empty field, or text."""
        rows = [row for row in csv.reader(self._table.splitlines()) if row and not row[0].startswith("#")]
        return {name: _column([row[place] for row in rows[1:]]) for place, name in enumerate(rows[0])}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure as SVG, or its numbers if the path ends in .csv; an existing file is replaced."""
        is_table = Path(path).suffix == ".csv"
        Path(path).write_text(self._table if is_table else self.svg, encoding="utf-8")


class Generated(NamedTuple):
    """What `Model.generate` wrote: its text, its token ids (int64), and the text of the prompt."""

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
        """The tensors by name, as NumPy arrays; names of the optimiser's tensors begin with `optim.`."""
        if self.path.is_dir():
            raise AfterglowError(f"{self.path} is a folder of another library; read its files with load_tensors", 2)
        return load_tensors(self.path)

    def figure(self, name: str, *, figure: int | None = None, layer: int | str | None = None, head: int | None = None,
               token: int | None = None, **options: Any) -> Figure:
        """Draws a plot by its name (`afterglow info` lists them).

        figure: which one, if the plot has several, from 0. layer: an index, or a name such as "1.ska". head, token: from 0.
        options: further options of `afterglow plot`, with underscores instead of hyphens.
        """
        return self._plot(name, ["--snapshot", os.fspath(self.path)],
                          figure=figure, layer=layer, head=head, token=token, **options)

    def spectrum(self, *, layer: int | str | None = None, head: int | None = None) -> np.ndarray:
        """The eigenvalues of a head's Koopman operator, complex128, one for each mode."""
        return _eigenvalues(self.figure("spectrum", layer=layer, head=head))

    def patch(self, *, clean: Sequence[int] | None = None, corrupted: Sequence[int] | None = None,
              measure: str = "logit difference", device: str = "auto") -> dict[str, np.ndarray]:
        """Activation patching: the effect of putting one value of the clean run into the corrupted run.

        clean, corrupted: lists of token ids, equally long. Without them the program takes a held-out sequence, and the same
        sequence with the asked value changed. measure: "logit difference", "probability" or "loss".
        Returns one row for each activation and position, as columns: part, place, hook (the name in TransformerLens),
        position, token, attributed (estimated by one backward pass) and exact. 0 is the corrupted answer, 1 the clean one.
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
        """Logits [sequences, tokens, vocabulary], float32, for token ids [sequences, tokens].

        tokens: an array of whole numbers, nested lists, or the result of a tokenizer: `input_ids`, with an
        `attention_mask` if sequences are padded. The logits of padding are 0. A text is one sequence, by the tokenizer.json
        of the model.
        """
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = Path(folder, "tokens.safetensors"), Path(folder, "logits.safetensors")
            if isinstance(tokens, str):
                asked.write_text(tokens, "utf-8")
            else:
                _save_tokens(asked, tokens)
            option_of = "--text-file" if isinstance(tokens, str) else "--tokens"
            call("forward", self.path, option_of, asked, "--out", answered, "--device", device)
            return load_tensors(answered)["logits"]

    def generate(self, prompt: Any = None, *, count: int = 256, temperature: float = 1.0,
                 top: int | None = None, top_p: float = 1.0, draw: int = 0, prefill: bool = False,
                 freeze_scale: bool = False, device: str = "auto") -> Generated:
        """Continues a prompt, token by token in the model's recurrent form.

        prompt: a text, token labels separated by spaces, or the ids of one sequence as for `forward`; without it, a held-out
        sequence up to its question. count: how many tokens to write. temperature: 0 takes the most probable token.
        top: draws only from this many most probable tokens; top_p: of these only from the most probable that together
        have this probability. draw: the number of the random draw.
        prefill: reads the prompt at once, each layer in its form for whole sequences, instead of token by token.
        freeze_scale: keeps the key scale m of SKA as it is after the prompt (Echo, section 3.2.1), instead of updating it.
        The same model, prompt and draw give the same text.
        """
        words: list[str] = [word for name, value in (("--count", count), ("--temperature", temperature), ("--top", top),
                                                     ("--top-p", top_p), ("--draw", draw), ("--prefill", prefill),
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
        """Opens the window on this model, in a separate process that ends when the window is closed.

        options: further arguments of the program, such as "--theme", "light", or "--script" and a file of commands.
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

    model: the path of a snapshot, recipe or figure of Afterglow, or of a folder with config.json and safetensors files; a
    model of transformers or flash-linear-attention (any object with save_pretrained); or a torch module or state_dict, with
    `config` as the contents of its config.json.
    Raises AfterglowError if there is no such path, or if a file holds no model.
    """
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if not path.exists():
            raise AfterglowError(f"cannot open {path}: there is no such file or folder", 3)
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


class Comparison:
    """Two models, or two steps of one run: figures with both, A solid and B outlined."""

    def __init__(self, a: Model, b: Model) -> None:
        self.a = a
        self.b = b

    def __repr__(self) -> str:
        return f"<afterglow.Comparison {self.a.path} {self.b.path}>"

    def figure(self, name: str, **options: Any) -> Figure:
        """As `Model.figure`. B's columns are named "B: ..", modes of B have the number of the nearest mode of A, and a map is
        the difference B - A."""
        return self.a.figure(name, against=self.b.path, **options)

    def window(self, *options: str | os.PathLike[str]) -> subprocess.Popen[bytes]:
        """Opens the window on both."""
        return self.a.window(self.b.path, *options)


def compare(a: Any, b: Any) -> Comparison:
    """Compares two models; each is a Model or anything that `open` accepts, or a checkpoint of a folder as "runs/a@500"."""
    return Comparison(*(one if isinstance(one, Model) else _open_step(one) for one in (a, b)))


def patch(model: Any, **options: Any) -> dict[str, np.ndarray]:
    """Calls `Model.patch` on a model, or on anything that `open` accepts."""
    return (model if isinstance(model, Model) else open(model)).patch(**options)


def _open_step(model: Any) -> Model:
    path, at, step = os.fspath(model).rpartition("@") if isinstance(model, (str, os.PathLike)) else ("", "", "")
    is_step = at and step.isdigit() and Path(path).is_dir() and not Path(os.fspath(model)).exists()
    return Model(os.fspath(model)) if is_step else open(model)


def _save_state(model: Any, config: Mapping[str, Any] | None, folder: Path) -> None:
    given: Any = config if config is not None else getattr(model, "config", None)
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    if given is None:
        raise AfterglowError("weights alone do not describe a model: give `config`, the contents of its config.json", 2)
    state = model.state_dict() if hasattr(model, "state_dict") else model
    text = json.dumps(dict(given), default=lambda value: str(value) if plain(value) is value else plain(value))
    (folder / "config.json").write_text(text, encoding="utf-8")
    save_tensors(folder / "model.safetensors", state, {"format": "pt"})


def _whole(numbers: Any) -> np.ndarray:
    """Token ids as an int64 array; floats are refused, because truncating them would be a guess."""
    try:
        array = np.asarray(numbers.detach().cpu() if hasattr(numbers, "detach") else numbers)
    except ValueError as error:
        raise AfterglowError("the sequences differ in length; pad them and give an attention_mask as well", 2) from error
    if array.dtype.kind not in "iu" and array.size > 0:
        raise AfterglowError(f"token ids must be whole numbers, but these are {array.dtype}; "
                             "convert texts with a tokenizer first: tokenizer(text)", 2)
    return array.astype(np.int64)


def _save_tokens(path: Path, tokens: Any) -> None:
    """Writes token ids for --tokens, and the attention mask if a tokenizer's result has one."""
    given = tokens if isinstance(tokens, Mapping) else {"input_ids": tokens}
    if "input_ids" not in given:
        raise AfterglowError(f"tokens has no 'input_ids', only {', '.join(map(str, given))}; give the result of a tokenizer", 2)
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
