#!/usr/bin/env python3
"""Compares the logits of `afterglow forward` with those that the libraries themselves gave.

    tests/checkpoints.py PROGRAM FOLDER [--device cuda] [--tolerance 2e-5]

FOLDER holds folders of models, each with expected.safetensors: `input_ids`, and the `logits` of transformers or
flash-linear-attention. Says |got - expected| / |expected| of each; exit code 1 where one is more than the tolerance. Needs
nothing but Python.
"""
import argparse
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile


def read_floats(path, name):
    """Shape and values of a float32 tensor of a safetensors file."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:begin])[name]
    if entry["dtype"] != "F32":
        raise ValueError(f"{path}: {name} is {entry['dtype']}, not F32")
    first, last = entry["data_offsets"]
    return entry["shape"], array.array("f", data[begin + first : begin + last])


def compare(program, model, device):
    """Relative error of the model's logits; else why there are no logits."""
    expected = model / "expected.safetensors"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.safetensors"
        command = [program, "forward", model, "--tokens", expected, "--out", out, "--device", device]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            return f"exit code {run.returncode}: {run.stderr.strip()}"
        shape, want = read_floats(expected, "logits")
        other, got = read_floats(out, "logits")
    if shape != other:
        return f"logits {other}, expected {shape}"
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want))
    return error if math.isfinite(error) else "logits are not finite"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tolerance", type=float, default=2e-5)
    options = parser.parse_args()
    models = sorted(file.parent for file in options.folder.glob("*/expected.safetensors"))
    if not models:
        sys.exit(f"{options.folder}: no folder in it has expected.safetensors")
    held = True
    for model in models:
        error = compare(options.program.resolve(), model, options.device)
        good = not isinstance(error, str) and error <= options.tolerance
        held = held and good
        said = error if isinstance(error, str) else f"{error:.2e}"
        print(f"{'ok  ' if good else 'FAIL'} {model.name:32} {said}", flush=True)
    print(f"{len(models)} models on {options.device}: {'all' if held else 'not all'} within {options.tolerance:g}")
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
