#!/usr/bin/env python3
"""Copies a checkpoint with another config, or without some tensors.

    edit.py FROM TO [KEY=JSON | -TENSOR]...
"""
import json
import os
import shutil
import sys

import safetensors


def main():
    source, target, *edits = sys.argv[1:]
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("expected"))
    config, weights = os.path.join(target, "config.json"), os.path.join(target, "model.safetensors")
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
        tensors = safetensors.read(weights)
        for name in dropped:
            del tensors[name]
        safetensors.write(weights, tensors)


if __name__ == "__main__":
    main()
