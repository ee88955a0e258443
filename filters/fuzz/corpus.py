#!/usr/bin/env python3
"""The committed inputs of a fuzz target: corpus/TARGET.txt, an input on each line.

    corpus.py unpack TARGET FOLDER   writes each input into a file, as libFuzzer reads them
    corpus.py pack TARGET FOLDER     replaces the inputs without a name by those in the folder

A line is a name, a tab and the bytes; the name is empty for what a fuzzer has found on its way.
Seeds and findings have one, and stay. Bytes other than printable ASCII are written as `\\xNN`.
"""
import pathlib
import re
import sys

WORKSPACE = pathlib.Path(__file__).resolve().parents[2]


def corpus(target):
    """The file of a target, which is either the filters' or the control plane's."""
    folders = [WORKSPACE / part / "fuzz" / "corpus" for part in ("filters", "control-plane")]
    return next(folder / f"{target}.txt" for folder in folders if (folder / f"{target}.txt").exists())


def escaped(data):
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in data)


def unescaped(text):
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text).encode("latin-1")


def read(target):
    lines = corpus(target).read_text(encoding="ascii").splitlines()
    return [(name, unescaped(text)) for name, _, text in (line.partition("\t") for line in lines)]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[3])
    target = sys.argv[2]
    if sys.argv[1] == "unpack":
        folder.mkdir(parents=True, exist_ok=True)
        for number, (name, data) in enumerate(read(target)):
            (folder / (name or f"{number:04}")).write_bytes(data)
        return
    named = [(name, data) for name, data in read(target) if name]
    known = {data for _, data in named}
    found = {file.read_bytes() for file in folder.iterdir()} - known
    rows = named + [("", data) for data in sorted(found, key=lambda data: (len(data), data))]
    text = "".join(f"{name}\t{escaped(data)}\n" for name, data in rows)
    corpus(target).write_text(text, encoding="ascii")
    print(f"{target}: {len(rows)} inputs, {len(named)} of them with a name")


main()
