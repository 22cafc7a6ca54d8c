"""The comparison with other libraries in tests/benchmarks/peers: its arithmetic, and what it says of missing ones."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from afterglow._program import program

SCRIPT = Path(__file__).parents[2] / "tests" / "benchmarks" / "peers" / "peers.py"
ROW = "layer attention B16 T64 d128"


@pytest.fixture()
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "peers", module)
    spec.loader.exec_module(module)
    return module


def run(peers: ModuleType, *arguments: str) -> list:
    return peers.main([program(), "--device", "cpu", "--only", ROW, "--repeats", "3", *arguments])


def test_a_package_that_is_missing_is_named_after_our_row(
        peers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    rows = run(peers, "--json", str(tmp_path / "rows.json"))
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == json.loads(json.dumps(rows))
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{ROW}, fp32: ours ") and min(rows[0]["ours"]) <= rows[0]["ours_ms"] <= max(rows[0]["ours"])
    assert others == ["  torch attention, cuDNN: not measured, torch is not installed",
                      "  torch attention, flash: not measured, torch is not installed"]


def test_medians_and_ratios_are_those_of_the_times_and_failures_keep_their_reason(
        peers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("print('a library speaks')\n"
                      "print('{\"way\": \"eager\", \"times\": [9.0, 1.0, 4.0]}')\n"
                      "print('{\"way\": \"graph\", \"why_not\": \"it waits\"}', flush=True)\n"
                      "raise SystemExit('out of memory')\n")
    monkeypatch.setattr(peers, "WORKER", worker)
    monkeypatch.setattr(peers, "find_spec", lambda name: name)
    row = run(peers)[0]
    ways = row["peers"][0]["ways"]
    assert ways == {"eager": {"ms": 4.0}, "graph": {"why_not": "it waits"}, "compiled graph": {"why_not": "out of memory"}}
    row = {**row, "ours": [1.0, 3.0], "ours_ms": 2.0, "peers": row["peers"][:1]}
    assert peers.table([row]) == [
        f"{ROW}, fp32: ours 2.000 ms (1.000 to 3.000)", "  torch attention, cuDNN",
        "    eager           4.000 ms (2.00 x ours)", "    graph           it waits", "    compiled graph  out of memory",
        "    best            2.00 x ours"]


def test_a_peer_that_takes_too_long_is_ended_and_keeps_what_it_has_said(
        peers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import time\nprint('{\"way\": \"eager\", \"times\": [2.0]}', flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(peers, "WORKER", worker)
    monkeypatch.setattr(peers, "find_spec", lambda name: name)
    peer = run(peers, "--seconds", "2")[0]["peers"][1]
    assert peer["ways"]["eager"] == {"ms": 2.0} and peer["ways"]["graph"] == {"why_not": "ended after 2 s"}


def test_every_case_has_the_sizes_of_its_row_and_every_peer_a_function_of_the_worker(peers: ModuleType) -> None:
    text = SCRIPT.with_name("worker.py").read_text("utf-8")
    for case in peers.CASES:
        words, tokens, width = case.row.split(), case.shape[1], case.shape[2]
        assert f"T{tokens}" in words and ("d" + str(width) in words or words[0] == "figure")
        assert all(f"def {peer.make}(width, " in text for peer in case.peers)


def test_the_same_tokens_are_counted_up_to_the_first_other_one(peers: ModuleType) -> None:
    assert [peers.agreement([1, 2, 3], theirs) for theirs in ([1, 2, 3], [1, 5, 3], [4, 2, 3], [1])] == [3, 1, 0, 1]
