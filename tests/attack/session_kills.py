#!/usr/bin/env python3
"""Kills window, line and session of a training elsewhere at random moments, and checks that nothing is lost.

    tests/attack/session_kills.py PROGRAM [--kills 300] [--seed 1]

A window shows a session through a pipe. Again and again one of the three is killed: the line and the session while a
window watches, which must come back to the step that it had; the window, after which the next one must find the run. A
second window must hear that there is one. At the end the session is stopped: no process may stay, and what the
window showed last must have the weights of a training that nothing disturbed. Ends with code 1 when something was wrong,
77 where no window can open.
"""
import argparse, json, os, pathlib, random, shutil, signal, subprocess, sys, tempfile, time

recipe = {
    "name": "small", "seed": 3,
    "model": {"d_model": 16, "vocab": 128, "blocks": [
        {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}, "mlp": {"kind": "swiglu", "d_ff": 24}}]},
    "task": {"kind": "sysprompt", "bindings": 2, "length": 24},
    "training": {"steps": 1000000, "batch": 4, "learning_rate": 0.003, "warmup": 5, "evaluate_every": 0}}
patience = 120  # seconds


class Failure(Exception):
    pass


class Place:
    """A folder with the environment of everything that runs in it."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.environment = dict(os.environ, TMPDIR=str(folder), XDG_RUNTIME_DIR=str(folder), HOME=str(folder), XDG_DATA_HOME=str(folder / "data"),
                                XDG_CONFIG_HOME=str(folder / "config"))
        (folder / "small.json").write_text(json.dumps(recipe))
        self.status = folder / "status.json"
        commands = [{"name": "status", "value": {"path": str(self.status)}},
                    {"name": "speed", "value": {"to": 20}}, {"name": "run"}]
        (folder / "script.json").write_text(json.dumps(commands))

    def run(self, *words):
        return subprocess.run([self.program, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True)

    def window(self, *words):
        line = [self.program, "--through", f"{self.program} session --connect", "--device", "cpu", "--threads", "1",
                "--size", "640x400", *words]
        self.output = open(self.folder / "window.txt", "w")
        return subprocess.Popen(line, env=self.environment, cwd=self.folder, stdout=self.output, stderr=self.output)

    def processes(self, *words):
        """Ids of the program's processes in this place, with all of these words as arguments."""
        mark, found = f"TMPDIR={self.folder}".encode(), []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
                mine = mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mine and line[0] == self.program.encode() and all(word.encode() in line for word in words):
                found.append(int(entry.name))
        return found

    def shown(self):
        try:
            run = json.loads(self.status.read_text())["run"]
        except (OSError, ValueError):
            return None
        return run if run["recipe"] else None


def wait_for(what, condition):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise Failure(f"waited in vain until {what}")


def kill(processes):
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def comes_back(place, window, step):
    """Waits until the window shows the run at least where it was."""
    before = place.status.stat().st_mtime_ns if place.status.exists() else 0

    def is_back():
        if window.poll() is not None:
            raise Failure(f"the window ended with {window.returncode}: {(place.folder / 'window.txt').read_text()}")
        run = place.shown()
        is_news = place.status.exists() and place.status.stat().st_mtime_ns > before
        return run if run and is_news and run["step"] >= step else None
    try:
        return wait_for(f"step {step} is shown again", is_back)
    except Failure as failure:
        run = dict(place.shown() or {}, recipe="..")
        raise Failure(f"{failure}; it shows {run}, sessions {place.processes('--listen')}, lines {place.processes('--connect')}")


def new_window(place, step, *words):
    """The session may take a moment to notice that the window before has gone."""
    for _ in range(20):
        window = place.window("--script", "script.json", *words)
        try:
            return window, comes_back(place, window, step)
        except Failure:
            if "another window" not in (place.folder / "window.txt").read_text():
                raise
            time.sleep(0.5)
    raise Failure("no window gets the session")


def attack(place, kills, numbers):
    counts = {"line": 0, "session": 0, "window": 0, "second window": 0}
    window, run = new_window(place, 1, "--recipe", "small.json")
    for number in range(kills):
        time.sleep(numbers.uniform(0, 1))
        run = place.shown() or run
        target = numbers.choice(["line", "line", "session", "window"])
        counts[target] += 1
        if target == "window":
            kill([window.pid])
            window.wait()
            window, run = new_window(place, run["step"])
        else:
            word = "--connect" if target == "line" else "--listen"
            killed = place.processes(word)
            kill(killed)
            wait_for(f"another {target} begins", lambda: set(place.processes(word)) - set(killed))
            run = comes_back(place, window, run["step"])
        if target == "window" and counts[target] % 5 == 1:  # the first one has just got the session
            second = place.window("--frames", "3")
            code = second.wait(patience)
            said = (place.folder / "window.txt").read_text()
            counts["second window"] += 1
            if code != 1 or "another window shows this session" not in said:
                raise Failure(f"the second window ended with {code}: {said}")
        if number % 25 == 24:
            print(f"{number + 1} kills, step {run['step']}", flush=True)
    for _ in range(5):  # what the window had received of a session that was killed
        before = place.status.stat().st_mtime_ns
        wait_for("the page goes on", lambda: place.status.stat().st_mtime_ns > before)
    wait_for("there is a checksum", lambda: (place.shown() or {"checksum_step": 0})["checksum_step"] > 0)
    wait_for("a session answers", lambda: "process" in place.run("session", "--list").stdout)
    stopped = place.run("session", "--stop")
    if stopped.returncode != 0:
        raise Failure(f"--stop: {stopped.stderr}")
    kill([window.pid])
    window.wait()
    time.sleep(1)
    left = place.processes()
    if left:
        lines = [pathlib.Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode() for process in left]
        raise Failure(f"processes stay: {lines}")
    run = place.shown()
    step = run["checksum_step"]
    alone = json.loads(place.run("train", "--recipe", "small.json", "--until", str(step), "--device", "cpu", "--threads", "1",
                                 "--no-figures", "--json", "--quiet").stdout)
    if alone["checksum"] != run["checksum"]:
        raise Failure(f"step {step} has {run['checksum']}, a training alone {alone['checksum']}")
    print(f"{counts['line']} lines, {counts['session']} sessions and {counts['window']} windows killed, "
          f"{counts['second window']} second windows told; step {step} has the weights {run['checksum']} of a training alone")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not os.environ.get("DISPLAY"):
        if not shutil.which("xvfb-run"):
            sys.exit(77)
        os.execvp("xvfb-run", ["xvfb-run", "-a", sys.executable, *sys.argv])
    program = str(pathlib.Path(arguments.program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        place = Place(program, pathlib.Path(folder))
        try:
            attack(place, arguments.kills, random.Random(arguments.seed))
        except Failure as failure:
            print(f"failed: {failure}")
            sys.exit(1)
        finally:
            kill(place.processes())


main()
