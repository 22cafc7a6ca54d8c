#!/usr/bin/env bash
# The packages as users get them: a .deb in an empty folder, the archive moved to another folder, the wheel in a fresh
# environment. Argument: the folder with the packages. Writes into no other place than a temporary folder.
set -euo pipefail
packages=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
folder=$(mktemp -d)
chmod 755 "$folder"
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }
# Without NVIDIA's libraries, and without the user's own settings and fonts.
export LD_LIBRARY_PATH='' HOME=$folder/home
unset XDG_CONFIG_HOME XDG_DATA_HOME
mkdir "$HOME"

# has_plugin LIBRARIES: the CUDA plugin is there where it was built, and says by itself why there is no GPU.
if [ -e "$packages/../lib/afterglow/libafterglow-cuda.so" ]; then built_plugin=yes; else built_plugin=no; fi
has_plugin() {
  [ $built_plugin = no ] || [ -s "$1/libafterglow-cuda.so" ] || fail "no CUDA plugin in $1"
}

# starts PROGRAM: it finds its libraries, names itself, trains, and draws a PDF with a font of its own.
starts() {
  local program=$1 out
  out=$(mktemp -d "$folder/out.XXXX")
  ! ldd "$program" | grep 'not found' || fail "$program lacks libraries"
  "$program" --version | grep '^afterglow [0-9]' || fail "$program does not start"
  ! ldd "$program" | grep -E 'lib(cuda|cublas|cusolver)' || fail "$program needs libraries of NVIDIA's to start"
  "$program" info | grep -E '^  (cpu|cuda)' || fail "$program has no devices"
  "$program" train --preset tiny --until 2 --no-figures --device cpu --quiet --out "$out" >/dev/null
  "$program" plot spectrum --snapshot "$out/tiny_seed7_step2.safetensors" --svg "$out/a.svg" --pdf "$out/a.pdf" --quiet >/dev/null
  [ -s "$out/a.svg" ] && [ -s "$out/a.pdf" ] || fail "$program draws nothing"
}

# opens PROGRAM SETTINGS: a window that is closed by its key leaves its settings there. Needs a display and xdotool.
opens() {
  local program=$1 settings=$2 process window
  [ -n "${DISPLAY:-}" ] && command -v xdotool >/dev/null || { echo "no display: the window was not opened"; return 0; }
  "$program" --preset tiny --size 900x600 >/dev/null 2>"$folder/said" &
  process=$!
  for _ in $(seq 240); do
    sleep 0.5
    kill -0 "$process" 2>/dev/null || break
    window=$(xdotool search --onlyvisible --name '^Afterglow' 2>/dev/null | head -n 1) || true
    [ -z "$window" ] || xdotool windowfocus --sync "$window" key ctrl+q 2>/dev/null || true
  done
  ! kill "$process" 2>/dev/null || fail "the window did not close: $(cat "$folder/said")"
  wait "$process" || fail "the window ended badly: $(cat "$folder/said")"
  [ "$settings" = none ] || [ -s "$settings" ] || fail "no settings in $settings"
}

deb=$(ls "$packages"/afterglow_*.deb)
dpkg-deb --extract "$deb" "$folder/deb"
depends=$(dpkg-deb --field "$deb" Depends)
for library in libc6 libcairo2 libglfw3; do
  [[ $depends == *"$library"* ]] || fail "the .deb does not depend on $library: $depends"
done
[ -s "$folder/deb/usr/share/applications/afterglow.desktop" ] || fail "the .deb has no desktop entry"
[ ! -e "$folder/deb/usr/bin/portable" ] || fail "the .deb keeps settings in /usr/bin"
[[ $depends != *cublas* && $depends != *cuda* ]] || fail "the .deb depends on NVIDIA's libraries: $depends"
has_plugin "$folder/deb/usr/lib/afterglow"
starts "$folder/deb/usr/bin/afterglow"
opens "$folder/deb/usr/bin/afterglow" "$HOME/.config/afterglow/settings.json"
echo "deb: fine"

mkdir "$folder/stick"
tar --extract --zstd --file "$(ls "$packages"/afterglow-*.tar.zst)" --directory "$folder/stick"
mv "$folder"/stick/afterglow-* "$folder/carried about"
program="$folder/carried about/bin/afterglow"
ldd "$program" | grep -q "carried about/.*libcairo" || fail "the archive takes the system's cairo"
has_plugin "$folder/carried about/lib/afterglow"
for library in "$folder/carried about"/lib/afterglow/*; do
  [ "$(basename "$library")" != libafterglow-cuda.so ] || continue
  ! ldd "$library" | grep 'not found' || fail "$library lacks libraries"
done
starts "$program"
rm -rf "$HOME/.config"
opens "$program" "$folder/carried about/bin/afterglow-settings/settings.json"
[ ! -e "$HOME/.config/afterglow" ] || fail "the portable program left something at home"
rm -rf "$folder/carried about/bin/afterglow-settings"
chmod -R a-w,a+rX "$folder/carried about"
if [ "$(id -u)" = 0 ]; then  # to whom nothing is read-only
  setpriv --reuid=65534 --regid=65534 --clear-groups "$program" --version >/dev/null || fail "it does not run from a read-only place"
  (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent "$program" info >/dev/null) || fail "nor info"
else
  starts "$program"
  opens "$program" none
fi
echo "archive: fine"

wheel=$(ls "$packages"/afterglow-*.whl 2>/dev/null) || { echo "no wheel was made"; exit 0; }
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet "$wheel" pytest
[ "$("$folder/python/bin/afterglow" --version)" = "$("$program" --version)" ] || fail "the wheel's program is another one"
has_plugin "$(echo "$folder"/python/lib/python3*/site-packages/afterglow/lib/afterglow)"
cd "$folder"
"$folder/python/bin/python" -m pytest -q -p no:cacheprovider "$here/../../python/tests"
opens "$folder/python/bin/afterglow" none
echo "wheel: fine"
