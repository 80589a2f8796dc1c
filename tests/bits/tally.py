"""What was compared, and what was found."""
import collections

from features import FEATURES

STAGES = ("x", "q", "k", "v", "q_norm", "k_norm", "q_rope", "k_rope", "k_all", "v_all", "scores", "scaled", "capped", "biased", "masked",
          "row_max", "shifted", "exp", "row_sum", "logsumexp", "weights", "head_out", "head_result", "concat", "output", "residual")
_ENOUGH = 150  # layers, to have everything drawn


class Tally:
    def __init__(self):
        self.lines, self.refused = [], []
        self.layers = self.runs = self.arrays = self.bytes = 0
        self.features, self.stages, self.combinations = (collections.Counter() for _ in range(3))

    def add(self, other):
        self.lines += other.lines
        self.refused += other.refused
        for name in ("layers", "runs", "arrays", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("features", "stages", "combinations"):
            getattr(self, name).update(getattr(other, name))

    def count(self, run, arrays):
        self.runs += 1
        self.arrays += len(arrays)
        self.bytes += sum(array.nbytes for array in arrays.values())
        self.stages.update(arrays.keys())
        self.combinations[(run.cpu, run.threads, run.kind)] += 1

    def print(self, seconds, all_combinations):
        for line in self.lines:
            print(line)
        for line in self.refused:
            print("refused by both programs: " + line)
        missing = [str(one) for one in all_combinations if one not in self.combinations]
        missing += [name for name in FEATURES if name not in self.features]
        if missing and self.layers >= _ENOUGH:
            print("never drawn: " + ", ".join(missing))
        print(f"{self.layers} layers, {self.runs} dumps of each program, {self.arrays} arrays, {self.bytes / 1e9:.1f} GB in {seconds:.0f} s; "
              f"{len(self.stages)} of {len(STAGES)} stages, {len(self.combinations)} of {len(all_combinations)} combinations of instruction "
              f"set, threads and selection; {len(self.lines)} differences, {len(self.refused)} refused")
