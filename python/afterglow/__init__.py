"""Afterglow from Python: train small sequence models, analyse what they remember, get the numbers.

    import afterglow
    run = afterglow.train("tiny", steps=200, learning_rate=1e-3)
    run.curves["loss"]                  # NumPy arrays
    run.spectrum()                      # complex eigenvalues of the Koopman operator
    run.figure("spectrum")              # shown as SVG in a notebook
    afterglow.patch(run)                # which place carries the answer, and its attribution
    afterglow.open("mamba2-130m").forward([[1, 2, 3]])

Everything is computed by the program `afterglow`, which is inside this package; its JSON and safetensors files are what
is read here, so the numbers are those that the window and the command line show.
"""

from ._layer import LayerResult, layer
from ._model import Figure, Generated, Model, open, patch
from ._program import AfterglowError, program
from ._run import Run, train
from ._tensors import load_tensors, save_tensors

__all__ = [
    "AfterglowError", "Figure", "Generated", "LayerResult", "Model", "Run",
    "layer", "load_tensors", "open", "patch", "program", "save_tensors", "train",
]
