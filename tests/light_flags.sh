#!/usr/bin/env bash
# tests/light_flags.sh BUILD: fails if code with light optimisation holds functions of Eigen. The linker would keep one copy of
# each for the whole program: the kernels would be slower and round otherwise.
set -euo pipefail
objects() { find "$1/app" "$1/views" "$1/core/CMakeFiles/"afterglow_{composed,descriptions,figure}.dir -name '*.o'; }
[ -n "$(objects "$1")" ] || { echo "no objects below $1"; exit 1; }
if objects "$1" | xargs nm --print-file-name --defined-only --demangle | grep -E ' [Wu] (.* )?Eigen::'; then
  echo "move this code into core"
  exit 1
fi
