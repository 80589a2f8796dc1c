#!/usr/bin/env python3
"""Copies a checkpoint with another config, without some tensors, or with more.

    edit.py FROM TO [KEY=JSON | -TENSOR | +TENSOR=OTHER[:DTYPE]]...

OTHER's numbers are stored under TENSOR, too, as DTYPE.
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
        if edit[0] not in "+-":
            key, value = edit.split("=", 1)
            there[key] = json.loads(value)
    with open(config, "w", encoding="utf-8") as file:
        json.dump(there, file)
    tensors = safetensors.read(weights)
    for edit in edits:
        if edit[0] == "-":
            del tensors[edit[1:]]
        elif edit[0] == "+":
            name, _, dtype = edit[1:].partition(":")
            name, other = name.split("=")
            tensors[name] = (dtype or tensors[other][0], tensors[other][1])
    safetensors.write(weights, tensors)


if __name__ == "__main__":
    main()
