"""How the time of many texts, and of long runs of blanks, grows: processor seconds of whole programs.

python3 tests/bench/texts.py PROGRAM: a table, the number of rows checked; exit 1 where ten times the
input takes more than twenty times as long.
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

DATA = os.path.join(os.path.dirname(__file__), "..", "..", "data")
TOKENIZER = {
    "added_tokens": [
        {"id": 1, "content": "<m>", "lstrip": True, "rstrip": True, "special": True},
        {"id": 2, "content": " x", "lstrip": True, "single_word": True, "normalized": True}],
    "model": {"type": "WordLevel", "vocab": {"?": 0, "a": 3}, "unk_token": "?"},
    "pre_tokenizer": {"type": "WhitespaceSplit"}}


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(words, rows):
    """The processor seconds of a run, whose table must have so many rows."""
    before = spent()
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.count("\n")
    assert lines == rows + 1, f"{words}: {lines} lines instead of {rows + 1}"
    return spent() - before


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text")

        def write(text):
            with open(path, "w") as file:
                file.write(text)

        def predict(count):
            write("to be\nor not\n" * (count // 2))
            tokens = subprocess.run([program, "predict", f"{DATA}/bard-llama", "-f", "csv", "--each-line",
                                     "--text-file", path], check=True, capture_output=True, text=True)
            rows = tokens.stdout.count("\n") - 1
            return measured([program, "predict", f"{DATA}/bard-llama", "--threads", "1", "-f", "csv", "--each-line",
                             "--text-file", path], rows)

        def of_each(command, name):
            def run(count):
                write("to be\nor not\n" * (count // 2))
                files = os.path.join(folder, f"{command}{count}")
                before = spent()
                subprocess.run([program, command, f"{DATA}/bard-gpt2", "--layer", "1", "--threads", "1", "-q",
                                "--each-line", "--text-file", path, "-o", f"{files}/{name}"], check=True,
                               capture_output=True)
                taken = spent() - before
                assert len(os.listdir(files)) == count, f"{command}: {len(os.listdir(files))} files"
                shutil.rmtree(files)
                return taken
            return run

        with open(os.path.join(folder, "tokenizer.json"), "w") as file:
            json.dump(TOKENIZER, file)

        def blanks(count):
            write(" " * count + "<m>" + " " * count)
            return measured([program, "tokens", folder, "-f", "csv", "--text-file", path], 1)

        slow = 0
        for name, run, few in (("predict, texts", predict, 2000), ("tokens, blanks", blanks, 100_000),
                               ("explain, texts", of_each("explain", "{batch}.txt"), 320),
                               ("show, texts", of_each("show", "{batch}.csv"), 320),
                               ("map, texts", of_each("map", "{batch}.svg"), 320),
                               ("report, texts", of_each("report", "{batch}.html"), 100),
                               ("stats, texts", of_each("stats", "{batch}.csv"), 320)):
            one, ten = run(few), run(10 * few)
            slow += ten > 20 * one
            print(f"{name:16} {few:8} {one:8.3f} s {10 * few:9} {ten:8.3f} s  x {ten / one:.1f}")
        sys.exit(slow > 0)


main()
