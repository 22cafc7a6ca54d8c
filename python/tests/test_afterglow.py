"""The package as a person uses it: a few steps of the smallest preset, its numbers, its figure, one layer, a folder."""

import inspect
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import afterglow
import numpy as np
import pytest
from afterglow._program import call, json_text, option

STEPS = 3


@pytest.fixture(scope="module")
def run() -> afterglow.Run:
    return afterglow.train("tiny", until=STEPS, device="cpu", learning_rate=2e-3)


def test_a_training_leaves_curves_recipe_and_checksum(run: afterglow.Run) -> None:
    assert run.step == STEPS
    assert run.curves["step"].tolist() == list(range(1, STEPS + 1))
    assert run.curves["loss"][-1] == pytest.approx(run.loss)
    assert run.recipe["training"]["learning_rate"] == 2e-3
    assert len(run.checksum) == 16


def test_the_same_recipe_gives_the_same_bits(run: afterglow.Run, tmp_path: Path) -> None:
    again = afterglow.train(run.recipe, until=STEPS, device="cpu", out=tmp_path)
    assert again.checksum == run.checksum
    for name, tensor in run.snapshot.items():
        np.testing.assert_array_equal(tensor, again.snapshot[name], err_msg=name)


def test_nested_settings_change_the_recipe() -> None:
    one = afterglow.train("tiny", until=1, device="cpu", task={"bindings": 2}, seed=5)
    assert one.recipe["task"]["bindings"] == 2
    assert one.recipe["seed"] == 5


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    one = afterglow.train("tiny", until=np.int64(1), device="cpu", seed=np.array(5), learning_rate=np.float32(0.5),
                          task={"bindings": np.arange(5)[2]})
    assert one.recipe["task"]["bindings"] == 2 and one.recipe["seed"] == 5
    assert one.recipe["training"]["learning_rate"] == 0.5
    assert option("--prefill", np.bool_(True)) == ("--prefill",) and option("--head", np.array(3)) == ("--head", "3")
    assert json_text({"a": np.arange(2), "b": np.bool_(False)}) == '{"a": [0, 1], "b": false}'
    with pytest.raises(TypeError, match="object"):
        json_text(object())
    with pytest.raises(afterglow.AfterglowError, match="steps"):
        afterglow.train("tiny", steps=10.0, device="cpu")  # type: ignore[arg-type]


def test_tokens_in_every_form_are_the_same_tokens(run: afterglow.Run) -> None:
    rows = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    want = run.forward(rows, device="cpu")
    for same in (rows.astype(np.uint16), np.asfortranarray(rows), rows[:, ::-1][:, ::-1], rows.astype(">i4"), rows.tolist()):
        np.testing.assert_array_equal(run.forward(same, device="cpu"), want)
    padded = {"input_ids": [[9, 9, 1, 2], [5, 6, 7, 8]], "attention_mask": [[0, 0, 1, 1], [1, 1, 1, 1]]}
    got = run.forward(padded, device="cpu")
    np.testing.assert_allclose(got[0, 2:], run.forward([[1, 2]], device="cpu")[0], atol=1e-5)
    np.testing.assert_allclose(got[1], want[1], atol=1e-5)
    assert not got[0, :2].any()
    with pytest.raises(afterglow.AfterglowError, match="whole numbers"):
        run.forward([[1.9, 2.5]])
    with pytest.raises(afterglow.AfterglowError, match="whole numbers"):
        run.patch(clean=[1.5])  # type: ignore[list-item]
    with pytest.raises(afterglow.AfterglowError, match="length"):
        run.forward([[1, 2], [3]])
    with pytest.raises(afterglow.AfterglowError, match="input_ids"):
        run.forward({"ids": [1]})


def test_the_spectrum_is_that_of_a_real_operator(run: afterglow.Run) -> None:
    now, before = run.spectrum(), run.spectrum(step=2)
    assert now.dtype == complex and now.size == 16
    np.testing.assert_allclose(np.sort_complex(now), np.sort_complex(now.conj()))
    assert not np.array_equal(now, before)


