"""How a layer is dumped: by which instruction set, on how many threads, what of it, into which files."""
from dataclasses import dataclass, field

THREADS = (1, 2, 5)
FORMATS = ("npz", "npy", "safetensors")
KINDS = ("whole", "stages", "rows", "parts")
_NEEDS = {"avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl"}, "amx": {"amx_bf16", "amx_tile"}}
# What may be selected of a stage.
_ROWS = {"masked": "HTSB", "weights": "HTSB", "scores": "HTSB", "row_sum": "HTB", "head_out": "HTB", "head_result": "HTB",
         "q": "HTB", "output": "TB"}
_OPTIONS = {"H": "--head", "T": "--query", "S": "--key", "B": "--batch"}


def instruction_sets():
    """The values of MHA_CPU that differ on this machine."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        flags = set()
    levels = ["portable"]
    for level, needed in _NEEDS.items():
        if not needed <= flags:
            break
        levels.append(level)
    return levels


@dataclass
class Run:
    cpu: str
    threads: int
    kind: str
    format: str
    options: list = field(default_factory=list)
    parts: int = 1

    def __str__(self):
        parts = f" in {self.parts} parts" if self.parts > 1 else ""
        return f"MHA_CPU={self.cpu} --threads {self.threads} {' '.join(self.options)}{parts} as {self.format}"

    @property
    def whole(self):
        """Whether its stages are dumped whole, so that they have to be the same in all such runs of an instruction set."""
        return self.kind != "rows"


def whole_runs(rng, cpus):
    return [Run(cpu, int(rng.choice(THREADS)), "whole", str(rng.choice(FORMATS))) for cpu in cpus]


def other_runs(rng, cpus, stages, sizes):
    """Some stages, some rows, and all in parts. Over some dozen layers every combination comes."""
    selectable = [name for name in _ROWS if name in stages]
    planned = [("stages", ["-s", str(stages[-1])], 1)]  # the last alone: nobody looks at what comes before
    for _ in range(2):
        some = [str(name) for name in rng.permutation(stages)[:int(rng.integers(1, 4))]]
        planned.append(("stages", ["-s", ",".join(some)], 1))
    if selectable:
        stage = str(rng.choice(selectable))
        rows = [text for letter in _ROWS[stage] if letter in sizes and rng.random() < 0.6
                for text in (_OPTIONS[letter], draw_list(rng, sizes[letter]))]
        planned.append(("rows", ["-s", stage, *rows], 1))
    if rng.random() < 0.7:
        planned.append(("parts", [], int(rng.choice((2, 3, 5)))))
    return [Run(str(rng.choice(cpus)), int(rng.choice(THREADS)), kind, str(rng.choice(FORMATS)), options, parts)
            for kind, options, parts in planned]


def draw_list(rng, n):
    """Some of 0 … n − 1, as the program's options take them."""
    first, last = sorted(int(i) for i in rng.integers(0, n, 2))
    several = f"{first},{last}" if first < last else str(first)
    return [str(first), f"{first}-{last}", several, f"{first}:"][int(rng.integers(0, 4))]
