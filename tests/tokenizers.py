#!/usr/bin/env python3
"""Compares the tokens of `afterglow tokenize` with those that Hugging Face's library gave.

    tests/tokenizers.py PROGRAM FOLDER

FOLDER holds folders with tokenizer.json and expected.json: a list of texts, each with `text`, `ids`, `ids_without_special`,
`tokens` and `decoded`. Says how many texts are equal in all four; exit code 1 where one is not. Needs nothing but Python.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def tokenized(program, tokenizer, texts, *options):
    """The objects that the program prints for the texts; a sentence where it fails."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as lines:
        lines.write("".join(json.dumps(text) + "\n" for text in texts))
        lines.flush()
        command = [program, "tokenize", tokenizer, "--json-lines", lines.name, *options]
        run = subprocess.run(command, capture_output=True, encoding="utf-8")
    if run.returncode != 0:
        return f"exit code {run.returncode}: {run.stderr.strip()}"
    # Line ends inside texts are escaped, and other separators (U+2028) are not.
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def differences(program, folder):
    """The number of texts, and a sentence for each that is not equal."""
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    texts = [one["text"] for one in expected]
    with_special = tokenized(program, folder, texts)
    without = tokenized(program, folder, texts, "--no-special")
    for answer in (with_special, without):
        if isinstance(answer, str) or len(answer) != len(texts):
            said = answer if isinstance(answer, str) else f"{len(answer)} of {len(texts)} texts answered"
            return len(texts), [said] * len(texts)
    wrong = []
    for want, got, plain in zip(expected, with_special, without):
        have = {**got, "ids_without_special": plain["ids"]}
        for key in ("ids", "ids_without_special", "tokens", "decoded"):
            if have[key] != want[key]:
                wrong.append(f"{want['text']!r:.60}: {key} {have[key]!r:.120}, expected {want[key]!r:.120}")
                break
    return len(texts), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    folders = sorted(file.parent for file in options.folder.glob("*/expected.json"))
    if not folders:
        sys.exit(f"{options.folder}: no folder in it has expected.json")
    held = True
    for folder in folders:
        count, wrong = differences(options.program.resolve(), folder)
        held = held and not wrong
        print(f"{'FAIL' if wrong else 'ok  '} {folder.name:24} {max(count - len(wrong), 0)} of {count} texts equal", flush=True)
        for sentence in dict.fromkeys(wrong[:5]):
            print("       " + sentence)
    print(f"{len(folders)} tokenizers: {'all' if held else 'not all'} equal")
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
