#!/usr/bin/env python3
"""Times layers and decoding of other libraries against ours, in one job on one machine.

    tests/benchmarks/peers/peers.py PROGRAM [--device cuda] [--only WORDS] [--skip WORDS] [--repeats 30] [--decode 130m,..] [--json FILE]

Every case is a row of `afterglow bench`. Peers get the same sizes and the same precision, and are launched as Python does, as
a CUDA graph, and as a CUDA graph of what torch.compile makes: medians of forward and backward pass, each with a wait for the
GPU, as `bench` measures ours. Our row is measured before and after its peers. Peers hold their weights in bfloat16 where the
precision says so, ours stay float32 in training. Decoding compares the tokens too, and the time of reading the prompt: a
random model of transformers, whose folder both open. A package that is missing is named. This file needs nothing but Python; worker.py runs one peer.
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec

WORKER = pathlib.Path(__file__).with_name("worker.py")
WAYS = ("eager", "graph", "compiled graph")
PROMPT, WRITTEN = 2048, 64


@dataclasses.dataclass
class Peer:
    name: str
    package: str  # that must be importable
    make: str  # function of worker.py
    config: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    row: str  # of `afterglow bench`
    shape: tuple  # batch, tokens, width
    peers: list


def attention(heads):
    return [Peer(f"torch attention, {name}", "torch", "attention", {"heads": heads, "backend": backend})
            for name, backend in (("cuDNN", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION"))]


def mamba2(**sizes):
    return [Peer("transformers Mamba2Mixer", "transformers", "mamba2_mixer", sizes),
            Peer("mamba_ssm Mamba2", "mamba_ssm", "mamba2_fused", sizes)]


def fla(layer, **sizes):
    return [Peer(f"fla {layer}", "fla", "fla_layer", {"layer": layer, **sizes})]


LONG = (8, 2048, 448)
CASES = [
    Case("layer attention B16 T64 d128", (16, 64, 128), attention(4)),
    Case("figure 3b T2048 attention", (4, 2048, 1024), attention(8)),
    Case("figure 3b T8192 attention", (4, 8192, 1024), attention(8)),
    Case("layer mamba2 B8 T2048 d448", LONG, mamba2(states=64, head=64, expand=2)),
    Case("figure 3b T2048 mamba2", (4, 2048, 1024), mamba2(states=128, head=128, expand=1)),
    Case("layer deltanet B8 T2048 d448", LONG, fla("DeltaNet", num_heads=7, use_gate=True)),
    Case("layer gated_deltanet B8 T2048 d448", LONG, fla("GatedDeltaNet", num_heads=7, head_dim=64, expand_v=1)),
    Case("layer kda B8 T2048 d448", LONG, fla("KimiDeltaAttention", num_heads=7, head_dim=64)),
    Case("layer gla B8 T2048 d448", LONG, fla("GatedLinearAttention", num_heads=7, expand_k=1, use_short_conv=True)),
]


def mamba2_model(width, layers, words=50288):
    return {"model_type": "mamba2", "hidden_size": width, "num_hidden_layers": layers, "vocab_size": words, "state_size": 128,
            "head_dim": 64, "expand": 2, "num_heads": 2 * width // 64, "n_groups": 1}


def qwen3_5_model(width, layers, hidden):
    return {"model_type": "qwen3_5_text", "hidden_size": width, "num_hidden_layers": layers, "intermediate_size": hidden,
            "num_attention_heads": 8, "num_key_value_heads": 2, "linear_num_value_heads": 16, "tie_word_embeddings": True}


# Random models of transformers, whose other sizes are its defaults.
MODELS = {"tiny": mamba2_model(64, 2, 256),  # for tests
          "130m": mamba2_model(768, 24), "2.7b": mamba2_model(2560, 64), "qwen3_5-0.8b": qwen3_5_model(1024, 24, 3584)}


def ours(options, *arguments):
    """The JSON object of a command of the program."""
    how = ["--device", options.device, "--precision", options.precision, "--json", "--quiet"]
    command = [str(options.program), *map(str, arguments), *how]
    run = subprocess.run(command, capture_output=True, text=True)
    try:
        answer = json.loads(run.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        answer = {}
    if not answer.get("ok"):
        sys.exit(f"{' '.join(command)}: {answer.get('error') or run.stderr.strip() or run.returncode}")
    return answer


def our_row(options, row, *model):
    rows = ours(options, "bench", row, *model, "--repeats", options.repeats)["rows"]
    found = [one for one in rows if one["name"] == " ".join([row, *map(str, model)])]
    if not found:
        sys.exit(f"{options.program} bench has no row \"{row}\"")
    return found[0]


def work(options, **task):
    """What worker.py says, an object a line; the last one names why it ended early."""
    task = {**task, "device": options.device, "precision": options.precision, "repeats": options.repeats}
    process = subprocess.Popen([sys.executable, WORKER, json.dumps(task)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    try:
        out, err = process.communicate(timeout=options.seconds)
        why = (err.strip().splitlines() or [f"exit code {process.returncode}"])[-1] if process.returncode else ""
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        why = f"ended after {options.seconds:g} s"
    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return answers + ([{"why_not": why}] if why else [])


def missing(package):
    return "" if find_spec(package) else f"{package} is not installed"


def with_medians(answers, ways=WAYS):
    """{"eager": {"ms": median}, "graph": {"why_not": ..}, ..}; every way has an entry."""
    result, reason = {}, "not reached"
    for answer in answers:
        if "way" not in answer:
            reason = answer.get("why_not", reason)
            continue
        way = {key: answer[key] for key in ("why_not", "tokens") if key in answer}
        if answer.get("times"):
            way["ms"] = statistics.median(answer["times"])
        result[answer["way"]] = way
    return {way: result.get(way, {"why_not": reason}) for way in ways}


def measure_peer(options, peer, shape):
    why = missing(peer.package)
    if why:
        return {"name": peer.name, "why_not": why}
    return {"name": peer.name, "ways": with_medians(work(options, make=peer.make, shape=shape, config=peer.config))}


def measure(options, case):
    times = [our_row(options, case.row)["median_ms"]]
    peers = [measure_peer(options, peer, case.shape) for peer in case.peers if not options.skip or options.skip not in peer.name]
    times.append(our_row(options, case.row)["median_ms"])
    return [{"row": case.row, "precision": options.precision, "ours_ms": statistics.median(times), "ours": times, "peers": peers}]


def agreement(ours, theirs):
    """How many tokens from the first on are the same."""
    return next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))


def measure_decoding(options, name):
    """Two rows: milliseconds a token of greedy decoding, and of the prompt before it, which is read at once."""
    rows = [{"row": f"{what} {name}", "precision": options.precision} for what in ("generate", "prompt of")]
    peer = {"name": "transformers, with the kernels that are installed"}
    why = missing("transformers")
    if why:
        return [{**row, "peers": [{**peer, "why_not": why}]} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        made = work(options, make="random_model", folder=folder, config=MODELS[name])
        if made:
            return [{**row, "peers": [{**peer, "why_not": made[-1]["why_not"]}]} for row in rows]
        prompt, file = [i % 200 for i in range(PROMPT)], pathlib.Path(folder) / "prompt.json"
        file.write_text(json.dumps(prompt))
        measured = [our_row(options, "generate", folder)]
        greedy = ["--count", WRITTEN, "--temperature", 0, "--prefill"]
        answered = ours(options, "generate", folder, "--tokens", file, *greedy)["tokens"]
        ways = with_medians(work(options, make="decode", folder=folder, prompt=prompt, written=WRITTEN), ("prompt", *WAYS))
        measured.append(our_row(options, "generate", folder))
    for way in ways.values():
        if "tokens" in way:
            way["same_tokens"] = agreement(answered, way.pop("tokens"))
    reading = {"eager": ways.pop("prompt")}
    for row, key, its_ways in zip(rows, ("median_ms", "prefill_ms"), (ways, reading)):
        times = [one[key] for one in measured]
        row.update(ours_ms=statistics.median(times), ours=times, peers=[{**peer, "ways": its_ways}])
    return rows


def told(way, ours_ms):
    if "ms" not in way:
        return way.get("why_not", "no time")
    text = f"{way['ms']:.3f} ms ({way['ms'] / ours_ms:.2f} x ours)"
    if "same_tokens" in way:
        text += f", the first {way['same_tokens']} of {WRITTEN} tokens are ours"
    return text


def table(rows):
    """Lines: ours, then each peer with its ways; the best way comes last."""
    lines = []
    for row in rows:
        title = f"{row['row']}, {row['precision']}"
        if "ours_ms" in row:
            title += f": ours {row['ours_ms']:.3f} ms ({min(row['ours']):.3f} to {max(row['ours']):.3f})"
        lines.append(title)
        for peer in row["peers"]:
            if "why_not" in peer:
                lines.append(f"  {peer['name']}: not measured, {peer['why_not']}")
                continue
            lines.append(f"  {peer['name']}")
            lines += [f"    {way:<15} {told(answer, row['ours_ms'])}" for way, answer in peer["ways"].items()]
            best = min((one["ms"] for one in peer["ways"].values() if "ms" in one), default=None)
            if best is not None:
                lines.append(f"    {'best':<15} {best / row['ours_ms']:.2f} x ours")
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--precision", help="bf16, on a processor fp32", choices=("fp32", "tf32", "bf16"))
    parser.add_argument("--only", default="", metavar="WORDS", help="cases with these words in their row")
    parser.add_argument("--skip", metavar="WORDS", help="peers with these words in their name are left out")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=90, help="longest time of one peer")
    parser.add_argument("--decode", default="130m", metavar="NAMES", help=f"models of {', '.join(MODELS)}; empty: no decoding")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    options.precision = options.precision or ("bf16" if options.device == "cuda" else "fp32")
    models = [name for name in options.decode.split(",") if name and options.only in f"generate {name}"]
    unknown = [name for name in models if name not in MODELS]
    if unknown:
        sys.exit(f"--decode: {', '.join(unknown)} is not one of {', '.join(MODELS)}")
    rows, printed = [], 0
    for measured in [*(lambda case=case: measure(options, case) for case in CASES if options.only in case.row),
                     *(lambda name=name: measure_decoding(options, name) for name in models)]:
        rows += measured()
        print("\n".join(table(rows[printed:])), flush=True)
        printed = len(rows)
    if not rows:
        sys.exit(f"no case has \"{options.only}\" in its row")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1))
    return rows


if __name__ == "__main__":
    main()
