#!/usr/bin/env python3
"""What does the answer of a model of `sysprompt` (64 tokens, four bindings) depend on? Measures how much it changes with
the asked key, with the value behind it, and with the value behind another key.

    assets/walk/asked_key.py PROGRAM SNAPSHOT..

A hundred sequences of the task are answered four times each by `PROGRAM forward`. Printed are means: how often the
likeliest token is the bound value, its probability, that of all four values together, and the total variation distance
between the answer and that to another key of the sequence, to another value behind the asked key, and to another value
behind a key that is not asked.
"""
import array, json, math, pathlib, random, subprocess, sys, tempfile

START, SEPARATOR, QUERY = 1, 2, 3
KEYS, VALUES, FILLERS = range(16, 48), range(48, 80), range(80, 128)
LENGTH, BINDINGS, SEQUENCES = 64, 4, 100


def questions(draw):
    """One sequence as it is, then with another key asked, another value bound to it, another value elsewhere."""
    keys, values = draw.sample(KEYS, BINDINGS), draw.sample(VALUES, BINDINGS + 2)
    filler = [draw.choice(FILLERS) for _ in range(LENGTH - 2 * BINDINGS - 4)]
    asked = draw.randrange(BINDINGS)
    other = (asked + 1 + draw.randrange(BINDINGS - 1)) % BINDINGS

    def sequence(bound, key):
        facts = [token for pair in zip(keys, bound) for token in pair]
        return [START, *facts, SEPARATOR, *filler, QUERY, key]

    def bound(place=None, value=None):
        return [value if i == place else values[i] for i in range(BINDINGS)]

    return values[asked], values[:BINDINGS], [sequence(bound(), keys[asked]), sequence(bound(), keys[other]),
                                              sequence(bound(asked, values[-2]), keys[asked]),
                                              sequence(bound(other, values[-1]), keys[asked])]


def last_answers(program, snapshot, sequences):
    """The probabilities of the token after each sequence."""
    with tempfile.TemporaryDirectory() as folder:
        tokens, logits = pathlib.Path(folder, "tokens.txt"), pathlib.Path(folder, "logits.safetensors")
        tokens.write_text("".join(" ".join(map(str, one)) + "\n" for one in sequences))
        subprocess.run([program, "forward", snapshot, "--tokens", tokens, "--out", logits, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        data = logits.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:begin])["logits"]
    numbers = array.array("f", data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
    batch, length, vocab = entry["shape"]
    answers = []
    for b in range(batch):
        row = numbers[((b + 1) * length - 1) * vocab:(b + 1) * length * vocab]
        weights = [math.exp(x - max(row)) for x in row]
        answers.append([w / sum(weights) for w in weights])
    return answers


def main():
    draw = random.Random(1)
    asked = [questions(draw) for _ in range(SEQUENCES)]
    print("right   p(right)  p(four)   asked key  its value  another value")
    for snapshot in sys.argv[2:]:
        answers = last_answers(sys.argv[1], snapshot, [one for _, _, four in asked for one in four])
        rows = []
        for i, (right, values, _) in enumerate(asked):
            own, *others = answers[4 * i:4 * i + 4]
            rows.append([own.index(max(own)) == right, own[right], sum(own[value] for value in values),
                         *(sum(abs(a - b) for a, b in zip(own, other)) / 2 for other in others)])
        means = [sum(column) / SEQUENCES for column in zip(*rows)]
        print("{:<8.2f}{:<10.2f}{:<10.2f}{:<11.2f}{:<11.2f}{:<14.2f}".format(*means), pathlib.Path(snapshot).stem)


if __name__ == "__main__":
    main()
