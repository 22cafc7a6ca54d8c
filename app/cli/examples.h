// The examples and exit codes that `--help` shows after the options of each command.
#pragma once

namespace afterglow {

inline constexpr const char* window_examples =
    "Examples:\n"
    "  afterglow                                   the window, training the few-modes preset\n"
    "  afterglow --preset ssm-ska --device cuda    another preset; `afterglow info` lists them\n"
    "  afterglow figure.svg                        reopen the run that a figure shows\n"
    "  afterglow mamba2-130m                       a folder of transformers or flash-linear-attention\n"
    "  afterglow train --preset tiny --out out     train without a window\n"
    "  afterglow plot spectrum --snapshot run.safetensors --svg spectrum.svg\n"
    "`afterglow COMMAND --help` has the options and examples of a command.\n";
inline constexpr const char* train_examples =
    "Examples:\n"
    "  afterglow train --preset tiny --out out\n"
    "  afterglow train --preset tiny --set learning_rate=1e-3 --set task.bindings=8 --seed 5\n"
    "  afterglow train --resume out/tiny_seed7_step1000.safetensors --steps 1200\n"
    "  afterglow train --preset etth1 --data ETTh1.csv --until 100 --no-figures\n"
    "  afterglow train --preset tiny --follow      one JSON object for each step, the last is the result\n"
    "  afterglow train --preset echo-50m --set recompute=16    computes blocks twice instead of storing them: less "
    "memory\n"
    "  mpirun -n 4 afterglow train --preset tiny --set shards=8    each batch in four processes (1, 2, 4 or 8: the "
    "same "
    "bits)\n";
inline constexpr const char* eval_examples =
    "Examples:\n"
    "  afterglow eval run.safetensors\n"
    "  afterglow eval run.safetensors --bindings 1,2,4,8 --lengths 64,128,256 --csv grid.csv\n"
    "  afterglow eval run.safetensors --recurrent   # token by token, as a model decodes\n"
    "  afterglow eval run.safetensors --task niah --examples 1024 --json\n";
inline constexpr const char* plot_examples =
    "Examples:\n"
    "  afterglow plot spectrum --snapshot run.safetensors --svg spectrum.svg --pdf spectrum.pdf\n"
    "  afterglow plot spectrum --snapshot run.safetensors --layer 1.ska --head 2 --png head2.png\n"
    "  afterglow plot influence --preset sessa-mqar --steps 200 --csv influence.csv\n"
    "  afterglow plot solver_race --problem '{\"shape\": \"clustered\", \"kappa\": 300}' --arithmetic bf16 --svg "
    "race.svg\n";
inline constexpr const char* info_examples =
    "Examples:\n"
    "  afterglow info                    devices, presets, tables, layers, tasks, plots, commands\n"
    "  afterglow info run.safetensors    what a snapshot, recipe or figure holds\n"
    "  afterglow info --models           models of other libraries that are opened\n"
    "  afterglow info --json\n";
inline constexpr const char* bench_examples =
    "Examples:\n"
    "  afterglow bench                   everything; minutes\n"
    "  afterglow bench ska --json\n"
    "  afterglow bench 'step tiny' --repeats 50 --threads 1\n"
    "  afterglow bench layer --json > before.json\n"
    "  afterglow bench layer --against before.json\n"
    "  afterglow bench long --svg long.svg   every mixer, 64 to 65,536 tokens: time, memory, share of the roofline\n";
inline constexpr const char* soak_examples =
    "Examples:\n"
    "  afterglow soak --seconds 600 --preset tiny\n"
    "  afterglow soak --seconds 60 --device cuda --json\n";
inline constexpr const char* layer_examples =
    "Examples:\n"
    "  afterglow layer mine.safetensors --out theirs.safetensors --force\n"
    "  afterglow layer mine.safetensors --out theirs.safetensors --float64 --device cpu\n";
inline constexpr const char* forward_examples =
    "Examples:\n"
    "  afterglow forward mamba2-130m --tokens ids.npy --out logits.safetensors\n"
    "  afterglow forward run.safetensors --tokens ids.txt --out logits.safetensors --force\n"
    "It reads .npy, .npz and .safetensors (`input_ids`, and `attention_mask`, whose zeros mark padding), .bin of\n"
    "16-bit numbers, JSON, and texts with the numbers of a sequence on each line.\n";
inline constexpr const char* generate_examples =
    "Examples:\n"
    "  afterglow generate run.safetensors --prompt \"once there was \" --temperature 0.7\n"
    "  afterglow generate tiny.safetensors --prompt \"^ k3 v9 k5 v2 | ? k3\" --count 1\n"
    "  afterglow generate mamba2-130m --tokens ids.npy --count 32 --json\n"
    "The same model, beginning and --draw give the same tokens.\n";
inline constexpr const char* export_examples =
    "Examples:\n"
    "  afterglow export run.safetensors --format transformers --out mamba2-mine\n"
    "  afterglow export run.safetensors --format fla --out gated-deltanet-mine\n"
    "  afterglow export run.safetensors --format npz --out arrays\n"
    "The folder opens with from_pretrained, the arrays with numpy.load.\n";
inline constexpr const char* tokenize_examples =
    "Examples:\n"
    "  afterglow tokenize qwen3-0.6b --text 'How long does a memory last?'\n"
    "  afterglow tokenize qwen3-0.6b/tokenizer.json --json-lines texts.jsonl --no-special\n"
    "Prints {\"ids\": [..], \"tokens\": [..], \"decoded\": \"..\"}, of --json-lines one object for each line.\n";
inline constexpr const char* table_examples =
    "Examples:\n"
    "  afterglow table mqar              results in table_mqar/; continues where it was stopped\n"
    "  afterglow table mqar --only attention --seeds 1 --set steps=500 --out quick\n"
    "  afterglow table echo_transfer --set size=small    the same in two minutes, to see that it works\n"
    "  afterglow table echo_text --data TEXT.txt --device cuda    Echo's variants on your own text\n"
    "  afterglow table mqar --shard 2/4  every fourth run; the other shards run elsewhere, in the same folder\n";
inline constexpr const char* sweep_examples =
    "Examples:\n"
    "  afterglow sweep --preset tiny --set steps=200 --axis learning_rate=log:1e-4:1e-1:16 \\\n"
    "                  --axis layers.1.ska.ridge=log:1e-6:1:16 --out map\n"
    "  afterglow sweep --preset tiny --axis layers.1.ska.K=0,1,2,4 --seeds 3 --figure loss --figure half-life\n"
    "  afterglow sweep --preset tiny --axis batch=8,16,32 --seeds 5 --enough 0.9 --out steps_to_90\n"
    "  afterglow sweep ... --out map --shard 3/16    every sixteenth run; array jobs share the folder\n"
    "  afterglow sweep ... --out map --list | parallel\n"
    "An axis is FIELD=a,b,c or FIELD=lin:FIRST:LAST:COUNT or FIELD=log:FIRST:LAST:COUNT; a field is written as for\n"
    "--set. The first axis is the figure's x, the second its y. Numbers: loss, accuracy, steps to 90 %, half-life,\n"
    "kappa, diverged, trained. Code 130: run the same command again (assets/cluster/sweep.sbatch is a job for "
    "Slurm).\n";
inline constexpr const char* check_examples =
    "Examples:\n"
    "  afterglow check                   all lessons of the program\n"
    "  afterglow check mine.md --json    reports for every step whether its expectations are met\n"
    "  afterglow check --names tiny      every number that a lesson can name, with its value\n"
    "Code 7: an expectation is not met.\n";
inline constexpr const char* grade_examples =
    "Examples:\n"
    "  afterglow grade mine.md pupil.json      which goals a recipe, snapshot or exported figure reaches\n";
inline constexpr const char* handout_examples =
    "Examples:\n"
    "  afterglow handout mine.md --html mine.html\n"
    "  afterglow handout mine.md --pdf mine.pdf\n";
inline constexpr const char* completion_examples =
    "Examples:\n"
    "  eval \"$(afterglow completion bash)\"    in ~/.bashrc; an installed package includes it\n"
    "  afterglow completion fish > ~/.config/fish/completions/afterglow.fish\n";
inline constexpr const char* manual_examples =
    "Examples:\n"
    "  afterglow manual | man -l -\n";
inline constexpr const char* exit_codes =
    "Exit codes: 0 done, 1 other failure, 2 wrong usage, 3 input missing or unreadable, 4 no usable GPU,\n"
    "5 out of memory, 6 non-finite numbers, 7 check failed, 130 interrupted";

}  // namespace afterglow
