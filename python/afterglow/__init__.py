"""Afterglow from Python: train small sequence models, analyse what they remember, get the numbers.

    import afterglow
    run = afterglow.train("tiny", steps=200, learning_rate=1e-3)
    run.curves["loss"]                  # NumPy arrays
    run.spectrum()                      # complex eigenvalues of the Koopman operator
    run.figure("spectrum")              # shown as SVG in a notebook
    afterglow.patch(run)                # activation patching: which values carry the answer
    afterglow.open("mamba2-130m").forward([[1, 2, 3]])

The program `afterglow`, which is inside this package, computes everything. These functions run it and read its JSON and
safetensors files, so the numbers are those that the window and the command line show.
"""

from ._layer import LayerResult, layer
from ._model import Comparison, Figure, Generated, Model, compare, open, patch
from ._program import AfterglowError, program
from ._run import Run, train
from ._tensors import load_tensors, save_tensors
from ._watch import LightningCallback, TrainerCallback, Watch, watch

__all__ = [
    "AfterglowError", "Comparison", "Figure", "Generated", "LayerResult", "LightningCallback", "Model", "Run", "TrainerCallback", "Watch",
    "compare", "layer", "load_tensors", "open", "patch", "program", "save_tensors", "train", "watch",
]
