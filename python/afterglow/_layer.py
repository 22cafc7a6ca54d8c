"""One layer alone, forward and backward."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._program import call, json_text
from ._tensors import as_array, load_tensors, save_tensors


@dataclass(frozen=True)
class LayerResult:
    """Output and gradients of one layer, in float32, or float64 if it was asked for.

    y: [batch, tokens, width]. gradients: those of the weights by name, and that of the input as "x", each in the shape of
    what it belongs to. probes: intermediate values by name, such as operators and eigenvalues.
    """

    y: np.ndarray
    gradients: dict[str, np.ndarray]
    probes: dict[str, np.ndarray]


def layer(kind: str, params: Mapping[str, Any], x: Any, *, grad_y: Any = None, float64: bool = False,
          device: str = "cpu", **config: Any) -> LayerResult:
    """Runs a layer forward and backward on x [batch, tokens, width]; x becomes float32.

    kind: "ska", "gka", "mamba2", ... (`afterglow info` lists them). params: its weights by name, as arrays or torch tensors,
    for example a state_dict. config: its sizes, as in a recipe. grad_y: the gradient of the loss with respect to y, in the
    shape of y; ones if it is left out. float64: computes in double precision. device: "cpu", "cuda" or "auto".
    Raises AfterglowError for a missing weight or a wrong shape, which it names.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "layer.safetensors"), Path(folder, "result.safetensors")
        x = as_array(x).astype(np.float32)
        tensors: dict[str, Any] = {f"param.{name}": value for name, value in params.items()}
        tensors |= {"x": x, "grad_y": np.ones_like(x) if grad_y is None else as_array(grad_y).astype(np.float32)}
        save_tensors(asked, tensors, {"layer": kind, "config": json_text(config)})
        call("layer", asked, "--out", answered, "--device", device, *(["--float64"] if float64 else []))
        results = dict(load_tensors(answered))
    return LayerResult(results["y"], _below(results, "grad."), _below(results, "probe."))


def _below(tensors: Mapping[str, np.ndarray], start: str) -> dict[str, np.ndarray]:
    return {name[len(start):]: value for name, value in tensors.items() if name.startswith(start)}
