#!/usr/bin/env python3
"""Draws the pages of the window for all presets, sizes and themes, and a page of thumbnails to look at.

    tests/window/gallery.py PROGRAM FOLDER [--presets a,b] [--pages a,b] [--sizes 1280x720,..] [--themes dark,..]
                                           [--train 8] [--wait 1]

A window opens for each preset and size, trains for some seconds, pauses, and shows page after page in each theme. FOLDER
gets PRESET/SIZE/THEME_PAGE.png and index.html. --wait: seconds that a page has to find its numbers.
"""
import argparse, html, json, pathlib, subprocess, tempfile

all_sizes = ["1280x720", "1920x1080", "2560x1440"]
all_themes = ["dark", "light", "projector"]


def script(folder, pages, themes, time, wait):
    """A pause after that time, then a picture of every page in every theme."""
    commands = [{"name": "pause", "value": {}, "time": time}]
    for theme in themes:
        commands.append({"name": "theme", "value": {"name": theme}, "time": time})
        for page in pages:
            commands.append({"name": "workspace", "value": {"name": page}, "time": time})
            time += wait
            commands.append({"name": "screenshot", "value": {"path": str(folder / f"{theme}_{page}.png")}, "time": time})
    commands.append({"name": "quit", "value": {}, "time": time + 0.5})
    return commands


def draw(program, preset, size, folder, pages, options):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"commands": script(folder, pages, options.themes, options.train, options.wait)}, file)
        file.flush()
        scale = ["--scale", "1.5"] if size == "2560x1440" else []
        done = subprocess.run([program, "--preset", preset, "--size", size, "--script", file.name, "--force", *scale],
                              capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{preset} {size}: exit code {done.returncode}\n{done.stderr}")
    return done.returncode == 0


def index(folder, options, pages):
    """One row for each preset and page, one thumbnail for each size and theme."""
    rows = []
    for preset in options.presets:
        for page in pages:
            cells = [f"{preset}/{size}/{theme}_{page}.png" for size in options.sizes for theme in options.themes]
            shown = "".join(f'<a href="{cell}"><img loading="lazy" src="{cell}"></a>' for cell in map(html.escape, cells))
            rows.append(f"<h2>{html.escape(preset)} · {html.escape(page)}</h2><div>{shown}</div>")
    style = "body{font:14px sans-serif;background:#888}div{display:flex;flex-wrap:wrap;gap:4px}img{width:420px}"
    (folder / "index.html").write_text(f"<meta charset=utf-8><style>{style}</style>" + "\n".join(rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    words = lambda text: text.split(",")
    for name in ("presets", "pages"):
        parser.add_argument("--" + name, type=words)
    parser.add_argument("--sizes", type=words, default=all_sizes)
    parser.add_argument("--themes", type=words, default=all_themes)
    parser.add_argument("--train", type=float, default=8)
    parser.add_argument("--wait", type=float, default=1)
    options = parser.parse_args()
    info = json.loads(subprocess.run([options.program, "info", "--json"], check=True, capture_output=True).stdout)
    options.presets = options.presets or [preset["name"] for preset in info["presets"]]
    pages = options.pages or info["workspaces"]
    sound = [draw(options.program, preset, size, options.folder / preset / size, pages, options)
             for preset in options.presets for size in options.sizes]
    index(options.folder, options, pages)
    print(f"{sum(sound)} of {len(sound)} windows drawn: {options.folder / 'index.html'}")
    return 0 if all(sound) else 1


if __name__ == "__main__":
    raise SystemExit(main())
