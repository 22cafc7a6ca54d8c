#!/usr/bin/env python3
"""Runs Afterglow on a folder of small inputs that other programs wrote, and compares with what is right for each.

    tests/cases.py PROGRAM FOLDER [--device cuda] [--only TEXT]

FOLDER/README.md says what is right. Folders of models hold expected.safetensors: `input_ids`, and the `logits` of the
library that wrote the folder. Prints one line for each input, then "N passed, N failed"; exit code 1 where one failed.
Needs nothing but Python. A row is a function with @row("name of the input"): it returns None, or what is wrong.
"""
import argparse
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROWS = []
TOLERANCE = 2e-5


def row(name):
    """Adds the function to the rows, under the name of the input."""
    return lambda function: ROWS.append((name, function)) or function


def read_tensor(path, name):
    """Shape and values of a tensor of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:begin])[name]
    first, last = entry["data_offsets"]
    kind = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}[entry["dtype"]]
    return entry["shape"], array.array(kind, data[begin + first : begin + last])


def relative_error(got, want):
    """|got - want| / |want|; infinite where a number is not finite."""
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want))
    return error if math.isfinite(error) else math.inf


class Cases:
    """The program, the folder of inputs, and an empty folder for results."""

    def __init__(self, program, inputs, device, out):
        self.program, self.inputs, self.device, self.out = program, inputs, device, out

    def run(self, *words):
        """One command; its paths may be relative to the folder of results."""
        command = [self.program, *map(str, words), "--device", self.device]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.out)

    def forward(self, model, tokens):
        """The command, and shape and values of the logits that it wrote; None, None where it failed."""
        file = self.out / "logits.safetensors"
        result = self.run("forward", model, "--tokens", tokens, "--out", file, "--force")
        return (result, *(read_tensor(file, "logits") if result.returncode == 0 else (None, None)))

    def compare(self, model, *words, tokens=None):
        """Logits of a model's folder with the ones expected; stderr must contain the words."""
        tokens = tokens or self.inputs / model / "expected.safetensors"
        result, shape, got = self.forward(self.inputs / model, tokens)
        if got is None:
            return f"exit code {result.returncode}: {result.stderr.strip()}"
        want_shape, want = read_tensor(tokens, "logits")
        if shape != want_shape:
            return f"logits {shape}, expected {want_shape}"
        error = relative_error(got, want)
        return f"error {error:.2e}" if error > TOLERANCE else missing_words(result.stderr, words)

    def refused(self, result, *words, code=3):
        """A command must fail with this exit code and say the words."""
        if result.returncode != code:
            return f"exit code {result.returncode}, not {code}: {result.stderr.strip()}"
        return missing_words(result.stderr, words)


def missing_words(text, words):
    absent = [word for word in words if word not in text]
    return f"does not say {absent}: {text.strip()!r}" if absent else None


@row("tf_plain")
def _(cases):
    return cases.compare("tf_plain")


@row("tf_groups2")
def _(cases):
    return cases.compare("tf_groups2", "group")


@row("flr_gdn_sigmoid")
def _(cases):
    return cases.compare("flr_gdn_sigmoid")


@row("oldfla042_m2_eps6")
def _(cases):
    return cases.compare("oldfla042_m2_eps6")


@row("st_lfs")
def _(cases):
    model = cases.inputs / "st_lfs"
    return cases.refused(cases.forward(model, model / "expected.safetensors")[0], "Git LFS pointer", "git lfs pull")


@row("nm_orig_mod")
def _(cases):
    return cases.compare("nm_orig_mod", "_orig_mod.")


@row("nm_module")
def _(cases):
    return cases.compare("nm_module", "module.")


@row("mlx_conv")
def _(cases):
    return cases.compare("mlx_conv", "MLX")


