"""A training of another library, written as folders that the program opens while it goes on and afterwards."""

import json
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import afterglow
import numpy as np
import pytest
from afterglow._model import _save_state
from afterglow._program import call


class Module:
    """What `watch` needs of a torch module."""

    def __init__(self, run: afterglow.Run, folder: Path) -> None:
        call("export", run.path, "--format", "transformers", "--out", folder)
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        self.weights = {name: np.array(value) for name, value in
                        afterglow.load_tensors(folder / "model.safetensors").items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        return self.weights

    def train(self) -> float:
        for value in self.weights.values():
            value *= 1.01
        return float(sum(np.square(value).sum() for value in self.weights.values()))


@pytest.fixture()
def module(tmp_path: Path) -> Module:
    recipe = {"name": "own", "seed": 7,
              "model": {"d_model": 16, "vocab": 40, "blocks": [
                  {"mixer": {"kind": "mamba2", "d_state": 8, "headdim": 8, "ngroups": 2}, "repeat": 2}]},
              "task": {"kind": "ids", "vocab": 40, "length": 16},
              "training": {"steps": 4, "batch": 2, "warmup": 1, "evaluate_every": 0}}
    return Module(afterglow.train(recipe, until=1, device="cpu"), tmp_path / "export")


def test_states_and_numbers_are_a_run_that_the_program_reads(module: Module, tmp_path: Path) -> None:
    at = {}
    with afterglow.watch(module, folder=tmp_path / "run", every=2, keep=2, sample=[1, 2, 3]) as w:
        for step in range(1, 9):
            w.log(loss=module.train(), rate=np.float32(0.5))
            at[step] = {name: value.copy() for name, value in module.weights.items()}
            time.sleep(0.02)
        assert w.step == 8 and 0 < w.seconds and 0 < w.share < 1
        assert " % of the training" in repr(w)
    info = call("info", tmp_path / "run")
    assert [state["step"] for state in info["states"]] == [6, 8], "the last two are kept"
    assert {curve["name"]: curve["points"] for curve in info["curves"]} == {"loss": 8, "rate": 8}
    for step in (6, 8):
        stored = afterglow.load_tensors(tmp_path / "run" / f"step-{step}" / "model.safetensors")
        for name, value in at[step].items():
            np.testing.assert_array_equal(stored[name], value, err_msg=f"{name} of step {step}")
    assert not list((tmp_path / "run").glob(".*")), "no half-written state is left"
    asked = json.loads((tmp_path / "run" / "sample.json").read_text("utf-8"))
    assert asked["commands"][1]["value"] == {"tokens": [1, 2, 3]}
    words = [word for command in asked["commands"] for word in ("--ask", json.dumps(command))]
    call("plot", "token_weights", "--snapshot", tmp_path / "run", "--step", "6", *words, "--svg", tmp_path / "w.svg")


def test_nested_weights_of_a_function_are_those_of_now(module: Module, tmp_path: Path) -> None:
    def tree() -> dict[str, Any]:
        nested: dict[str, Any] = {}
        for name, value in module.weights.items():
            *places, last = name.split(".")
            inner = nested
            for place in places:
                inner = inner.setdefault(place, {})
            inner[last] = value * 1
        return nested

    with afterglow.watch(tree, folder=tmp_path / "run", every=1, config=module.config) as w:
        for _ in range(2):
            module.train()
            w.log(loss=1)
    stored = afterglow.load_tensors(tmp_path / "run" / "step-2" / "model.safetensors")
    assert stored.keys() == module.weights.keys()
    for name, value in module.weights.items():
        np.testing.assert_array_equal(stored[name], value, err_msg=name)


def test_a_slow_disk_skips_states_and_a_full_one_ends_nothing(module: Module, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    held = threading.Event()

    def slow(state: Any, config: Any, folder: Path) -> None:
        held.wait()
        if folder.name == ".step-2.new":
            raise OSError("no space left on device")
        _save_state(state, config, folder)

    monkeypatch.setattr("afterglow._watch._save_state", slow)
    w = afterglow.watch(module, folder=tmp_path / "run", every=1)
    for _ in range(3):
        w.log(loss=1)
    held.set()
    w.close()
    assert [path.name for path in (tmp_path / "run").glob("step-*")] == ["step-1"]
    said = capsys.readouterr().err
    assert "step 3 was skipped" in said and "no space left" in said
    assert len((tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()) == 3
    again = afterglow.watch(module, folder=tmp_path / "run")
    again.log(loss=1)
    assert again.step == 4, "a training goes on in its folder"
    again.close()
    assert "continued" in capsys.readouterr().err


def test_a_number_on_a_gpu_is_waited_for_by_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_computed = threading.Event()
    monkeypatch.setattr("afterglow._watch._copied", lambda _: lambda: (is_computed.wait(), np.float32(2.5))[1])
    w = afterglow.watch(folder=tmp_path, every=2, states={"A": lambda: np.eye(2)})
    w.log(loss=types.SimpleNamespace(is_cuda=True), rate=0.5)
    is_computed.set()
    w.close()
    assert json.loads((tmp_path / "log.jsonl").read_text("utf-8")) == {"step": 1, "loss": 2.5, "rate": 0.5}


def test_matrices_of_any_model_become_curves(tmp_path: Path) -> None:
    matrix = np.diag([4.0, 2.0, 1.0])
    with afterglow.watch(folder=tmp_path, every=2, states={"A": lambda: matrix}) as w:
        for _ in range(4):
            w.log()
            matrix *= 0.5
        with pytest.raises(afterglow.AfterglowError, match="no model"):
            w.window()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text("utf-8").splitlines()]
    assert [line.pop("step") for line in lines] == [1, 2, 3, 4]
    lines = [line for line in lines if line]
    assert lines[0]["A singular value 0"] == 2 and lines[1]["A |eigenvalue 2|"] == 0.125 and lines[0]["A condition"] == 4
    assert {"A condition", "A |eigenvalue 0|"} <= {curve["name"] for curve in call("info", tmp_path)["curves"]}
    with pytest.raises(afterglow.AfterglowError, match="family"):
        afterglow.watch({"w": matrix}, folder=tmp_path)


def test_the_callback_of_transformers_writes_states_and_logs_once(module: Module, tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("transformers")
    setattr(library, "TrainerCallback", object)
    monkeypatch.setitem(sys.modules, "transformers", library)
    callback = afterglow.TrainerCallback(every=2)
    args, state = types.SimpleNamespace(output_dir=tmp_path), types.SimpleNamespace(is_world_process_zero=True, global_step=0)
    callback.on_train_begin(args, state, None, model=module)
    for step in range(1, 5):
        state.global_step = step
        callback.on_step_end(args, state, None, model=module)
        callback.on_log(args, state, None, logs={"loss": 3.0 / step, "epoch": "first"})
    callback.on_train_end(args, state, None)
    info = call("info", tmp_path / "afterglow")
    assert [one["step"] for one in info["states"]] == [2, 4]
    assert [(curve["name"], curve["points"]) for curve in info["curves"]] == [("loss", 4)]


@pytest.mark.filterwarnings("ignore")
def test_a_real_trainer_is_followed_and_its_states_are_its_checkpoints(tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=64))
    rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 40, (32, 12))]
    args = transformers.TrainingArguments(output_dir=str(tmp_path), max_steps=6, save_steps=2, logging_steps=1, use_cpu=True,
                                          report_to=[], per_device_train_batch_size=4, disable_tqdm=True)
    callback = afterglow.TrainerCallback(every=2, sample=[1, 2, 3])
    transformers.Trainer(model=model, args=args, train_dataset=rows, callbacks=[callback]).train()
    for folder in (tmp_path, tmp_path / "afterglow"):
        info = call("info", folder)
        assert [one["step"] for one in info["states"]] == [2, 4, 6]
        assert {"loss", "learning_rate", "grad_norm"} <= {curve["name"] for curve in info["curves"]}
    for step in (2, 4, 6):
        own = afterglow.load_tensors(tmp_path / "afterglow" / f"step-{step}" / "model.safetensors")
        for name, value in afterglow.load_tensors(tmp_path / f"checkpoint-{step}" / "model.safetensors").items():
            np.testing.assert_array_equal(own[name], value, err_msg=f"{name} of step {step}")
    tokens = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        expected = model(input_ids=tokens).logits.numpy()
    for place in (tmp_path / "checkpoint-6", tmp_path / "afterglow" / "step-6"):
        np.testing.assert_allclose(afterglow.open(place).forward(tokens), expected, rtol=0, atol=2e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_real_lightning_training_is_followed(tmp_path: Path) -> None:
    torch, lightning = pytest.importorskip("torch"), pytest.importorskip("lightning.pytorch")
    transformers = pytest.importorskip("transformers")

    class Own(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = transformers.MambaForCausalLM(transformers.MambaConfig(
                vocab_size=40, hidden_size=16, state_size=4, num_hidden_layers=2, expand=2, conv_kernel=4))

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.model(input_ids=batch, labels=batch).loss
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = lightning.Trainer(max_steps=4, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, callbacks=[afterglow.LightningCallback(tmp_path / "run", every=2)])
    trainer.fit(Own(), torch.utils.data.DataLoader(torch.randint(0, 40, (16, 8)), batch_size=4))
    info = call("info", tmp_path / "run")
    assert [one["step"] for one in info["states"]] == [2, 4]
    assert [curve["name"] for curve in info["curves"]] == ["loss"]
    again = lightning.Trainer(max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                              enable_progress_bar=False, callbacks=[afterglow.LightningCallback(tmp_path / "run", every=2)])
    again.fit(Own(), torch.utils.data.DataLoader(torch.randint(0, 40, (16, 8)), batch_size=4))
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
    assert steps == [1, 2, 3, 4, 1, 2], "another training in the same folder begins again"
