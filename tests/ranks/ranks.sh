#!/usr/bin/env bash
# One training in several processes over MPI: the same bits and files in 1, 2 and 4 of them, messages from one only, and
# an end for all where one fails. ranks.sh PROGRAM
set -euo pipefail
program=$1
command -v mpirun >/dev/null || { echo "there is no mpirun here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
. "$(dirname "$0")/open_mpi.sh"
timeout 60 mpirun -n 2 true || { echo "mpirun starts nothing on this machine"; exit 77; }
run() { mpirun --mca mpi_yield_when_idle 1 -n "$1" "$program" train --preset tiny --device cpu --threads 1 "${@:2}"; }

"$program" train --preset tiny --device cpu --threads 1 --set shards=8 --until 12 --no-figures --out "$folder/1" --json >"$folder/alone"
for count in 2 4; do
  run "$count" --set shards=8 --until 12 --no-figures --out "$folder/$count" --json >"$folder/out" 2>"$folder/err" ||
    { cat "$folder/out" "$folder/err"; fail "$count processes ended with $?"; }
  [ "$(wc -l <"$folder/out")" = 1 ] || fail "$count processes printed $(wc -l <"$folder/out") lines"
  for file in "$folder"/1/*; do
    [ "${file##*/}" = "${file##*/*metrics*}" ] && continue
    cmp "$file" "$folder/$count/${file##*/}" || fail "${file##*/} of $count processes is another"
  done
done

code=0
run 2 --until 12 --out "$folder/whole" >"$folder/out" 2>&1 || code=$?
[ "$code" = 2 ] || fail "a batch that is not cut: code $code"
grep -q "shards=8" "$folder/out" || fail "it is not said how the batch is cut"
code=0
run 3 --set shards=8 --until 12 --out "$folder/three" >"$folder/out" 2>&1 || code=$?
[ "$code" = 2 ] || fail "three processes: code $code"

# Started together by another MPI than the program's: each would be alone and train everything.
code=0
PMI_SIZE=2 "$program" train --preset tiny --device cpu --threads 1 --set shards=8 --until 12 --out "$folder/apart" >"$folder/out" 2>&1 || code=$?
[ "$code" = 2 ] && grep -q "sees 1" "$folder/out" || { cat "$folder/out"; fail "another MPI's processes: code $code"; }
[ ! -e "$folder/apart" ] || fail "a process of another MPI has written"

# The folder cannot be written: all end with the first one's code and sentence.
touch "$folder/file"
code=0
run 2 --set shards=8 --until 12 --no-figures --out "$folder/file/in" >"$folder/out" 2>&1 || code=$?
[ "$code" != 0 ] && grep -q "afterglow: " "$folder/out" || { cat "$folder/out"; fail "a failure was not reported (code $code)"; }
echo "ranks: fine"
