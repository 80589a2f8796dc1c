#!/usr/bin/env python3
"""Copies a checkpoint with another config, or without some tensors.

    edit.py FROM TO [KEY=JSON | -TENSOR]...
"""
import json
import os
import shutil
import struct
import sys


def without(path, names):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    missing = set(names) - set(header)
    assert not missing, missing
    kept, at, parts = {}, 0, []
    for name, entry in header.items():
        if name == "__metadata__":
            kept[name] = entry
        elif name not in names:
            begin, end = entry["data_offsets"]
            kept[name] = {**entry, "data_offsets": [at, at + end - begin]}
            at += end - begin
            parts.append(data[begin:end])
    text = json.dumps(kept).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main():
    source, target, *edits = sys.argv[1:]
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("expected"))
    config = os.path.join(target, "config.json")
    with open(config, encoding="utf-8") as file:
        there = json.load(file)
    for edit in edits:
        if not edit.startswith("-"):
            key, value = edit.split("=", 1)
            there[key] = json.loads(value)
    with open(config, "w", encoding="utf-8") as file:
        json.dump(there, file)
    dropped = [edit[1:] for edit in edits if edit.startswith("-")]
    if dropped:
        without(os.path.join(target, "model.safetensors"), dropped)


if __name__ == "__main__":
    main()
