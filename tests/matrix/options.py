#!/usr/bin/python3
"""Every option of every command takes every kind of value that its help names.

    /usr/bin/python3 tests/matrix/options.py PROGRAM [--starter LIBRARY] [--refusals] [--share N]

The options are those of `COMMAND --help all`. A value is named by the words in its place (`none|half`), by a kind in
capitals (`NUMBER`, of which KINDS has examples) or by the text (`-1 = all`). First all options of a command stand on
one line, with a value of each, as often as there are values: whatever else is wrong with such a line, no value may be
one that its option does not take. Then each option with each of its values stands alone, on a layer or a model: some
are looked at only when there is one. --refusals: prints what such runs say for other reasons. --share: every
Nth run, and the first of each command and of each option.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from commands import COMMANDS
from share import share_of
from starter import Starter

ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "1000"}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYER, MODEL = ["data/quickstart.json"], ["data/induction-model"]

# Instead of both; a bench takes a second.
SOURCES = {"names": [[]], "completion": [[]], "bench": [["nowhere.json"]], "tokens": [[*MODEL, "--text", "a b"]]}

KINDS = {
    "N": ["1"], "NUMBER": ["0.5", "1", "2e1"], "L": ["1"], "R": ["1"], "X": ["0.5", "2"], "DIGITS": ["3"],
    "SIZE": ["2G", "512M", "1.5GiB", "0"], "MB": ["24"], "LIST": ["0", "0,1", "0-1", "0:1", "-1"], "I/N": ["1/1"],
    "T,H,W": ["1,0,0", "16,24,24"], "N,N…": ["1,2"], "FILE": ["FILE"], "PATH": ["OUT"], "REF": ["REF"], "TEXT": ["a b"],
    "WORDS": ["a b"], "PREFIX": ["layers.0"], "FAMILY": ["llama"], "PLACE=VALUE": ["weights[0] = zero", "q *= 0.5"],
    "NAME[,NAME]": ["q", "q,k"], "NAME": ["scores"], "STAGES": ["q", "q,k"], "STAGE:NUMBER": ["weights:0.5"],
    "SOURCE": LAYER, "LAYER": ["0"], "TOKEN": ["a"], "TOKEN[,TOKEN]": ["a", "a,b"], "MEASURE": ["entropy"],
    "KIND[,KIND]": ["Q", "Q,K"], "AXES": ["layer", "layer,query"], "PLACES": ["layers.0.head_out[0]"],
    "PART": ["layers.0.head_out[0]"], "COLUMN[:asc]": ["entropy", "entropy:asc"],
}
# Where a kind has other examples.
OWN = {
    "--layer": ["0", "0-1", "all"], "--query": ["0", "0,1", "0-1", "0:1", "-1", "a", "a#2"], "--key": ["0", "-1", "a"],
    "--ids": ["1,2", "FILE"], "--naming": ["llama", "DESCRIPTION"], "--kind": ["previous-token", "first-token,induction"],
    "--measures": ["entropy", "entropy,first"], "--part": ["1/1", "2/3"],
    "effects --grid": ["kl", "change"], "circuits --grid": ["qk_rank", "copying"],
}


@dataclass
class Option:
    command: str
    name: str
    value: str   # "NUMBER|none"; "" for a flag
    text: str
    setting: bool

    def values(self):
        if not self.value:
            return [None]
        own = OWN.get(f"{self.command} {self.name}", OWN.get(self.name))
        if own:
            return own
        words = []
        for word in self.value.split("|"):
            if word in KINDS:
                words += KINDS[word]
            elif word == word.lower():
                words.append(word)
            else:
                raise SystemExit(f"{self.command} {self.name} {self.value}: KINDS has no example of {word}")
        return words + [number for number in re.findall(r"(?<![\w.-])(-?\d+) = ", self.text) if number not in words]


def options_of(program, command):
    """As the help lists them; a text may stand on the next line."""
    text = subprocess.run([program, command, "--help", "all"], capture_output=True, text=True, check=True,
                          env=ENVIRONMENT).stdout
    found, group = [], ""
    for line in text.splitlines():
        head = re.match(r"  (?:-\w, |    )(--[\w-]+)(?:, (--no-[\w-]+))?(?: (\S+(?: \S+)*))?(?:  +(.*))?$", line)
        if head:
            name, off, value, said = head.groups()
            found += [Option(command, one, value or "", said or "", group.startswith("Settings"))
                      for one in (name, off) if one]
        elif re.match(r"\S", line):
            group = line
        elif found and line.strip():
            found[-1].text += " " + line.strip()
    return found


def is_refused(option, value, err):
    """Whether a message says that the option has no such value."""
    return bool(re.search(rf"mha-inspect: {option.name}( is '| is set to '|: .*unknown option|.*: one of .* expected)", err)) or \
        "unknown option" in err or (value is not None and f"'{value}'" in err and " expected" in err)


class Runs:
    def __init__(self, program, library, folder):
        self.folder = folder
        self.files = {"FILE": "data/induction/hidden.npz", "REF": os.path.join(folder, "REF.npz"),
                      "DESCRIPTION": os.path.join(folder, "DESCRIPTION.json")}
        self.starter = Starter(program, ENVIRONMENT, library, processes=os.cpu_count())

    def run(self, words, options):
        """What a run says against any of the options that stand on its line."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            line = list(words)
            for option, value in options:
                line += [option.name] + ([] if value is None else [value])
            files = {"OUT": os.path.join(place, "out.png" if words[0] == "map" else "out.json"), **self.files}
            line = [re.sub("^(OUT|REF|FILE|DESCRIPTION)", lambda found: files[found[0]], word) for word in line]
            done = self.starter.start(line, ROOT, place)
        errors = "\n".join(text for text in done.err.splitlines() if text.startswith("mha-inspect: "))
        wrong = [option.name for option, value in options if is_refused(option, value, errors)]
        return done, wrong, errors, line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--starter", default="")
    parser.add_argument("--refusals", action="store_true")
    parser.add_argument("--share", type=int, default=1, metavar="N")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    with tempfile.TemporaryDirectory(prefix="mha-options-") as folder:
        def write(name, words):
            with open(os.path.join(folder, name), "wb") as file:
                subprocess.run([program, *words], cwd=ROOT, check=True, stdout=file, stderr=subprocess.DEVNULL)

        write("DESCRIPTION.json", ["info", *MODEL, "--as-naming"])
        subprocess.run([program, "dump", *LAYER, "-q", "-o", os.path.join(folder, "REF.npz")], cwd=ROOT, check=True)
        options = {name: options_of(program, name) for name in COMMANDS}
        work = []
        for name, found in options.items():
            for turn in range(max((len(option.values()) for option in found), default=0)):
                line = [(option, option.values()[min(turn, len(option.values()) - 1)]) for option in found
                        if not option.name.startswith("--no-") or turn % 2]
                off = {"--" + option.name[5:] for option, _ in line if option.name.startswith("--no-")}
                work.append(([name, "nowhere.json"], [one for one in line if one[0].name not in off]))
            for option in found:
                if option.setting and name != "show":
                    continue  # the same row of the same table
                needs = COMMANDS[name].needs if option.name != "--output" else []
                against = ["--against", "REF"] if COMMANDS[name].compares and option.name != "--against" else []
                for value in option.values():
                    for sources in SOURCES.get(name, [LAYER] if option.setting else [LAYER, [*MODEL, "--ids", "0,1,2,3"]]):
                        work.append(([name, *sources, *needs, *against], [(option, value)]))
        work = share_of(work, arguments.share, lambda one: [one[0][0], one[1][0][0].name if len(one[1]) == 1 else ""])
        runs = Runs(program, arguments.starter, folder)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda one: runs.run(*one), work))
        runs.starter.close()
    finds = [f"{' '.join(line)}\n    {errors}" for done, wrong, errors, line in results if wrong]
    if arguments.refusals:
        print("\n".join(f"{' '.join(line)[:200]}\n    {errors[:300]}" for _, wrong, errors, line in results
                        if errors and not wrong))
    print("\n".join(finds))
    values = sum(len(option.values()) for found in options.values() for option in found)
    print(f"{values} values of {sum(map(len, options.values()))} options of {len(options)} commands in {len(work)} runs, "
          f"{len(finds)} finds; {sum(done.seconds for done, *_ in results):.1f} s of the processor")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
