#!/usr/bin/env bash
# One training in several processes with a GPU for each: the same checksum as one process has, and how many steps a second
# each makes. Needs two GPUs and mpirun. A second program, an older one, is timed for comparison. gpus.sh PROGRAM [OTHER]
set -euo pipefail
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
[ "$gpus" -ge 2 ] || { echo "there are $gpus GPUs here, and it takes two"; exit 77; }
command -v mpirun >/dev/null || { echo "there is no mpirun here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
. "$(dirname "$0")/open_mpi.sh"
export OMPI_MCA_hwloc_base_binding_policy=none        # each process has a thread that draws and one that waits
timeout 60 mpirun -n 2 true || { echo "mpirun starts nothing on this machine"; exit 77; }
# run COUNT PROGRAM OPTIONS: a training in so many processes.
run() {
  rm -rf "$folder/out"
  local start=()
  [ "$1" = 1 ] || start=(mpirun -n "$1")
  "${start[@]}" "$2" train --device cuda --no-figures --out "$folder/out" --set shards=8 "${@:3}"
}
checksum() { run "$@" --json | checksum_in; }

for options in "tiny --until 30" "ssm-ska --until 20 --set batch=16" "echo-50m --until 6 --set batch=16"; do
  alone=$(checksum 1 "$1" --preset $options)
  [ -n "$alone" ] || fail "$options: one process said no checksum"
  shared=$(CUDA_VISIBLE_DEVICES=0 checksum 2 "$1" --preset $options)
  [ "$shared" = "$alone" ] || fail "$options: $shared of two processes on one GPU is not $alone"
  for count in 2 4 8; do
    [ "$count" -le "$gpus" ] || continue
    other=$(checksum "$count" "$1" --preset $options)
    [ "$other" = "$alone" ] || fail "$options: $other of $count processes with a GPU each is not $alone"
  done
  echo "$options: $alone"
done

# Steps a second over the last 40 of 52 steps: by then each pass is captured.
speed() {
  run "$@" --follow --until 52 | {
    step=0
    while read -r _; do
      step=$((step + 1))
      if [ "$step" = 12 ]; then from=$EPOCHREALTIME; fi
      if [ "$step" = 52 ]; then until=$EPOCHREALTIME; fi
    done
    awk -v from="${from:-0}" -v until="${until:-0}" 'BEGIN { if (until > from) printf "%.2f", 40 / (until - from); else printf "-" }'
  }
}
programs=("$1")
if [ $# -gt 1 ]; then
  # It may not choose a GPU by itself.
  printf '#!/bin/sh\nCUDA_VISIBLE_DEVICES=${OMPI_COMM_WORLD_LOCAL_RANK:-0} exec "%s" "$@"\n' "$(realpath "$2")" >"$folder/other"
  chmod +x "$folder/other"
  programs+=("$folder/other")
fi
for length in 256 1024; do
  for program in "${programs[@]}"; do
    for count in 1 2 4 8; do
      [ "$count" -le "$gpus" ] || continue
      echo "echo-50m, batch 16, $length tokens, $count processes, ${program##*/}: $(speed "$count" "$program" --preset echo-50m --set batch=16 --set length=$length) steps/s"
    done
  done
done
echo "gpus: fine"
