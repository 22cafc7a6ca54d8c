#!/usr/bin/env python3
"""Walks through lessons as a presenter does, by keys alone, in presentation mode, and says where a key that was pressed
by mistake was not mended.

    tests/window/walk_lessons.py PROGRAM FOLDER [--lessons a,b] [--sizes 1280x720,..] [--steps 1,2]

Every step is done twice: the first time with the wrong answer and then keys that change layer, head, selection, probe
and training; Shift Page Up has to bring back exactly the moment at which the step began, and the second time, with the
right answer, exactly the moment at which it ended. What the window holds is read from its status file. FOLDER gets a
picture of every step, LESSON/SIZE/STEP.png (and STEP_asked.png while its question is open), and index.html. Needs Xvfb,
xdotool and ImageMagick's import.
"""
import argparse, html, json, os, pathlib, subprocess, sys, tempfile, time

all_sizes = ["1280x720", "1920x1080", "1024x768"]
wrong_keys = ["n", "h", "m", "x", "ctrl+Up", "Tab", "Return", "Right", "r", "Escape"]
longest_wait = 600  # seconds, for what a step trains and measures


class Display:
    """A screen of its own, so that nothing else takes the keyboard."""

    def __init__(self):
        read_end, write_end = os.pipe()
        self.server = subprocess.Popen(["Xvfb", "-displayfd", str(write_end), "-screen", "0", "2000x1200x24", "-noreset"],
                                       pass_fds=[write_end], stderr=subprocess.DEVNULL)
        os.close(write_end)
        with os.fdopen(read_end) as end:
            self.name = ":" + end.readline().strip()

    def run(self, *words):
        done = subprocess.run(words, env={**os.environ, "DISPLAY": self.name}, capture_output=True, text=True)
        return done.stdout.strip()

    def close(self):
        self.server.terminate()
        self.server.wait()