def test_a_notebook_draws_the_figure(run: afterglow.Run, tmp_path: Path) -> None:
    figure = run.figure("spectrum", layer="1.ska", head=2)
    assert xml.fromstring(figure._repr_svg_()).tag.endswith("svg")
    assert set(figure.data["series"]) >= {"eigenvalues"}
    figure.save(tmp_path / "spectrum.svg")
    figure.save(tmp_path / "spectrum.csv")
    assert (tmp_path / "spectrum.svg").read_text("utf-8") == figure.svg
    assert (tmp_path / "spectrum.csv").read_text("utf-8").startswith("series")
    assert run.figure("training", figure=1).name != run.figure("training", figure=0).name, "one of several is chosen"


def test_two_runs_are_compared_in_one_figure(run: afterglow.Run) -> None:
    earlier = afterglow.train("tiny", steps=4, until=2, device="cpu")
    both = afterglow.compare(run, earlier)
    data = both.figure("spectrum", layer="1.ska").data
    matched = data["mode"][data["series"] == "B: eigenvalues"]
    assert sorted(matched) == sorted(data["mode"][data["series"] == "eigenvalues"])
    assert "Comparison" in repr(both)


def test_snapshots_open_again(run: afterglow.Run) -> None:
    model = afterglow.open(run.path)
    np.testing.assert_array_equal(model.snapshot["head.weight"], run.snapshot["head.weight"])
    assert model.snapshot.metadata["checksum"] == run.checksum
    logits = model.forward([[1, 2, 3, 4], [5, 6, 7, 8]], device="cpu")
    assert logits.shape == (2, 4, 128) and np.isfinite(logits).all()


def test_a_model_writes_on(run: afterglow.Run) -> None:
    written = run.generate("^ k3 v9 | ? k3", count=5, device="cpu")
    assert written.begun == "^ k3 v9 | ? k3 " and written.tokens.shape == (5,)
    assert written.text.split() and (written.tokens < 128).all()
    np.testing.assert_array_equal(run.generate("^ k3 v9 | ? k3", count=5, device="cpu").tokens, written.tokens)
    greedy = run.generate([1, 19, 57], count=1, temperature=0, device="cpu")
    assert greedy.tokens[0] == run.forward([[1, 19, 57]], device="cpu")[0, -1].argmax()
    with pytest.raises(afterglow.AfterglowError, match="no token"):
        run.generate("nothing of that kind", device="cpu")


def test_a_beginning_is_read_at_once_or_token_by_token(run: afterglow.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str | os.PathLike[str], ...]] = []

    def noting(*words: str | os.PathLike[str]) -> dict[str, Any]:
        asked.append(words)
        return call(*words)

    monkeypatch.setattr("afterglow._model.call", noting)
    beginning = [1, 19, 57, 4, 21, 60]
    at_once = run.generate(beginning, count=1, temperature=0, prefill=True, device="cpu")
    assert at_once.tokens[0] == run.forward([beginning], device="cpu")[0, -1].argmax()
    frozen = run.generate(beginning, count=8, temperature=0, prefill=True, freeze_scale=True, device="cpu")
    assert frozen.tokens[0] == at_once.tokens[0] and frozen.tokens.shape == (8,)
    assert "--prefill" in asked[0] and "--freeze-scale" not in asked[0] and "--freeze-scale" in asked[2]


def test_a_patch_says_which_place_carries_the_answer(run: afterglow.Run) -> None:
    grid = afterglow.patch(run, device="cpu")
    assert {"part", "place", "hook", "position", "token", "attributed", "exact"} <= set(grid)
    first = (grid["hook"] == "blocks.0.hook_resid_pre") & (grid["exact"] != 0)
    assert first.sum() == 1, "one token differs, and all of the difference passes through it"
    np.testing.assert_allclose(grid["exact"][first], 1, rtol=1e-3)
    clean = [1 + i % 7 for i in range(64)]
    corrupted = [*clean[:5], 9, *clean[6:]]
    own = run.patch(clean=clean, corrupted=corrupted, measure="loss", device="cpu")
    place = own["position"][(own["hook"] == "blocks.0.hook_resid_pre") & (own["exact"] != 0)]
    assert place.tolist() == [5]
    with pytest.raises(afterglow.AfterglowError, match="measure"):
        run.patch(measure="beauty")


