#!/usr/bin/env python3
"""Lets system calls of the program fail, one by one, and checks what the program does then.

    tests/attack/faults.py PROGRAM LIBRARY [--quick] [--cases 60] [--seed 1] [--only train,sweep] [--calls malloc,open]
                           [--jobs 1] [--device cuda]

For each work (a training, a table, a plot, a window, ..) and each kind of call (tests/preload/faults.cpp is LIBRARY) the
n-th call fails, once and from then on, for one n after the other: every n up to 300, from there on each n a seventh
larger than the last, and 40 at random. --cases and --quick take fewer. Works that draw count calls of the program's own code
alone, as libraries for fonts and graphics drivers do not live through missing memory; the window needs a display. With
--device cuda it is the GPU that refuses: memory, copies, launches, recorded programs, and the wait for its results.

The program has to end with a documented code and a sentence that names what failed, leave whole files and no rests, make
the same files as in peace wherever it says that all went well, and go on when the command is given again. Ends with
code 1 when something did not hold.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, random, re, shutil, struct, subprocess, sys, tempfile

from kills import fault_of, recipe

kinds = {  # what a call may return other than 0
    "malloc": {5}, "thread": {1}, "mmap": {1, 3, 5}, "open": {1, 3}, "read": {1, 3}, "write": {1, 3}, "fsync": {1, 3},
    "close": {1, 3}, "rename": {1, 3}, "mkdir": {1, 3}}
# A GPU that has no room to begin with is no usable one.
gpu_kinds = {"gpu_memory": {4, 5}, "gpu_copy": {4}, "gpu_launch": {4}, "gpu_graph": {4, 5}, "gpu_wait": {4}}
hang = 300  # seconds after which a run that does not end is one that never does
raw = re.compile(r"std::|bad_alloc|basic_string|json\.exception|vector::|filesystem error|Unknown error|terminate called")

exported = {**recipe, "name": "plain", "model": {"d_model": 16, "vocab": 128, "blocks": [
    {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}}]}}
lesson = """# A small lesson
about: Two steps of a small model.
minutes: 1
controls: run

