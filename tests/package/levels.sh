#!/usr/bin/env bash
# Only the kernels of a level use instructions of its processors, so the program runs on an older one. Argument: a
# build folder with AFTERGLOW_LEVELS.
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

for level in v2 v3 v4; do
  kernels=$build/core/kernels_$level.o
  [ "$(nm --defined-only --extern-only "$kernels" | wc -l)" = 1 ] || fail "level $level shares more than one function"
  ! grep '\.init_array\|\.ctors' <(readelf --sections --wide "$kernels") || fail "level $level runs code before the choice"
done
grep -c '%ymm' <(objdump -d "$build/core/kernels_v3.o") >/dev/null || fail "level v3 has no AVX"
grep -c '%zmm' <(objdump -d "$build/core/kernels_v4.o") >/dev/null || fail "level v4 has no AVX-512"
while read -r object; do
  ! grep -m1 -E '%[yz]mm|%k[0-7]|\bv[a-z0-9]+[sp][sd] ' <(objdump -d --no-show-raw-insn "$object") >"$folder/found" ||
    fail "$object has instructions of AVX: $(cat "$folder/found")"
done < <(find "$build" -name '*.o' -not -path '*/afterglow_kernels_v[234].dir/*' -not -name 'kernels_v[234].o')

program=$build/bin/afterglow
cd "$folder"
checksum() { "$@" train --preset tiny --until 3 --no-figures --device cpu --threads 1 --quiet --json --force --out out |
  sed 's/.*"checksum":"\([0-9a-f]*\)".*/\1/'; }
for level in v2 v3 v4; do
  [ "$level" != v4 ] || grep -q avx512vl /proc/cpuinfo || continue
  AFTERGLOW_CPU_LEVEL=$level "$program" info | grep "CPU x86-64-$level," >/dev/null || fail "info does not say $level"
  one=$(AFTERGLOW_CPU_LEVEL=$level checksum "$program")
  two=$(AFTERGLOW_CPU_LEVEL=$level checksum "$program")
  [ "$one" = "$two" ] || fail "level $level gives $one, then $two"
  echo "$level: checksum $one"
done
code=0
AFTERGLOW_CPU_LEVEL=v9 "$program" info >/dev/null 2>said || code=$?
[ "$code" = 2 ] && grep -q 'v9' said || fail "an unknown level is not refused"
if command -v qemu-x86_64 >/dev/null; then
  # Processors of 2008 and of 2013, as far as qemu knows them.
  for old in Nehalem:v2 Haswell:v3; do
    qemu-x86_64 -cpu "${old%:*}" "$program" info 2>/dev/null | grep "CPU x86-64-${old#*:}," >/dev/null || fail "${old%:*} does not run ${old#*:}"
    echo "${old%:*}: checksum $(checksum qemu-x86_64 -cpu "${old%:*}" "$program" 2>/dev/null)"
  done
fi
echo "levels: fine"
