#!/usr/bin/env bash
# The CUDA plugin at work, on a machine with a GPU: found where it was built and where it is installed, with NVIDIA's
# libraries of the system and with those of a Python environment alone. Argument: the build folder. Code 77: no GPU here.
set -euo pipefail
build=$(realpath "$1")
nvidia-smi -L >/dev/null 2>&1 || { echo "skipped: no GPU here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }
cd "$folder"

# trains PROGRAM: on the GPU, and says the checksum.
trains() {
  "$1" train --preset tiny --until 20 --no-figures --device cuda --quiet --json --force --out out |
    sed 's/.*"checksum":"\([0-9a-f]*\)".*/\1/'
}
cuda_line() { "$1" info | grep '^  cuda'; }

! ldd "$build/bin/afterglow" | grep -E 'lib(cuda|cublas|cusolver)' || fail "the program links NVIDIA's libraries"
cuda_line "$build/bin/afterglow" | grep 'compute capability' || fail "no GPU: $(cuda_line "$build/bin/afterglow")"
first=$(trains "$build/bin/afterglow")
echo "built: checksum $first"
AFTERGLOW_PLUGIN_PATH=/nonexistent cuda_line "$build/bin/afterglow" | grep 'no CUDA plugin' || fail "no plugin is not said"

cmake --install "$build" --prefix "$folder/installed" --component program >/dev/null
program=$folder/installed/bin/afterglow
[ "$(trains "$program")" = "$first" ] || fail "installed, it has other bits"
echo "installed: fine"

# A Python environment with the libraries, and a machine without the toolkit: its folders are hidden in a mount
# namespace.
plugin=$folder/installed/lib/afterglow/libafterglow-cuda.so
environment=$folder/venv
libraries=$environment/lib/python3.12/site-packages/nvidia/cu13/lib
mkdir -p "$libraries"
places=()
while read -r library; do
  cp -L "$library" "$libraries"
  places+=("$(dirname "$(realpath "$library")")")
done < <(LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64 ldd "$plugin" | sed -n 's/.*=> \(.*lib\(cu\|nv\)[^ ]*\) .*/\1/p')
cat >alone.sh <<TEXT
set -euo pipefail
for place in $(printf '%s\n' "${places[@]}" | sort -u | xargs); do
  case \$place in
    /usr/lib/* | /lib/*) ;;  # the system's own cannot be hidden
    *) mount -t tmpfs none "\$place" ;;
  esac
done
unset LD_LIBRARY_PATH CUDA_HOME CUDA_PATH
"$program" info | grep '^  cuda' >without
VIRTUAL_ENV="$environment" "$program" info | grep '^  cuda' >with
VIRTUAL_ENV="$environment" "$program" train --preset tiny --until 20 --no-figures --device cuda --quiet --json --force --out out >trained
TEXT
if unshare --mount true 2>/dev/null; then
  unshare --mount bash alone.sh || fail "with the libraries of a Python environment alone: $(cat without with 2>/dev/null)"
  grep 'needs lib' without || echo "the libraries could not be hidden: $(cat without)"
  grep 'compute capability' with || fail "the libraries of a Python environment are not found: $(cat with)"
  grep -q "$first" trained || fail "with those libraries, it has other bits"
  echo "libraries of a Python environment: fine"
else
  echo "no name space here: libraries of a Python environment were not tried"
fi
echo "gpu: fine"
