#!/usr/bin/env python3
"""Registers that the kernels of gpu/ spill to memory, per kernel and architecture.

    python3 tests/gpu/spills.py                    compiles for all architectures and writes tests/gpu/spills.tsv
    python3 tests/gpu/spills.py --check -a 90      compiles for one, and fails where a kernel spills more than the table says

A cell says how many bytes the worst instance of a kernel stores and loads for spills; empty: none; -: not compiled. No
GPU is needed. One architecture takes about half an hour of one processor; -j runs several compilers. A warning of a
compiler is an error. The exit code is 77 without nvcc, or when the table was made by another one.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_suffix(".tsv")
ARCHITECTURES = ["80", "86", "89", "90", "100", "120"]
HOPPER = "gpu/hopper/"  # runs on compute capability 9.0 alone, compiled as 90a
SKIPPED = 77


def find_tool(name):
    own = pathlib.Path(os.environ.get("CUDACXX", "/usr/local/cuda/bin/nvcc")).parent / name
    return str(own) if own.exists() else shutil.which(name)


def version_of(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([\d.]+), V([\d.]+)", text).group(2)


def names_of(symbols):
    """The kernels' names without arguments of templates, by symbol."""
    lines = "\n".join(symbols)
    texts = subprocess.run(["c++filt"], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {}
    for symbol, text in zip(symbols, texts):
        text = text.removeprefix("void ").replace("(anonymous namespace)::", "").replace("afterglow::", "")
        head = re.match(r"[\w:]+", text)
        names[symbol] = head.group(0) if head else text
    return names


def spills_in(report):
    """(symbol, bytes) for every function in what ptxas -v says."""
    pattern = r"Function properties for (\S+)\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    return [(symbol, int(stores) + int(loads)) for symbol, stores, loads in re.findall(pattern, report)]


def compile_one(nvcc, source, architecture, scratch):
    """Spilled bytes of each kernel of one file, and the compilers' warnings."""
    real = "90a" if source.startswith(HOPPER) else architecture
    made = pathlib.Path(scratch) / f"{source.replace('/', '_')}.{real}.cubin"
    command = [nvcc, "-std=c++20", "-O3", f"-arch=sm_{real}", "--expt-relaxed-constexpr", "--extended-lambda", "-cubin",
               "-Xptxas", "-v", f"-I{ROOT}", f"-I{scratch}", "-o", str(made), source]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    report = done.stdout + done.stderr
    if done.returncode != 0:
        sys.exit(f"{source} does not compile for sm_{real}:\n{report}")
    made.unlink(missing_ok=True)
    spills = spills_in(report)
    names = names_of([symbol for symbol, _ in spills])
    worst = {}
    for symbol, count in spills:
        worst[names[symbol]] = max(worst.get(names[symbol], 0), count)
    return worst, re.findall(r"^.*\bwarning\b.*$", report, re.MULTILINE)


def measure(nvcc, architectures, jobs):
    """{(file, kernel): {architecture: bytes}} of kernels that spill somewhere, and warnings."""
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "gpu").rglob("*.cu"))
    work = [(source, a) for a in architectures for source in sources if not source.startswith(HOPPER) or a == "90"]
    found, warnings = {}, []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        header = pathlib.Path(scratch) / "gpu/runtime/hopper_kernels.h"
        header.parent.mkdir(parents=True)
        operations = ", ".join(f"hopper_{path.name} = true" for path in (ROOT / HOPPER).iterdir() if path.is_dir())
        header.write_text(f"#pragma once\nnamespace afterglow::device {{\ninline constexpr bool {operations};\n}}\n")
        runs = {pool.submit(compile_one, nvcc, source, a, scratch): (source, a) for source, a in work}
        for done, run in enumerate(concurrent.futures.as_completed(runs), 1):
            source, a = runs[run]
            worst, said = run.result()
            warnings += said
            for kernel, count in worst.items():
                if count > 0:
                    found.setdefault((source, kernel), {})[a] = count
            print(f"{done} of {len(work)}: {source} for {a}", file=sys.stderr)
    return found, warnings


def read_table():
    lines = TABLE.read_text().splitlines()
    version, columns = lines[0].removeprefix("# nvcc "), lines[1].split("\t")[2:]
    rows = {}
    for line in lines[2:]:
        source, kernel, *cells = line.split("\t")
        rows[source, kernel] = {a: cell for a, cell in zip(columns, cells)}
    return version, rows


def write_table(version, found, architectures):
    """Columns that were not compiled keep what they said."""
    old_version, rows = read_table() if TABLE.exists() else (version, {})
    known = {} if old_version != version else rows
    compiled = set(architectures) | {a for row in known.values() for a, cell in row.items() if cell != "-"}
    lines = [f"# nvcc {version}", "\t".join(["file", "kernel", *ARCHITECTURES])]
    for key in sorted(set(found) | set(known)):
        cells = []
        for a in ARCHITECTURES:
            cell = str(found.get(key, {}).get(a, "")) if a in architectures else known.get(key, {}).get(a, "")
            cells.append(cell if a in compiled else "-")
        if any(cell not in ("", "-") for cell in cells):
            lines.append("\t".join([*key, *cells]))
    TABLE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-a", "--architectures", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    nvcc = find_tool("nvcc")
    if not nvcc:
        print("no nvcc here: nothing is compiled")
        return SKIPPED
    version = version_of(nvcc)
    if options.check and not TABLE.exists():
        print(f"there is no {TABLE} yet: run this without --check")
        return SKIPPED
    if options.check and read_table()[0] != version:
        print(f"the table was made by nvcc {read_table()[0]}, and this is {version}: write it again")
        return SKIPPED
    found, warnings = measure(nvcc, options.architectures, options.jobs)
    for warning in warnings:
        print(warning)
    if not options.check:
        write_table(version, found, options.architectures)
        return 1 if warnings else 0
    rows = read_table()[1]
    worse = []
    for (source, kernel), row in sorted(found.items()):
        for a, count in sorted(row.items()):
            allowed = rows.get((source, kernel), {}).get(a, "")
            if allowed != "-" and count > int(allowed or 0):
                worse.append(f"{source}: {kernel} spills {count} bytes on sm_{a}, and the table says {allowed or 0}")
    print("\n".join(worse) or "no kernel spills more than the table says")
    return 1 if worse or warnings else 0


if __name__ == "__main__":
    sys.exit(main())
