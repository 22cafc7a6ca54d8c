#!/usr/bin/env bash
# Packages are built with run-time checks, and memory that an attacker could use through a defect is protected.
# Argument: a build folder with AFTERGLOW_HARDENED.
set -euo pipefail
build=$(realpath "$1")
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

# closed FILE: tables of the loader are read-only after the start and the stack holds no code.
closed() {
  local headers dynamic
  headers=$(readelf --program-headers --wide "$1") dynamic=$(readelf --dynamic --wide "$1")
  [[ $headers == *GNU_RELRO* ]] || fail "$1: no RELRO"
  [[ $dynamic == *BIND_NOW* || $dynamic == *"Flags: NOW"* ]] || fail "$1: the loader binds late, so its tables stay open"
  ! grep -E 'GNU_STACK.*RWE' <<<"$headers" || fail "$1: the stack may hold code"
  ! grep -E 'LOAD.*RWE' <<<"$headers" || fail "$1: memory that is written to may hold code"
}

program=$build/bin/afterglow
closed "$program"
readelf --file-header "$program" | grep -q 'DYN' || fail "the program lies at a fixed address"
# Libraries of the distribution that are linked in are hardened, too, so the compile commands of our own files are checked.
commands=$(grep '"command":' "$build/compile_commands.json" | grep -v 'nvcc ')
for flag in -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fstack-clash-protection; do
  ! grep -v -e "$flag" <<<"$commands" || fail "compiled without $flag"
done
# The condition of std::vector's operator[], as the library's assertion prints it.
grep --quiet --text --fixed-strings '__n < this->size()' "$program" || fail "containers of the library are not checked"
plugin=$build/lib/afterglow/libafterglow-cuda.so
[ ! -e "$plugin" ] || closed "$plugin"
echo "hardened: fine"
