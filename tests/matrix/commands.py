"""Every command: what it needs beside its input, which kinds of input it works on, and under which
options. A command of app/commands/commands.cpp without a row here fails the matrix.
"""
from dataclasses import dataclass, field

ONE_LAYER = {"lone", "batched", "checkpoint", "chosen", "stages"}
SEVERAL = {"layers", "checkpoints", "text", "batch", "lines", "numbers", "padded", "varied"}
LAYERS = ONE_LAYER | SEVERAL
TEXTS = {"text", "batch", "lines"}
MODELS = TEXTS | {"numbers", "padded", "varied"}


@dataclass
class Command:
    works: set                          # kinds of input; 2 of the others
    needs: list = field(default_factory=list)   # OUT is a path of the run's own
    file: str = ""                      # what -o is given; "": there is no such option
    options: list = field(default_factory=list)  # each is a run of its own, beside the one without
    threads: bool = True                # has --threads, and as many of them as you like give the same bytes
    one_file_lacks: set = field(default_factory=set)  # kinds whose layers one file cannot hold
    compares: bool = False              # takes --against


COMMANDS = {
    "info": Command(LAYERS, file="json", options=[["--headers"], ["-f", "json"]]),
    "stages": Command(ONE_LAYER | {"nothing"}, file="json", threads=False, options=[["--format", "markdown"]]),
    "names": Command({"nothing"}, file="json", threads=False, options=[["-f", "json"]]),
    "show": Command(LAYERS, file="json", options=[["-s", "weights,output"], ["-s", "q", "--head", "0", "-f", "csv"],
                                                   ["--query", "0", "--head", "0"]]),
    "dump": Command(LAYERS, ["-o", "OUT.npz"], file="safetensors",
                    options=[["-s", "weights", "--head", "1", "-o", "OUT-{head}.npy"], ["--part", "1/2"]]),
    "map": Command(LAYERS, file="svg", options=[["-s", "scores"], ["--head", "0", "-o", "OUT.png"], ["--annotate", "--zoom", "2", "--no-title", "-o", "OUT.pdf"]]),
    "explain": Command(LAYERS, ["--query", "1"], file="json", options=[["--head", "0"]]),
    "stats": Command(LAYERS, file="csv", options=[["--measures", "all"], ["--head", "0", "-f", "json"]]),
    "report": Command(LAYERS, ["-o", "OUT.html"], file="html"),
    "diff": Command(LAYERS, file="json", compares=True),
    "diagnose": Command(LAYERS, file="json", compares=True),
    "convert": Command(LAYERS | {"parts"}, ["-o", "OUT{layer}.safetensors"], file="json", threads=False,
                       one_file_lacks={"varied"}),
    "bench": Command(LAYERS, ["--repeat", "1"], threads=False, options=[["-f", "json"]]),
    "predict": Command(MODELS, file="csv", options=[["--query", "all"], ["--each-layer", "--query", "all", "-f", "json"], ["--query", "0"]]),
    "effects": Command(MODELS, file="csv", options=[["--ablate", "mean"], ["--top", "2", "-f", "json"],
                                                    ["--together", "layers.0.head_out[0] + layers.1.output"]]),
    "circuits": Command({"lone", "batched", "layers", "checkpoint", "checkpoints"}, file="csv", options=[["--spectrum", "-f", "csv"], ["-f", "json"]]),
    "tokens": Command(TEXTS, file="csv", threads=False, options=[["-f", "json"], ["--no-special"]]),
    "completion": Command({"nothing"}, ["bash"], threads=False),
}

# diff --weights of two models: what follows the command, its exit code, whether it writes a file.
WEIGHTS = {
    "the same folder": (["llama", "llama", "--weights"], 0, False),
    "another container": (["llama", "llama-copy.safetensors", "--weights"], 0, False),
    "half the precision": (["llama", "llama-half.safetensors", "--weights"], 0, False),
    "as CSV": (["llama", "llama-copy.safetensors", "--weights", "-f", "csv"], 0, False),
    "into a file": (["llama", "llama-copy.safetensors", "--weights", "-o", "OUT.csv"], 0, True),
    "of layers": (["layers.safetensors", "layers.safetensors", "--weights"], 0, False),
    "another model": (["llama", "gpt2", "--weights"], 1, False),
    "one model": (["llama", "--weights"], 2, False),
    "a text": (["llama", "llama", "--weights", "--text", "to be"], 2, False),
    "a reference": (["llama", "llama", "--weights", "--against", "stages.npz"], 2, False),
    "no such model": (["llama", "nowhere", "--weights"], 2, False),
    "a damaged model": (["llama", "damaged.safetensors", "--weights"], 2, False),
}

# Kinds on which a command needs something else.
INSTEAD = {
    ("convert", "parts"): ["-o", "OUT.npz"],
}

# What no command takes, whatever it is given: exit code 2, one message, no file.
REFUSALS = {
    "an option that is none": ["--no-such-option"],
    "a layer that is not there": ["--layer", "97"],
    "a file that is not there": ["nowhere.npz"],
    "a damaged file": ["damaged.safetensors"],
    "a setting that no layer has": ["--num-heads", "many"],
    "a folder that is not there": ["-o", "nowhere/out.json"],
}
