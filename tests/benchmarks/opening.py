#!/usr/bin/env python3
"""Times how large models of transformers open: the window's first picture, and the map of half-lives.

    tests/benchmarks/opening.py PROGRAM --work FOLDER [--models mamba2-1b,..] [--device cuda] [--window] [--json]

Writes a random bfloat16 checkpoint of each model into FOLDER/NAME, unless it is there (this alone needs torch and
transformers; no model is built in memory), then runs `afterglow plot half_lives` on it twice, and with --window, which needs
a display, opens it until its first picture. Says seconds, peak memory of the process and, on CUDA, of the device. Exit code
1 where a picture takes more than 2 s or the faster map more than 10 s.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

PICTURE, MAP = 2.0, 10.0  # seconds at most


def mamba2(width, layers):
    return {"model_type": "mamba2", "hidden_size": width, "num_hidden_layers": layers, "vocab_size": 50288, "state_size": 128,
            "head_dim": 64, "expand": 2, "num_heads": 2 * width // 64, "n_groups": 1, "tie_word_embeddings": True}


def qwen3_5(width, layers, hidden, heads):
    return {"model_type": "qwen3_5_text", "hidden_size": width, "num_hidden_layers": layers, "intermediate_size": hidden,
            "num_attention_heads": heads, "num_key_value_heads": heads // 4, "linear_num_value_heads": 2 * heads,
            "tie_word_embeddings": True}


MODELS = {"tiny": mamba2(64, 2), "mamba2-1b": mamba2(2048, 48), "mamba2-7b": mamba2(4096, 64),
          "qwen3_5-0.8b": qwen3_5(1024, 24, 3584, 8), "qwen3_5-7b": qwen3_5(4096, 28, 12288, 16)}


def make(name, folder):
    """Weights tensor by tensor, in files of some gigabytes: a model of 7 B never is in memory as a whole."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM
    config = AutoConfig.for_model(**MODELS[name], bos_token_id=0, eos_token_id=0, pad_token_id=0)
    with torch.device("meta"):
        shapes = {key: value.shape for key, value in AutoModelForCausalLM.from_config(config).state_dict().items()}
    if MODELS[name]["tie_word_embeddings"]:
        shapes.pop("lm_head.weight", None)
    folder.mkdir(parents=True)
    device, file, size, places = "cuda" if torch.cuda.is_available() else "cpu", {}, 0, {}

    def write():
        part = f"model-{len(set(places.values())) + 1:05}.safetensors"
        save_file(file, folder / part, {"format": "pt"})
        places.update({key: part for key in file})
        file.clear()

    for key, shape in shapes.items():
        if key.endswith("A_log"):
            value = torch.rand(shape, device=device).mul_(15).add_(1).log_()
        elif key.endswith("dt_bias"):
            value = torch.rand(shape, device=device).mul_(5).sub_(7)  # steps from 0.001 to 0.1
        elif len(shape) == 1:
            value = torch.ones(shape, device=device) if "norm" in key else torch.zeros(shape, device=device)
        else:
            value = torch.randn(shape, device=device, dtype=torch.bfloat16).mul_(shape[-1] ** -0.5)
        file[key] = value.to("cpu", torch.bfloat16).contiguous()
        size += file[key].nbytes
        if size > 4 << 30:
            write()
            size = 0
    write()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    config.save_pretrained(folder)


class DeviceMemory(threading.Thread):
    """The most that the GPUs hold, in MiB, asked five times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()

    def run(self):
        ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while not self.ended.wait(0.2):
            answer = subprocess.run(ask, capture_output=True, text=True).stdout
            self.most = max([self.most, *(int(line) for line in answer.split() if line.isdigit())])


def measure(command, picture=None):
    """Seconds until the process ends, or until the file `picture` is there; its peak memory in MiB."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds = None
    while picture and seconds is None and process.poll() is None:
        seconds = time.monotonic() - start if picture.exists() else None
        time.sleep(0.005)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: {said.strip()}")
    return {"seconds": round(seconds if picture else time.monotonic() - start, 2), "peak_mib": used.ru_maxrss // 1024}


def measure_model(options, name):
    folder = options.work / name
    if not folder.exists():  # in a process of its own: the memory of one that begins others counts as theirs
        subprocess.run([sys.executable, __file__, "--make", name, "--work", options.work, options.program], check=True)
    program = [options.program.resolve(), "--device", options.device]
    row = {"model": name, "gigabytes": round(sum(file.stat().st_size for file in folder.iterdir()) / 1e9, 2), "maps": []}
    with tempfile.TemporaryDirectory() as scratch:
        if options.window:
            picture = pathlib.Path(scratch) / "first.png"
            row["picture"] = measure([*program, folder, "--frames", "1", "--screenshot", picture], picture)
        for _ in range(2):
            memory = DeviceMemory()
            if options.device == "cuda":
                memory.start()
            out = pathlib.Path(scratch) / "map.csv"
            row["maps"].append(measure([program[0], "plot", "half_lives", "--snapshot", folder, "--csv", out, "--force",
                                        *program[1:]]))
            memory.ended.set()
            row["maps"][-1]["device_mib"] = memory.most
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--models", default="mamba2-1b,qwen3_5-0.8b")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--window", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--make", help="only writes this model")
    options = parser.parse_args()
    if options.make:
        make(options.make, options.work / options.make)
        return 0
    held = True
    for name in options.models.split(","):
        row = measure_model(options, name)
        best = min(one["seconds"] for one in row["maps"])
        held = held and best <= MAP and row.get("picture", {"seconds": 0})["seconds"] <= PICTURE
        if options.json:
            print(json.dumps(row), flush=True)
            continue
        picture = f"first picture {row['picture']['seconds']} s; " if "picture" in row else ""
        times = ", ".join(f"{one['seconds']} s ({one['peak_mib']} MiB, device {one['device_mib']})" for one in row["maps"])
        print(f"{name}, {row['gigabytes']} GB on {options.device}: {picture}map of half-lives {times}", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
