#!/usr/bin/env python3
"""Checks files by themselves: reads their paths from standard input and compiles each with its command of
compile_commands.json (the argument), without writing objects. Exit code 1 if one does not compile."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

commands = {entry["file"]: entry for entry in json.load(open(sys.argv[1]))}
wanted = [os.path.abspath(line.strip()) for line in sys.stdin]
entries = [commands[path] for path in wanted if path in commands]


def check(entry):
    command = re.sub(r" -o \S+", "", entry["command"]) + " -fsyntax-only"
    done = subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, text=True)
    return done.returncode, done.stderr


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(check, entries))
for entry, (code, errors) in zip(entries, results):
    if code:
        print(f"{os.path.relpath(entry['file'])} does not compile by itself:\n{errors}", file=sys.stderr)
print(f"{len(entries)} files compiled by themselves, {sum(code != 0 for code, _ in results)} with errors")
sys.exit(any(code != 0 for code, _ in results))
