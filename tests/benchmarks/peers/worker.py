"""One peer in a process of its own: prints {"way": .., "times": [ms, ..]} for each way to launch it, or why it failed.

peers.py calls it with one JSON object: `make` names a function of this file.
"""
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

TASK = json.loads(sys.argv[1])
DEVICE = TASK["device"]
DTYPE = torch.bfloat16 if TASK["precision"] == "bf16" else torch.float32


class Attention(nn.Module):
    """Projections, rotary positions and causal attention, as our layer `attention`."""

    def __init__(self, width, heads, backend):
        super().__init__()
        self.heads, self.backend = heads, getattr(SDPBackend, backend)
        self.project, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.rates = 10000.0 ** (-torch.arange(0, width // heads, 2, device=DEVICE) * heads / width)

    def turned(self, x):
        angles = torch.arange(x.shape[-2], device=x.device)[:, None] * self.rates
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.project(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(self.backend):
            y = functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


def attention(width, heads, backend):
    return Attention(width, heads, backend)


def mamba2_mixer(width, states, head, expand):
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
    return Mamba2Mixer(Mamba2Config(hidden_size=width, state_size=states, head_dim=head, expand=expand, n_groups=1,
                                    num_heads=expand * width // head, num_hidden_layers=1), layer_idx=0)


def mamba2_fused(width, states, head, expand):
    from mamba_ssm.modules.mamba2 import Mamba2
    return Mamba2(d_model=width, d_state=states, headdim=head, expand=expand)


def fla_layer(width, layer, **sizes):
    import fla.layers
    return getattr(fla.layers, layer)(hidden_size=width, layer_idx=0, **sizes)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def captured(run):
    """`run` as a CUDA graph, after passes that compile and reserve."""
    if DEVICE != "cuda":
        raise ValueError("needs a GPU")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def timed(run):
    """Milliseconds of each pass, with a wait for the GPU."""
    times = []
    for repeat in range(-3, TASK["repeats"]):
        begin = time.perf_counter()
        run()
        wait()
        if repeat >= 0:
            times.append(1e3 * (time.perf_counter() - begin))
    return {"times": times}


def say(way, measured):
    """Prints what `measured` returns, or why it failed."""
    try:
        answer = measured()
    except Exception as error:  # a library that cannot be captured or compiled is a result
        lines = str(error).strip().splitlines()
        answer = {"why_not": f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]}
    print(json.dumps({"way": way, **answer}), flush=True)
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def every_way(function, run_of, measured=timed):
    """Times what `run_of` makes of the function: eager, as a graph, and compiled as a graph."""
    say("eager", lambda: measured(run_of(function)))
    say("graph", lambda: measured(captured(run_of(function))))
    say("compiled graph", lambda: measured(captured(run_of(torch.compile(function)))))


def layer():
    batch, tokens, width = TASK["shape"]
    module = globals()[TASK["make"]](width, **TASK["config"]).to(DEVICE, DTYPE)
    x = torch.randn(batch, tokens, width, device=DEVICE, dtype=DTYPE, requires_grad=True)
    dy = torch.randn_like(x)

    def run_of(function):
        def run():
            y = function(x)
            return torch.autograd.grad(y[0] if isinstance(y, tuple) else y, [x, *module.parameters()], dy, allow_unused=True)
        return run

    every_way(module, run_of)


def random_model():
    """Writes a random model, which says different tokens after each other, into the folder."""
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(7)
    config = AutoConfig.for_model(**TASK["config"], bos_token_id=0, eos_token_id=0, pad_token_id=0)
    AutoModelForCausalLM.from_config(config).to(DTYPE).save_pretrained(TASK["folder"])


def states_of(cache):
    """Everything that a token changes."""
    for layer in cache.layers:
        for states in (getattr(layer, "conv_states", {}), getattr(layer, "recurrent_states", {})):
            yield from (state for state in states.values() if state is not None)
        yield from (getattr(layer, name) for name in ("keys", "values", "cumulative_length") if hasattr(layer, name))


@torch.no_grad()
def decode():
    """A prompt at once, then greedy tokens one at a time; a token reaches the host before the next begins, as in our program."""
    from transformers import AutoModelForCausalLM
    from transformers.cache_utils import StaticCache
    model = AutoModelForCausalLM.from_pretrained(TASK["folder"], dtype=DTYPE).to(DEVICE).eval()
    prompt = torch.tensor([TASK["prompt"]], device=DEVICE)
    its_name = "cache_params" if model.config.model_type == "mamba2" else "past_key_values"

    def answer(ids, cache):
        out = model(ids, **{its_name: cache}, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def read():
        cache = StaticCache(model.config, max_cache_len=len(TASK["prompt"]) + TASK["written"])
        return cache, answer(prompt, cache)

    say("prompt", lambda: timed(read))
    cache, token = read()
    kept = [state.clone() for state in (token, *states_of(cache))]

    def run_of(function):
        return lambda: token.copy_(function(token))

    def written(run):
        times, tokens = [], []
        for _ in range(max(1, TASK["repeats"] // 10)):
            for state, before in zip((token, *states_of(cache)), kept):
                state.copy_(before)
            tokens = [token.item()]
            for _ in range(TASK["written"] - 1):
                begin = time.perf_counter()
                run()
                tokens.append(token.item())
                times.append(1e3 * (time.perf_counter() - begin))
        return {"times": times, "tokens": tokens}

    every_way(lambda ids: answer(ids, cache), run_of, written)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("highest" if TASK["precision"] == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = TASK["precision"] != "fp32"
    {"random_model": random_model, "decode": decode}.get(TASK["make"], layer)()