class Window:
    def __init__(self, display, program, lesson, size, folder):
        self.display = display
        self.status_file = folder / "status.json"
        script = folder / "script.json"
        script.write_text(json.dumps([{"name": "status", "value": {"path": str(self.status_file)}}]))
        environment = {**os.environ, "DISPLAY": display.name, "HOME": str(folder)}
        self.process = subprocess.Popen([program, lesson, "--size", size, "--script", str(script)], env=environment,
                                        cwd=folder)
        self.wait_for(lambda status: status["lesson"] is not None)
        self.id = display.run("xdotool", "search", "--onlyvisible", "--name", "^Afterglow$").split()[0]
        display.run("xdotool", "windowfocus", "--sync", self.id)

    def status(self):
        try:
            return json.loads(self.status_file.read_text())
        except (OSError, json.JSONDecodeError):
            return None

    def wait_for(self, is_so):
        """The status, once the condition holds and nothing changes for a moment."""
        end, last, since = time.monotonic() + longest_wait, None, 0.0
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the window is gone, exit code {self.process.returncode}")
            status = self.status()
            if status != last:
                last, since = status, time.monotonic()
            if status and is_so(status) and time.monotonic() - since > 0.8:
                return status
            time.sleep(0.1)
        raise RuntimeError("what was waited for did not come: " + json.dumps(last))

    def key(self, *names):
        for name in names:
            self.display.run("xdotool", "key", name)
            time.sleep(0.15)

    def picture(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.display.run("import", "-window", self.id, str(path))

    def close(self):
        self.key("ctrl+q")
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -1


def is_at_rest(status):
    run = status["run"]
    return run["settled"] and not run["running"] and run["checksum_step"] == run["step"]


def comes_to_question(status):
    return status["lesson"]["asks"] and is_at_rest(status)


def is_done(status):
    return status["lesson"]["done"] and is_at_rest(status)


def moment(status):
    """What has to be the same again: all of the run, and the view of the page."""
    lesson = {key: status["lesson"][key] for key in ("name", "step", "asks", "done", "reached")}
    return {"lesson": lesson, "run": status["run"], "page": status["page"]}


def differences(first, second, name=""):
    if isinstance(first, dict) and isinstance(second, dict):
        keys = sorted(first.keys() | second.keys())
        return [line for key in keys for line in differences(first.get(key), second.get(key), f"{name}.{key}")]
    return [] if first == second else [f"{name[1:]}: {json.dumps(first)[:120]}, then {json.dumps(second)[:120]}"]


def do_step(window, begun, answer, picture):
    """Waits until a step was begun so often, then for its question, and answers it; the moments of its question (None
    without one) and its end."""
    status = window.wait_for(
        lambda status: status["lesson"]["begun"] >= begun and (comes_to_question(status) or is_done(status)))
    asked = None
    if status["lesson"]["asks"]:
        asked = moment(status)
        if picture:
            window.picture(picture.with_name(picture.stem + "_asked.png"))
        window.key(str(answer(status["lesson"])))
        status = window.wait_for(is_done)
    if picture:
        window.picture(picture)
    return asked, moment(status)


def walk(window, folder, chosen):
    """Problems of the lesson, step by step."""
    problems = []
    steps = window.wait_for(lambda status: True)["lesson"]["steps"]
    window.key("F5")
    for step in range(1, steps + 1):
        status = window.wait_for(lambda status: status["lesson"]["step"] == step and status["page"]["presenting"])
        begun = status["lesson"]["begun"]
        if not chosen or step in chosen:
            began = time.monotonic()
            wrong = lambda lesson: lesson["answer"] % lesson["choices"] + 1
            asked, ended = do_step(window, begun, wrong, None)
            window.key(*wrong_keys)
            window.wait_for(lambda status: differences(ended, moment(status)))
            window.key("shift+Prior")
            again = do_step(window, begun + 1, lambda lesson: lesson["answer"] or 1, folder / f"{step}.png")
            for name, first, second in (("question", asked, again[0]), ("end", ended, again[1])):
                problems += [f"step {step}, at its {name}: {line}" for line in differences(first, second)]
            print(f"  step {step} of {steps}: {time.monotonic() - began:.1f} s", flush=True)
        window.key("Next")
    return problems


def index(folder):
    rows = "".join(f"<figure><img loading=lazy src='{html.escape(str(path.relative_to(folder)))}'>"
                   f"<figcaption>{html.escape(str(path.relative_to(folder)))}</figcaption></figure>"
                   for path in sorted(folder.rglob("*.png")))
    style = "body{font:14px sans-serif;background:#888}figure{display:inline-block;margin:4px}img{width:420px}"
    (folder / "index.html").write_text(f"<meta charset=utf-8><style>{style}</style>{rows}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    words = lambda text: text.split(",")
    lessons = sorted(path.stem for path in (pathlib.Path(__file__).parents[2] / "assets/lessons").glob("*.md"))
    parser.add_argument("--lessons", type=words, default=[name for name in lessons if name != "README"])
    parser.add_argument("--sizes", type=words, default=all_sizes)
    parser.add_argument("--steps", type=lambda text: [int(word) for word in text.split(",")], default=[])
    options = parser.parse_args()
    problems = 0
    display = Display()
    try:
        for lesson in options.lessons:
            for size in options.sizes:
                print(f"{lesson} {size}", flush=True)
                with tempfile.TemporaryDirectory() as home:
                    window = Window(display, options.program, lesson, size, pathlib.Path(home))
                    try:
                        found = walk(window, options.folder / pathlib.Path(lesson).stem / size, options.steps)
                    except RuntimeError as error:
                        found = [str(error)]
                    code = window.close()
                    if code != 0:
                        found.append(f"exit code {code}")
                for problem in found:
                    print(f"  PROBLEM {problem}", flush=True)
                problems += len(found)
    finally:
        display.close()
    index(options.folder)
    print(f"{problems} problems; pictures: {options.folder / 'index.html'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
