#!/usr/bin/env python3
"""Makes programs and libraries that were linked with this system's glibc run with an older one.

Usage: lower.py OLDEST LACKING FILE...

OLDEST is a version as 2.28; LACKING is the library with what that version lacks. Where a FILE asks for a newer version of a
symbol than OLDEST has, it asks for the newest of those that were there (every glibc keeps them all); where there was
none, for that of LACKING. What neither has is refused by name. FILEs are changed in place.
"""

import re
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

HIDDEN = 0x8000  # a version by which symbols are found only when it is asked for
UNVERSIONED = 1


def number(version: str) -> tuple[int, ...]:
    """2.28 of GLIBC_2.28, so that versions can be compared; nothing of those without a number."""
    found = re.fullmatch(r"GLIBC_([0-9.]+)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


class Elf:
    """Symbols of a 64-bit ELF file and the versions that it asks for."""

    def __init__(self, path: Path):
        self.data = bytearray(path.read_bytes())
        if self.data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"{path}: not a 64-bit ELF file")
        table, size, count, names = *struct.unpack_from("<Q", self.data, 40), *struct.unpack_from("<3H", self.data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.data, table + size * i) for i in range(count)]
        name = lambda header: self.text(headers[names][4] + header[0])
        self.sections = {name(header): (header[4], header[5]) for header in headers}
        self.strings, self.strings_size = self.sections[".dynstr"]
        self.symbols = [self.text(self.strings + struct.unpack_from("<I", self.data, at)[0]) for at in self.each(".dynsym", 24)]
        self.needs = list(self.read_needs())

    def text(self, at: int) -> str:
        return self.data[at : self.data.index(0, at)].decode()

    def each(self, section: str, size: int) -> range:
        start, length = self.sections.get(section, (0, 0))
        return range(start, start + length, size)

    def version(self, symbol: int) -> int:
        return struct.unpack_from("<H", self.data, self.sections[".gnu.version"][0] + 2 * symbol)[0]

    def set_version(self, symbol: int, index: int) -> None:
        struct.pack_into("<H", self.data, self.sections[".gnu.version"][0] + 2 * symbol, index)

    def read_needs(self):
        """For each library: its name, where that entry lies, and where those of the versions lie."""
        at, length = self.sections.get(".gnu.version_r", (0, 0))
        while length:
            _, count, file, first, following = struct.unpack_from("<HHIII", self.data, at)
            entries, entry = [], at + first
            for _ in range(count):
                entries.append(entry)
                entry += struct.unpack_from("<I", self.data, entry + 12)[0]
            yield self.text(self.strings + file), at, entries
            if not following:
                return
            at += following

    def entry(self, at: int) -> tuple[int, str]:
        """Index of a needed version and its name."""
        _, _, index, name, _ = struct.unpack_from("<IHHII", self.data, at)
        return index, self.text(self.strings + name)

    def rename(self, at: int, version: str) -> None:
        """Makes the entry ask for another version, whose name the file has already."""
        place = self.data.find(b"\0" + version.encode() + b"\0", self.strings, self.strings + self.strings_size)
        if place < 0:
            raise LookupError(f"there is no room for the name {version}")
        value = 0
        for letter in version.encode():  # as the loader hashes names
            value = (value << 4) + letter
            value = (value ^ (value >> 24 & 0xF0)) & 0xFFFFFFF
        struct.pack_into("<I", self.data, at, value)
        struct.pack_into("<I", self.data, at + 8, place + 1 - self.strings)

    def keep(self, need: int, entries: list[int]) -> None:
        """Leaves a library only these entries."""
        struct.pack_into("<H", self.data, need + 2, len(entries))
        struct.pack_into("<I", self.data, need + 8, entries[0] - need)
        for at, following in zip(entries, entries[1:] + [entries[-1]]):
            struct.pack_into("<I", self.data, at + 12, following - at)

    def defined(self) -> dict[str, set[str]]:
        """Versions of each symbol that the file has itself."""
        versions, found = {UNVERSIONED: ""}, {}
        at, length = self.sections.get(".gnu.version_d", (0, 0))
        while length:
            _, _, index, _, _, first, following = struct.unpack_from("<HHHHIII", self.data, at)
            versions[index] = self.text(self.strings + struct.unpack_from("<I", self.data, at + first)[0])
            if not following:
                break
            at += following
        for symbol, at in enumerate(self.each(".dynsym", 24)):
            if struct.unpack_from("<H", self.data, at + 6)[0]:
                index = self.version(symbol) & ~HIDDEN if ".gnu.version" in self.sections else UNVERSIONED
                found.setdefault(self.symbols[symbol], set()).add(versions.get(index, ""))
        return found


@cache
def system_library(name: str) -> dict[str, set[str]]:
    path = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    return Elf(Path(path)).defined()


def lower(path: Path, oldest: tuple[int, ...], lacking: set[str]) -> int:
    """How many symbols of the file ask for something else now."""
    file, changed = Elf(path), 0
    for library, need, entries in file.needs:
        named = {file.entry(at)[1]: at for at in entries}
        new = {file.entry(at)[0]: at for at in entries if number(file.entry(at)[1]) > oldest}
        spare = list(new.values())
        for version in spare:
            del named[file.entry(version)[1]]
        for symbol, name in enumerate(file.symbols):
            if new and file.version(symbol) & ~HIDDEN in new:
                changed += 1
                older = [v for v in system_library(library).get(name, ()) if () < number(v) <= oldest]
                if older:
                    version = max(older, key=number)
                    if version not in named:
                        if not spare:
                            raise LookupError(f"there is no room for another version of {library}")
                        named[version] = spare.pop()
                    file.set_version(symbol, file.entry(named[version])[0])
                elif name in lacking:
                    file.set_version(symbol, UNVERSIONED)
                else:
                    wanted = file.entry(new[file.version(symbol) & ~HIDDEN])[1]
                    raise LookupError(f"{name} came with {wanted}, and neither an older glibc nor lacking.cpp has it")
        if new:
            if not named:
                named["GLIBC_2.2.5"] = spare.pop()  # which all libraries of glibc for x86-64 have
            for version, at in named.items():
                if at in new.values():
                    file.rename(at, version)
            file.keep(need, sorted(named.values()))
    if changed:
        path.write_bytes(file.data)
    return changed


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    lacking = set(Elf(Path(sys.argv[2])).defined())
    for path in map(Path, sys.argv[3:]):
        try:
            print(f"{path.name}: {lower(path, number('GLIBC_' + sys.argv[1]), lacking)} symbols of an older glibc")
        except LookupError as error:
            sys.exit(f"{path}: {error}")


main()
