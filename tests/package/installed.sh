#!/usr/bin/env bash
# What `cmake --install` installs works in any folder. Argument: the build folder.
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

cmake --install "$build" --prefix "$folder/first" --component program >/dev/null
mv "$folder/first" "$folder/moved"
root=$folder/moved
for file in share/man/man1/afterglow.1 share/bash-completion/completions/afterglow share/zsh/vendor-completions/_afterglow \
  share/fish/vendor_completions.d/afterglow.fish share/applications/afterglow.desktop share/mime/packages/afterglow.xml \
  share/icons/hicolor/scalable/apps/afterglow.svg share/afterglow/presets/tiny.json share/afterglow/tables/mqar.json share/doc/afterglow/copyright; do
  [ -s "$root/$file" ] || fail "$file is missing or empty"
done
# Every font and everything that is compiled in has its licence next to it.
for licence in libeigen3-dev nlohmann-json3-dev libcli11-dev libxxhash-dev; do
  [ ! -e "/usr/share/doc/$licence" ] || [ -s "$root/share/doc/afterglow/licences/$licence.txt" ] || fail "no licence of $licence"
done
! ls "$root"/share/afterglow/fonts/*Inter* >/dev/null 2>&1 || [ -s "$root/share/doc/afterglow/licences/fonts-inter.txt" ] ||
  fail "Inter is there without its licence"

cd "$folder"
program=$root/bin/afterglow
"$program" --version | grep -q '^afterglow [0-9]' || fail "it does not start from $root"
"$program" train --recipe "$root/share/afterglow/presets/tiny.json" --until 1 --no-figures --device cpu --quiet --out out >/dev/null
[ -s out/tiny_seed7_step1.safetensors ] || fail "an installed preset does not train"
# So does the plugin that speaks to screen readers; the program itself does not link their libraries.
! ldd "$program" | grep -E 'lib(atk|atspi|gio|glib)' || fail "the program needs libraries of screen readers to start"
if [ -e "$build/lib/afterglow/libafterglow-accessibility.so" ]; then
  spoken=$root/lib/afterglow/libafterglow-accessibility.so
  [ "$(nm --dynamic --defined-only "$spoken" | grep -c ' T ')" = 1 ] || fail "the plugin for screen readers is not installed as it should be"
  ! readelf --dynamic "$spoken" | grep -E 'R(UN)?PATH' || fail "the plugin for screen readers looks for libraries where it was built"
fi
# The CUDA plugin is where the program looks for it; the program itself does not link NVIDIA's libraries.
! ldd "$program" | grep -E 'lib(cuda|cublas|cusolver)' || fail "the program needs libraries of NVIDIA's to start"
if [ -e "$build/lib/afterglow/libafterglow-cuda.so" ]; then
  plugin=$root/lib/afterglow/libafterglow-cuda.so
  [ -s "$plugin" ] || fail "the CUDA plugin is not installed"
  ! readelf --dynamic "$plugin" | grep -E 'R(UN)?PATH' || fail "the CUDA plugin looks for libraries where it was built"
  [ "$(nm --dynamic --defined-only "$plugin" | grep ' T ' | grep -vc ' __cxa_get_globals')" = 2 ] || fail "the CUDA plugin exports more than its two functions"
fi
# The files for desktop and shell name what is installed.
grep -q '^Exec=afterglow ' "$root/share/applications/afterglow.desktop" || fail "the desktop entry starts something else"
bash -n "$root/share/bash-completion/completions/afterglow"
! command -v groff >/dev/null || [ -z "$(groff -man -ww -Tutf8 "$root/share/man/man1/afterglow.1" 2>&1 >/dev/null)" ] ||
  fail "groff warns about the manual"
! command -v desktop-file-validate >/dev/null || desktop-file-validate "$root/share/applications/afterglow.desktop"
! grep -rIl --exclude-dir=licences -e "$build" "$root/share" || fail "these files name the build folder"
echo "installed: fine"
