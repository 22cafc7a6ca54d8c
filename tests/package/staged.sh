#!/usr/bin/env bash
# An installation that is staged for a package (DESTDIR, as distributions do it) equals a direct one, file for file. Argument: the build folder.
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

cmake --install "$build" --prefix "$folder/direct" >/dev/null
DESTDIR=$folder/staged cmake --install "$build" --prefix /usr >/dev/null
[ "$(ls -A "$folder/staged")" = usr ] || fail "with DESTDIR there is more than /usr: $(ls -A "$folder/staged")"
diff <(cd "$folder/direct" && find . -type f | sort) <(cd "$folder/staged/usr" && find . -type f | sort) ||
  fail "with DESTDIR other files are installed"
ls "$folder"/staged/usr/lib/afterglow/*.so* >/dev/null || fail "with DESTDIR no libraries are installed"
"$folder/staged/usr/bin/afterglow" --version | grep -q '^afterglow [0-9]' || fail "it does not start from there"
echo "staged: fine"
