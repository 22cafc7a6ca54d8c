#!/usr/bin/env python3
"""Kills the program at random moments, as a power cut would, and checks the files that it leaves.

    tests/attack/kills.py PROGRAM [--kills 1000] [--seed 1] [--only train,sweep,table]

Each work (a training with snapshots, a sweep, a table) is started again and again in one folder and killed;
after each kill every file there must be whole. Then the work is left in peace: its results must be those of a folder in
which nothing was killed, byte for byte, and no rests may lie next to them. Ends with code 1 when something was wrong.
"""
import argparse, json, pathlib, random, struct, subprocess, tempfile, time

recipe = {
    "name": "small", "seed": 3,
    "model": {"d_model": 16, "vocab": 128, "blocks": [
        {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
        {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}, "mlp": {"kind": "koopman_mlp", "dk": 16}}]},
    "task": {"kind": "sysprompt", "bindings": 2, "length": 24},
    "training": {"steps": 120, "batch": 4, "learning_rate": 0.003, "warmup": 5, "evaluate_every": 10, "evaluate_examples": 8}}
study = ["--save-steps", "10", "--jobs", "2", "--out", "out"]
works = {
    "train": ["train", "--recipe", "../small.json", "--no-figures", "--force", "--save-steps", "10", "--out", "out"],
    "sweep": ["sweep", "--recipe", "../small.json", "--axis", "learning_rate=0.001,0.003,0.01",
              "--axis", "layers.1.ska.ridge=0.001,0.1", *study],
    "table": ["table", "mqar", "--only", "attention_16", "--seeds", "3", "--set", "steps=25", "--set", "batch=2", *study],
}


def newest_snapshot(folder):
    snapshots = sorted(folder.glob("out/*.safetensors"), key=lambda path: path.stat().st_mtime)
    return snapshots[-1] if snapshots else None


def command(program, work, folder):
    """A training resumes from the newest snapshot; sweeps and tables find theirs themselves."""
    line = [program, *works[work], "--device", "cpu", "--threads", "1", "--quiet"]
    snapshot = newest_snapshot(folder) if work == "train" else None
    if snapshot:
        line[2:4] = ["--resume", str(snapshot)]
    return line


def fault_of(path):
    """Why a file is not whole, or nothing. Claims and unfinished files may be of any size."""
    data = path.read_bytes()
    if path.suffix == ".json":
        json.loads(data)
    elif path.suffix == ".csv" and not data.endswith(b"\n"):
        return "its last line has no end"
    elif path.suffix == ".svg" and not data.rstrip().endswith(b"</svg>"):
        return "it has no end"
    elif path.suffix == ".safetensors":
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        end = max(tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
        if 8 + length + end != len(data):
            return "its length is not that of its header"
    return None


def faults(folder):
    found = []
    for path in sorted(folder.glob("out/**/*")):
        if path.is_dir() or path.suffix in (".tmp", ".claim"):
            continue
        try:
            fault = fault_of(path)
        except (ValueError, struct.error) as error:
            fault = str(error)
        if fault:
            found.append(f"{path}: {fault}")
    return found


def results(folder):
    """The results of a work: of a training its last snapshot and curves, of other works everything but snapshots."""
    kept = [path for path in sorted(folder.glob("out/**/*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept if path.suffix != ".pdf"}


def attack(program, work, kills, random_numbers, folder):
    peace, war = folder / f"{work}_peace", folder / f"{work}_war"
    for place in (peace, war):
        place.mkdir()
    start = time.monotonic()
    subprocess.run(command(program, work, peace), cwd=peace, check=True, capture_output=True)
    whole = time.monotonic() - start
    found, done = [], 0
    while done < kills:
        process = subprocess.Popen(command(program, work, war), cwd=war, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(random_numbers.uniform(0, 1.1 * whole))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
            found += faults(war)
            continue
        if process.returncode != 0:
            found.append(f"{work}: code {process.returncode} from {' '.join(command(program, work, war))}")
            break
        found += differences(work, peace, war)
        for path in sorted(war.glob("out/**/*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    subprocess.run(command(program, work, war), cwd=war, check=True, capture_output=True)
    found += differences(work, peace, war)
    print(f"{work}: {done} kills, {len(found)} faults")
    return found


def differences(work, peace, war):
    left, right = results(peace), results(war)
    found = [f"{work}: {name} differs" for name in left if name in right and left[name] != right[name]]
    found += [f"{work}: {name} is missing" for name in left if name not in right]
    return found + [f"{work}: {name} is a rest" for name in right if name not in left]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(works))
    options = parser.parse_args()
    random_numbers = random.Random(options.seed)
    found = []
    with tempfile.TemporaryDirectory(prefix="afterglow_kills_") as name:
        folder = pathlib.Path(name)
        (folder / "small.json").write_text(json.dumps(recipe), encoding="utf-8")
        for work in options.only:
            found += attack(options.program, work, options.kills // len(options.only), random_numbers, folder)
    for fault in dict.fromkeys(found):
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