def test_a_layer_answers_with_gradients() -> None:
    golden = Path(__file__).parents[2] / "tests/golden"
    files = sorted(golden.glob("**/*attention*.safetensors"))
    if not files:
        pytest.skip("the golden files are not here")
    file = afterglow.load_tensors(files[0])
    params = {name[6:]: value for name, value in file.items() if name.startswith("param.")}
    config = json.loads(file.metadata["config"])
    result = afterglow.layer(file.metadata["layer"], params, file["x"], grad_y=file["grad_y"], float64=True, **config)
    np.testing.assert_allclose(result.y, file["y"], rtol=1e-9, atol=1e-12)
    for name in params:
        np.testing.assert_allclose(result.gradients[name], file[f"grad.{name}"], rtol=1e-7, atol=1e-10, err_msg=name)
    with pytest.raises(afterglow.AfterglowError, match="nonsense"):
        afterglow.layer("nonsense", params, np.zeros((1, 4, 8)))


def test_weights_as_a_dict_are_a_model(tmp_path: Path) -> None:
    shared = os.environ.get("AFTERGLOW_CHECKPOINTS")
    if not shared:
        pytest.skip("AFTERGLOW_CHECKPOINTS names no folder with models of other libraries")
    for folder in sorted(Path(shared).iterdir()):
        if not (folder / "model.safetensors").is_file():
            continue
        weights = dict(afterglow.load_tensors(folder / "model.safetensors"))
        config = json.loads((folder / "config.json").read_text())
        tokens = np.arange(8)[None] % config["vocab_size"]
        given = afterglow.open(weights, config=config).forward(tokens, device="cpu")
        np.testing.assert_array_equal(given, afterglow.open(folder).forward(tokens, device="cpu"), err_msg=folder.name)


def test_weights_without_a_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(afterglow.AfterglowError, match="config"):
        afterglow.open({"a": np.zeros(3)})
    with pytest.raises(afterglow.AfterglowError) as missing:
        afterglow.open("no/such/file")
    assert missing.value.code == 3
    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(afterglow.AfterglowError, match="x.pt"):
        afterglow.open(tmp_path / "x.pt")


def test_errors_of_the_program_keep_their_sentence_and_code() -> None:
    with pytest.raises(afterglow.AfterglowError, match="no preset") as error:
        afterglow.train("no-such-preset")
    assert error.value.code == 2


def test_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    tensors: dict[str, np.ndarray] = {"a": np.arange(6, dtype=np.float64).reshape(2, 3), "b": np.array(3, np.int32), "c": np.zeros((0, 4), np.float16)}
    afterglow.save_tensors(tmp_path / "t.safetensors", tensors, {"of": "a test"})
    read = afterglow.load_tensors(tmp_path / "t.safetensors")
    assert read.metadata == {"of": "a test"} and list(read) == list(tensors)
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        np.testing.assert_array_equal(read[name], tensor)
    (tmp_path / "bad").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="not a safetensors"):
        afterglow.load_tensors(tmp_path / "bad")
    others = pytest.importorskip("safetensors.numpy").load_file(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(others["a"], tensors["a"])


@pytest.mark.skipif(not os.environ.get("DISPLAY"), reason="no display")
def test_the_window_opens_on_a_run_and_draws_it(run: afterglow.Run, tmp_path: Path) -> None:
    picture, script = tmp_path / "window.png", tmp_path / "script.json"
    commands = [{"name": "screenshot", "value": {"path": os.fspath(picture)}, "time": 3}, {"name": "quit", "value": {}, "time": 4}]
    script.write_text(json.dumps({"commands": [{**command, "step": STEPS} for command in commands]}))
    with run.window("--size", "900x600", "--script", script) as window:
        assert window.wait(timeout=300) == 0
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")) == (900, 600)


def test_everything_public_is_described_and_typed() -> None:
    for name in afterglow.__all__:
        thing = getattr(afterglow, name)
        assert inspect.getdoc(thing), name
        parts = [thing] if inspect.isfunction(thing) else [part for part in vars(thing).values() if inspect.isfunction(part)]
        for part in parts:
            if part.__name__.startswith("_"):
                continue
            assert inspect.getdoc(part), f"{name}.{part.__name__}"
            signature = inspect.signature(part)
            assert signature.return_annotation is not inspect.Signature.empty, f"{name}.{part.__name__}"
            for parameter in list(signature.parameters.values())[0 if part is thing else 1:]:
                assert parameter.annotation is not inspect.Parameter.empty, f"{name}.{part.__name__}: {parameter}"
    assert (Path(afterglow.__file__).parent / "py.typed").is_file()


def test_the_package_is_a_command_too() -> None:
    answer = subprocess.run([sys.executable, "-m", "afterglow", "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("afterglow ")
