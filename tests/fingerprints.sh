#!/usr/bin/env bash
# Prints the SHA-256 of everything that `tiny` (seed 7, CPU, two threads) leaves: weights, curves and the figures of every
# plot. Two builds that print the same compute and draw the same:
#   tests/fingerprints.sh old/bin/afterglow > old.txt; tests/fingerprints.sh build/bin/afterglow | diff old.txt -
set -euo pipefail
program=$(realpath "${1:-build/bin/afterglow}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export TZ=UTC LC_ALL=C
run() { "$program" "$@" --device cpu --threads 2 >/dev/null 2>&1; }

run train --preset tiny --seed 7 --out .
snapshot=$(echo tiny_seed7_step*.safetensors)
for plot in $("$program" info --json | python3 -c 'import json, sys; print(*(plot["name"] for plot in json.load(sys.stdin)["plots"]))'); do
  for ((number = 0; number < 16; ++number)); do
    run plot "$plot" --snapshot "$snapshot" --figure "$number" --svg "plot_${plot}_$number.svg" \
      --csv "plot_${plot}_$number.csv" || break
  done
done
sha256sum -- *