def series(name, channels, times, words=(), same_as=None, rows=420):
    """A CSV file: its channels and time columns, the words of its notes, and a file that trains to the same bits."""

    def train(cases, file):
        settings = ("--set", "task.length=24", "--set", "task.horizon=8", "--steps", 2, "--no-figures", "--json")
        return cases.run("train", "--preset", "forecast", "--data", cases.inputs / "csv" / file, *settings, "--out", "o", "--force")

    @row(f"csv/{name}")
    def _(cases):
        result = train(cases, name)
        if result.returncode != 0:
            return f"exit code {result.returncode}: {result.stderr.strip()}"
        answer = json.loads(result.stdout)
        got = [answer.get(key) for key in ("channels", "time_columns", "rows_read", "rows_in_file")]
        if got != [channels, times, rows, rows]:
            return f"channels, times, rows read and rows in the file are {got}"
        if same_as and answer["checksum"] != json.loads(train(cases, same_as).stdout)["checksum"]:
            return f"it trains to other bits than {same_as}"
        return missing_words(result.stderr, words)


series("ok.csv", ["HUFL", "OT"], ["date"])
series("epoch.csv", ["HUFL", "OT"], ["timestamp"], same_as="ok.csv")
series("unnamed0.csv", ["HUFL", "OT"], ["Unnamed: 0"], same_as="ok.csv")
series("first_empty.csv", ["HUFL", "OT"], [], ["missing"])
series("noheader.csv", ["column 2", "column 3"], ["column 1"], ["no names"], same_as="ok.csv")
series("semicolon_comma.csv", ["HUFL", "OT"], ["date"], ["decimal commas"], same_as="ok.csv")
series("trailing_comma.csv", ["HUFL", "OT"], ["date"], same_as="ok.csv")
series("miss_na.csv", ["HUFL", "OT"], ["date"], ["missing"])
series("two_time_cols.csv", ["CO(GT)"], ["Date", "Time"])
series("category.csv", ["pm2.5", "Iws"], ["date"], ["cbwd"])


@row("tokens/left_padded.safetensors")
def _(cases):
    tokens = cases.inputs / "tokens" / "left_padded.safetensors"
    result, shape, got = cases.forward(cases.inputs / "tf_plain", tokens)
    if got is None:
        return f"exit code {result.returncode}: {result.stderr.strip()}"
    mask, want = read_tensor(tokens, "attention_mask")[1], read_tensor(tokens, "logits")[1]
    real = [i for i in range(len(want)) if mask[i // shape[2]]]
    error = relative_error([got[i] for i in real], [want[i] for i in real])
    return f"error {error:.2e} at real tokens" if error > TOLERANCE else missing_words(result.stderr, ["padding"])


def tokens_row(name, rows, length):
    @row(f"tokens/{name}")
    def _(cases):
        result, shape, _ = cases.forward(cases.inputs / "tf_plain", cases.inputs / "tokens" / name)
        if shape is None:
            return f"exit code {result.returncode}: {result.stderr.strip()}"
        return None if shape[:2] == [rows, length] else f"logits {shape}"


for tokens, rows, length in (("json.txt", 2, 23), ("json_indent.json", 2, 23), ("cr.txt", 2, 23), ("fortran.npy", 2, 23),
                             ("c.npz", 2, 23), ("train.bin", 1, 46)):
    tokens_row(tokens, rows, length)


@row("tz_long")
def _(cases):
    prompt = " understanding thecafé 你好"
    result = cases.run("generate", cases.inputs / "tz_long", "--prompt", prompt, "--count", 8, "--json")
    if result.returncode != 0:
        return f"exit code {result.returncode}: {result.stderr.strip()}"
    answer = json.loads(result.stdout)
    if answer["begun"] != prompt or answer["beginning"] != [1, 2, 6, 7] or "…" in answer["text"]:
        return f"begun {answer['begun']!r} from {answer['beginning']}, text {answer['text']!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", metavar="TEXT", help="the rows whose name holds this text")
    options = parser.parse_args()
    failed = passed = 0
    for name, function in ROWS:
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as out:
            cases = Cases(options.program.resolve(), options.folder.resolve(), options.device, pathlib.Path(out))
            wrong = function(cases)
        failed, passed = failed + bool(wrong), passed + (not wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {name:32} {' '.join((wrong or '').split())}".rstrip(), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
