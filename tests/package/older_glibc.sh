#!/usr/bin/env bash
# Archive and wheel run on systems older than the one that made them: no file inside needs a newer symbol than systems
# of manylinux_2_28 have, and libraries that those lack are included. Arguments: the folder with the packages, and if there
# is one, a folder with an older glibc (lib/ld-linux-x86-64.so.2), with which the program is started.
set -euo pipefail
packages=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
older=${2:+$(realpath "$2")}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'failed: %s\n' "$*" >&2; exit 1; }

# later VERSION LIMIT: whether VERSION came after LIMIT.
later() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]; }

# old_enough FILE: systems of manylinux_2_28 have every symbol that it needs.
old_enough() {
  local symbol limit
  while read -r symbol; do
    case $symbol in
      GLIBC_[0-9]*) limit=GLIBC_2.28 ;;
      GLIBCXX_[0-9]*) limit=GLIBCXX_3.4.24 ;;
      CXXABI_[0-9]*) limit=CXXABI_1.3.11 ;;
      GCC_[0-9]*) limit=GCC_7.0.0 ;;
      *) fail "$1 asks for $symbol" ;;
    esac
    ! later "$symbol" "$limit" || fail "$1 asks for $symbol, later than $limit"
  done < <(sed '1,/Version References/d' <(objdump -p "$1") | grep -oE '(GLIBC|GLIBCXX|CXXABI|GCC)_[A-Za-z0-9._]+' | sort -u)
}

# complete LIBRARIES FILE: libraries that FILE needs of glibc without a version are included for systems without them.
nm --dynamic --defined-only --without-symbol-versions "$(cc -print-file-name=libc.so.6)" | awk '{print $NF}' | sort -u >"$folder/glibc"
complete() {
  local lacking
  nm --dynamic --defined-only --without-symbol-versions "$1"/*.so* | awk 'NF == 3 {print $NF}' | sort -u >"$folder/inside"
  lacking=$(nm --dynamic --undefined-only "$2" | awk '$NF !~ /@/ {print $NF}' | sort -u | comm -12 - "$folder/glibc" |
    comm -23 - "$folder/inside")
  [ -z "$lacking" ] || fail "$2 asks for these, which an older glibc lacks: $lacking"
}

# holds NAME ROOT: the program below ROOT and its libraries keep to that.
holds() {
  local file count=0 libraries=$2/lib/afterglow
  for file in "$2/bin/afterglow" "$libraries"/*.so*; do
    old_enough "$file"
    complete "$libraries" "$file"
    count=$((count + 1))
  done
  [ "$count" -gt 10 ] || fail "$1 holds $count files: not all were found"
  # An older loader must find the libraries that glibc once had before glibc itself.
  readelf --dynamic "$2/bin/afterglow" | grep -o 'NEEDED.*' | grep -E 'lib(pthread|dl|rt|c)\.so' | tail -n 1 | grep -q 'libc\.so' &&
    [ "$(readelf --dynamic "$2/bin/afterglow" | grep -cE 'NEEDED.*lib(pthread|dl|rt)\.so')" = 3 ] ||
    fail "the program does not name libpthread, libdl and librt before libc"
  # Where glibc has an included library, the loader takes glibc's: the program itself does not name the other library.
  ! readelf --dynamic "$2/bin/afterglow" | grep 'NEEDED.*libafterglow-glibc' || fail "the program looks there before glibc"
  for file in "$2/bin/afterglow" "$libraries"/libafterglow-cuda.so; do
    [ ! -e "$file" ] || nm --dynamic --defined-only "$file" | grep -q ' T __cxa_get_globals$' ||
      fail "$file counts exceptions by itself"
  done
  echo "$1: $count files ask for nothing later than glibc 2.28"
}

# trains PREFIX... : the checksum of a short training by the program that is named last.
trains() {
  "$@" train --preset tiny --until 20 --no-figures --device cpu --quiet --json --force --out "$folder/out" |
    sed 's/.*"checksum":"\([0-9a-f]*\)".*/\1/'
}

# starts ROOT: with the older glibc, the program trains the same bits and draws.
starts() {
  local program=$1/bin/afterglow with_ours with_older code
  local loader=("$older/lib/ld-linux-x86-64.so.2" --library-path "$older/lib:$1/lib/afterglow:$folder/compiler")
  mkdir "$folder/compiler"
  cp -L "$(cc -print-file-name=libgcc_s.so.1)" "$folder/compiler"
  c++ -std=c++20 -O2 -fno-exceptions -fPIC -shared -nostdlib "$here/find_object.cpp" -Wl,-soname,libfind_object.so -o "$folder/compiler/libfind_object.so" -lc
  patchelf --add-needed libfind_object.so "$folder/compiler/libgcc_s.so.1"
  python3 "$here/../../assets/package/older_glibc/lower.py" 2.28 "$folder/compiler/libfind_object.so" "$folder/compiler/libgcc_s.so.1" >/dev/null
  "${loader[@]}" "$program" --version || fail "it does not start with the older glibc"
  "${loader[@]}" "$program" info >/dev/null || fail "no info with the older glibc"
  with_ours=$(trains "$program")
  with_older=$(trains "${loader[@]}" "$program")
  [ "$with_ours" = "$with_older" ] || fail "with the older glibc, training gives $with_older instead of $with_ours"
  "${loader[@]}" "$program" plot spectrum --snapshot "$folder/out/tiny_seed7_step20.safetensors" --pdf "$folder/a.pdf" --quiet >/dev/null
  [ -s "$folder/a.pdf" ] || fail "nothing is drawn with the older glibc"
  code=0
  "${loader[@]}" "$program" eval "$folder/nothing" 2>"$folder/said" || code=$?  # thrown, and caught
  [ "$code" = 3 ] || fail "with the older glibc, a missing file ends with $code: $(cat "$folder/said")"
  echo "older glibc: checksum $with_older"
}

mkdir "$folder/archive" "$folder/wheel"
tar --extract --zstd --file "$(ls "$packages"/afterglow-*.tar.zst)" --directory "$folder/archive" --strip-components=1
root=$folder/archive
holds archive "$root"
wheel=$(ls "$packages"/afterglow-*.whl 2>/dev/null) || wheel=
if [ -n "$wheel" ]; then
  [[ $wheel == *manylinux_2_28_x86_64* ]] || fail "the wheel's tag: $wheel"
  python3 -m zipfile --extract "$wheel" "$folder/wheel"
  root=$folder/wheel/afterglow
  chmod +x "$root/bin/afterglow"
  holds wheel "$root"
fi
[ -z "$older" ] || starts "$root"
echo "older glibc: fine"