## It learns
say: The loss falls.
set: preset = tiny ; seed = 7
run: 2 steps
expect: step == 2
focus: spectrum
"""
script = {"commands": [
    {"name": "workspace", "value": {"name": "theory"}, "step": 2, "frame": 4},
    {"name": "export", "value": {"path": "spectrum.svg", "plot": "spectrum"}, "frame": 8},
    {"name": "save", "value": {"path": "kept.safetensors"}, "frame": 10},
    {"name": "screenshot", "value": {"path": "window.png"}, "frame": 12}, {"name": "quit", "value": {}, "frame": 14}]}

study = ["--out", "out", "--jobs", "2", "--seeds", "1"]
works = {
    "train": ["train", "--recipe", "../in/small.json", "--until", "4", "--save-steps", "2", "--out", "out", "--no-figures"],
    "figures": ["train", "--recipe", "../in/plain.json", "--until", "1", "--out", "out"],
    "resume": ["train", "--resume", "../in/small.safetensors", "--until", "4", "--out", "out", "--no-figures"],
    "table": ["table", "mqar", "--only", "attention_16", "--set", "steps=2", "--set", "batch=2", *study],
    "sweep": ["sweep", "--recipe", "../in/small.json", "--set", "steps=2", "--axis", "learning_rate=0.001,0.01", *study],
    "plot": ["plot", "spectrum", "--snapshot", "../in/small.safetensors", "--svg", "a.svg", "--pdf", "a.pdf", "--png",
             "a.png", "--csv", "a.csv"],
    "export": ["export", "../in/plain.safetensors", "--format", "transformers", "--out", "mine"],
    "arrays": ["export", "../in/small.safetensors", "--format", "npz", "--out", "mine"],
    "forward": ["forward", "../in/mine", "--tokens", "../in/ids.txt", "--out", "logits.safetensors"],
    "eval": ["eval", "../in/small.safetensors", "--examples", "4", "--csv", "grid.csv"],
    "check": ["check", "../in/lesson.md"],
    "handout": ["handout", "../in/lesson.md", "--pdf", "lesson.pdf", "--html", "lesson.html"],
    "window": ["--recipe", "../in/short.json", "--size", "640x480", "--script", "../in/script.json"],
}
drawing = {"window", "plot", "figures", "handout", "sweep", "table"}
pictures = {"window.png"}  # of a page in motion, never twice the same
times = re.compile(r"/race_")  # tell what a step took
quick_works = ["train", "sweep", "plot", "forward", "handout"]

Result = collections.namedtuple("Result", "code text seen")


def run(options, work, folder, fault="malloc 0"):
    """Runs a work in an empty folder next to `in`."""
    environment = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "AFTERGLOW_FAULT": fault,
                   "AFTERGLOW_FAULT_SEEN": str(folder.parent / (folder.name + ".seen")), "LD_PRELOAD": options.library}
    if work in drawing and options.device == "cpu":
        environment["AFTERGLOW_FAULT_OWN"] = "1"
    line = [options.program, *works[work], "--device", options.device, "--threads", "2"]
    try:
        process = subprocess.run(line, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, timeout=hang)
    except subprocess.TimeoutExpired:
        return Result("hang", "", 0)
    seen = pathlib.Path(environment["AFTERGLOW_FAULT_SEEN"])
    calls = struct.unpack("<q", seen.read_bytes())[0] if seen.exists() else 0
    return Result(process.returncode, process.stderr.decode(errors="replace"), calls)


def results(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("**/*"))
            if path.is_file() and ".cache" not in path.parts and path.name not in pictures}


def is_rest(path):
    return path.suffix in (".tmp", ".claim")


def broken_files(folder):
    found = []
    for path in sorted(path for path in folder.glob("**/*") if path.is_file() and ".cache" not in path.parts):
        try:
            fault = "is a rest" if is_rest(path) else fault_of(path)
        except Exception as error:
            fault = str(error) or type(error).__name__
        if fault:
            found.append(f"{path.relative_to(folder)}: {fault}")
    return found


def differences(folder, peace, text=""):
    """What differs from a run without faults; a file may be missing if the text names it, as the window does."""
    made = results(folder)
    found = [f"ends well without {name}" for name in peace if name not in made and name not in text]
    found += [f"ends well with another {name}" for name in peace if name in made and peace[name] not in (made[name], None)]
    return found + [f"ends well and leaves {name}" for name in made if name not in peace and not may_stay(name)]


def may_stay(name):
    """Whether a file may stay: an intermediate snapshot that cannot be read again is not recognised as one."""
    return name.endswith(".safetensors")


def judge(work, fault, result, folder, peace):
    """The failures of a command."""
    call, found = fault.split()[0], broken_files(folder)
    if result.code == 0:
        return found + differences(folder, peace, result.text)
    says_cairo = "cairo says out of memory" in result.text  # of a font that cannot be opened
    ends_script = result.code == 1 and "the script waits for a training that does not continue: " in result.text
    if result.code not in {**kinds, **gpu_kinds}[call] and not (result.code == 5 and says_cairo) and not ends_script:
        return found + [f"code {result.code}"]
    says = [line for line in result.text.splitlines() if line.startswith("afterglow: ")]
    if not says:
        found.append("says nothing")
    return found + [f"says {line}" for line in says if raw.search(line)]


def case(options, work, fault, peace, tries_again):
    folder = pathlib.Path(tempfile.mkdtemp(dir=options.folder, prefix="case_"))
    result = run(options, work, folder, fault)
    found = judge(work, fault, result, folder, peace)
    last = result.text.strip().splitlines()[-1:] or [""]
    if tries_again and result.code != 0 and work in ("table", "sweep"):
        again = run(options, work, folder)
        if again.code != 0:
            found.append(f"given again: code {again.code}, {again.text.strip()[-200:]}")
        found += [f"given again: {text}" for text in differences(folder, peace)]
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.joinpath(folder.name + ".seen").unlink(missing_ok=True)
    return result, [f"{work}, {fault}: {text} ({last[0][:160]})" for text in found]


def numbers(count, options, random_numbers):
    """Which calls of `count` fail: all of them, or the share that the options give."""
    if options.cases:
        chosen = {1, count} | {int(count ** (i / options.cases)) for i in range(options.cases)}
        return sorted(number for number in chosen if 1 <= number <= count)
    chosen = set(range(1, min(count, 300) + 1))
    at = 300
    while at < count:
        chosen.add(int(at))
        at *= 8 / 7
    if count > 300:
        chosen |= {random_numbers.randint(301, count) for _ in range(40)} | {count}
    return sorted(chosen)


def in_peace(options, work, call):
    """How often the work makes a call, and which files it writes."""
    folder = options.folder / "peace"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    calm = run(options, work, folder, call + " 0")
    if calm.code != 0:
        raise SystemExit(f"{work}: code {calm.code} without any fault: {calm.text}")
    return calm.seen, results(folder)


def attack(options, work, random_numbers, pool):
    found, peace = [], in_peace(options, work, "malloc")[1]
    for call in options.calls:
        seen, again = in_peace(options, work, call)
        # What tells measured times is now and then twice the same.
        peace = {name: None if times.search(name) or peace[name] != again.get(name) else peace[name] for name in peace}
        if not seen:
            continue
        chosen = numbers(seen, options, random_numbers)
        faults = [(f"{call} {number}{how}", index) for how in ("", " on") for index, number in enumerate(chosen)]
        if options.cases:
            faults = faults[:len(chosen)] + faults[len(chosen)::3]
        codes, here = collections.Counter(), []
        for result, problems in pool.map(lambda one: case(options, work, one[0], peace, one[1] % 5 == 0), faults):
            codes[result.code] += 1
            here += problems
        told = ", ".join(f"{code}: {number}" for code, number in sorted(codes.items(), key=str))
        print(f"{work:8} {call:7} {seen:9} calls {len(faults):5} cases, codes {told}, {len(here)} faults", flush=True)
        for problem in here[:options.shown]:
            print("    " + problem, flush=True)
        found += here
    return found


def prepare(options):
    """Writes the input files of the works with the program itself."""
    inputs = options.folder / "in"
    inputs.mkdir()
    (inputs / "lesson.md").write_text(lesson, encoding="utf-8")
    (inputs / "script.json").write_text(json.dumps(script), encoding="utf-8")
    (inputs / "ids.txt").write_text("1 2 3 4 5 6 7 8\n", encoding="utf-8")
    short = {**recipe, "training": {**recipe["training"], "steps": 2}}
    (inputs / "short.json").write_text(json.dumps(short), encoding="utf-8")
    for name, text in (("small", recipe), ("plain", exported)):
        (inputs / f"{name}.json").write_text(json.dumps({**text, "name": name}), encoding="utf-8")
        subprocess.run([options.program, "train", "--recipe", f"{name}.json", "--until", "2", "--no-figures", "--out", name,
                        "--device", "cpu", "--quiet"], cwd=inputs, check=True, stdout=subprocess.DEVNULL)
        next((inputs / name).glob("*.safetensors")).rename(inputs / f"{name}.safetensors")
    subprocess.run([options.program, "export", "plain.safetensors", "--format", "transformers", "--out", "mine", "--quiet"],
                   cwd=inputs, check=True, stdout=subprocess.DEVNULL)


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("library", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--cases", type=int, default=0, help="so many calls of each kind, from the first to the last")
    parser.add_argument("--quick", action="store_true", help="four of each kind, of a few works")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=words)
    parser.add_argument("--calls", type=words)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shown", type=int, default=20, help="faults of a kind that are written out")
    options = parser.parse_args()
    options.cases = 4 if options.quick else options.cases
    options.calls = options.calls or list(kinds if options.device == "cpu" else gpu_kinds)
    chosen = options.only or (quick_works if options.quick else list(works))
    if "window" in chosen and not os.environ.get("DISPLAY"):
        print("without a display the window is left out")
        chosen.remove("window")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    found, random_numbers = [], random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="afterglow_faults_", dir=memory) as name:
        options.folder = pathlib.Path(name)
        prepare(options)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for work in chosen:
                found += attack(options, work, random_numbers, pool)
    print(f"{len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
