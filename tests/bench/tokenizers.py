#!/usr/bin/env python3
"""What reading a large tokenizer.json costs: tokenizers.py PROGRAM [OTHER PROGRAM] [--folder FOLDER] [--rounds 9].

Two files as large models have them, made here from a fixed seed: byte-level BPE of 151,643 pieces with as many merges
written as text (11 MB), and BPE with bytes to fall back on of 262,144 pieces with 514,000 merges written as pairs
(33 MB). One word is cut into tokens; the processor's time and the peak memory of whole programs are told, in pairs
where two programs are given."""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

QWEN_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
              r"\s+(?!\S)|\s+")


def byte_characters():
    """GPT-2's character of each byte."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in prints]
    of_byte = {byte: chr(byte) for byte in prints} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [of_byte[byte] for byte in range(256)]


def grown(letters, count, longest, seed, skew=3, prefixes=False):
    """Pieces and the merges that made them, in order; with `prefixes` a beginning of each is one, too."""
    chance = random.Random(seed)
    pieces, known, merges = list(letters), set(letters), []
    while len(pieces) < count:
        # Short pieces come early, and are merged most.
        left, right = (pieces[int(len(pieces) * chance.random() ** skew)] for _ in range(2))
        for end in range(1, len(right) + 1) if prefixes else [len(right)]:
            both = left + right[:end]
            if len(both) <= longest and both not in known and len(pieces) < count:
                known.add(both)
                pieces.append(both)
                merges.append((left, right[:end]))
    return pieces, known, merges


def byte_level():
    pieces, _, merges = grown(byte_characters(), 151_643, 14, 1)
    special = [{"id": len(pieces) + i, "content": f"<|special_{i}|>", "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True} for i in range(26)]
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN_SPLIT}, "behavior": "Isolated", "invert": False}, bytes_of]},
        "post_processor": bytes_of, "decoder": bytes_of,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {piece: i for i, piece in enumerate(pieces)},
                  "merges": [" ".join(pair) for pair in merges]},
    }


def byte_fallback():
    letters = [chr(c) for c in [0x2581, *range(33, 127), *range(0xA1, 0x250), *range(0x400, 0x500),
                                *range(0x4E00, 0x5400)]]
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"] + [f"<unused{i}>" for i in range(6238)]
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces, known, merges = grown(letters, 262_144 - len(special) - len(fallback), 16, 2, skew=1, prefixes=True)
    all_merges = []
    for left, right in merges:  # every way to make a piece of two, as converted files have them
        both = left + right
        splits = [(both[:i], both[i:]) for i in range(1, len(both)) if both[:i] in known and both[i:] in known]
        all_merges += splits[:3] if (left, right) in splits[:3] else [(left, right)] + splits[:2]
    numbered = special + fallback + pieces
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, piece in enumerate(special)],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                          "invert": False},
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {piece: i for i, piece in enumerate(numbered)},
                  "merges": [list(pair) for pair in all_merges][:514_906]},
    }


KINDS = {"byte-level": byte_level, "byte-fallback": byte_fallback}


def write(folder):
    """{kind: its checkpoint's folder}, written where it is not there yet."""
    folders = {}
    for kind, make in KINDS.items():
        folders[kind] = os.path.join(folder, kind)
        path = os.path.join(folders[kind], "tokenizer.json")
        if os.path.exists(path):
            continue
        os.makedirs(folders[kind], exist_ok=True)
        # In a process of its own: a child's peak memory, as the system counts it, begins with its parent's.
        writer = os.fork()
        if writer == 0:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(make(), file, ensure_ascii=False, indent=2)
            os._exit(0)
        if os.waitpid(writer, 0)[1]:
            raise SystemExit(f"{path} was not written")
    return folders


def cost(program, folder):
    """Processor seconds and peak bytes of one run."""
    with subprocess.Popen([program, "tokens", folder, "--text", "Hello", "-f", "json"],
                          stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{program} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--folder", help="where the files stay; default: a folder that goes again")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        for kind, folder in write(given.folder or passing).items():
            size = os.path.getsize(os.path.join(folder, "tokenizer.json"))
            print(f"{kind}: {size / 1e6:.1f} MB")
            rounds = [[cost(program, folder) for program in given.programs] for _ in range(given.rounds + 1)][1:]
            for i, program in enumerate(given.programs):
                seconds = statistics.median(turn[i][0] for turn in rounds)
                peak = statistics.median(turn[i][1] for turn in rounds)
                ratio = statistics.median(turn[i][0] / turn[0][0] for turn in rounds)
                print(f"  {seconds:.3f} s, {peak / 2**20:.0f} MiB, {ratio:.2f} of the first: {program}")


if __name__ == "__main__":
    main()
