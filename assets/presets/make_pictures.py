#!/usr/bin/env python3
"""Makes the pictures of the presets: trains each with the program, keeps a few numbers of one of its figures.

    assets/presets/make_pictures.py PROGRAM [--seconds S] [--only NAME]

--seconds is the time that training one of them may take on one processor core; a picture says at which step it was
made. Without it every preset is trained to its end, which takes hours.
"""
import argparse, csv, json, math, pathlib, resource, subprocess, tempfile

folder = pathlib.Path(__file__).parent
side = 24  # cells of a map


def plot(program, kind, name, steps, table):
    """Runs the program; returns the processor seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([program, "plot", kind, "--preset", name, "--steps", str(steps), "--threads", "1", "--device", "cpu",
                    "--csv", table, "--force", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def rows_of(table):
    """Without the last line, a comment that carries the recipe."""
    with open(table, encoding="utf-8") as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))


def points(rows):
    """Eigenvalues with their colours: conjugate pairs share one."""
    found, colours = [], {}
    for series, re, im, *_ in rows[1:]:
        if series == "eigenvalues":
            colour = colours.setdefault((round(float(re), 6), round(abs(float(im)), 6)), len(colours))
            found.append([round(float(re), 3), round(float(im), 3), colour % 6])
    return {"points": found}


def cells(rows):
    """A digit for each cell, the root of the share of the largest weight."""
    weights = [[0.0 if cell in ("", "nan") else abs(float(cell)) for cell in row[1:]] for row in rows[1:]]
    step = len(weights) / side
    coarse = []
    for i in range(side):
        for j in range(side):
            block = [weights[a][b] for a in range(int(i * step), max(int(i * step) + 1, int((i + 1) * step)))
                     for b in range(int(j * step), max(int(j * step) + 1, int((j + 1) * step)))]
            coarse.append(sum(block) / len(block))
    largest = max(coarse) or 1
    return {"cells": "".join(str(min(9, round(9 * math.sqrt(value / largest)))) for value in coarse)}


def curves(rows):
    """The series as it goes on, and its forecast."""
    number = lambda text: float(text) if text not in ("", "nan") else None
    table = [[number(cell) for cell in row[1:4]] for row in rows[1:]]
    seen = [i if i is not None else t for i, t, _ in table]
    said = [p for _, _, p in table]
    values = [v for v in seen + said if v is not None]
    low, high = min(values), max(values)
    scaled = lambda curve: [None if v is None else round(0.08 + 0.84 * (v - low) / (high - low), 3) for v in curve]
    return {"curves": [scaled(seen), scaled(said)]}


def picture_of(program, name, seconds, parameters):
    recipe = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    text = json.dumps(recipe["model"])
    kind, keep = ("forecast", curves) if recipe["task"]["kind"] == "forecast" else \
        ("spectrum", points) if '"ska"' in text else ("token_weights", cells)
    with tempfile.TemporaryDirectory() as scratch:
        table = str(pathlib.Path(scratch) / "table.csv")
        first, second = plot(program, kind, name, 1, table), plot(program, kind, name, 3, table)
        each = max((second - first) / 2, 1e-3)
        steps = recipe["training"]["steps"]
        if seconds:
            steps = int(max(3, min(steps, seconds / each)))
        if steps > 3:
            each = max((plot(program, kind, name, steps, table) - first) / (steps - 1), 1e-3)
        kept = {"step": steps, "parameters": parameters, "seconds_per_step": float(f"{each:.2g}")}
        return kept | keep(rows_of(table))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--seconds", type=float, default=0)
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    info = json.loads(subprocess.run([given.program, "info", "--json"], check=True, capture_output=True).stdout)
    (folder / "pictures").mkdir(exist_ok=True)
    for preset in info["presets"]:
        if given.only and preset["name"] != given.only:
            continue
        kept = picture_of(given.program, preset["name"], given.seconds, preset["parameters"])
        text = json.dumps(kept, separators=(",", ":"))
        (folder / "pictures" / f"{preset['name']}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{preset['name']}: step {kept['step']}, {kept['seconds_per_step']} s a step", flush=True)


main()
