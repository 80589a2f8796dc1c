#!/usr/bin/env python3
"""Changes of one line in lib/, each of which a test has to notice.

    /usr/bin/python3 tests/mutants.py [--folder DIR] [--part I/N] [--only WORD] [--all-tests] [--jobs N]

A worktree of HEAD is made in DIR (a temporary folder; one that is kept is built once) and configured as the dev preset. Each
row of MUTANTS is applied there, the program is built, and the row's tests run: one that fails has noticed. Those that nothing
notices are printed, and the exit code is 1 where UNNOTICED does not say why they change nothing. --all-tests builds and runs
unit-tests and cli-tests where a row's own tests notice nothing.

A row is FILE below lib/, old text, new text, and tests:
    results MODEL RESULT…   tests/models/results.py
    cli PATTERN             tests of cli-tests by name
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MUTANTS = [
    # Models: direct effects, parts' logits, ablations, sweeps, predictions.
    ("model/direct_effect.cpp", "u[k] *= (gain[k] + (norm.one_plus ? 1 : 0)) / statistics.divisor;",
     "u[k] *= gain[k] / statistics.divisor;", "results gemma2 direct-sums"),
    ("model/direct_effect.cpp", "for (double& x : u) x *= lm_head.scale;", "", "results cohere-plus direct-sums"),
    ("model/direct_effect.cpp", "lm_head_bias_.push_back(bias * lm_head.scale);", "lm_head_bias_.push_back(bias);",
     "results way-head-scaled-and-capped direct-sums"),
    ("model/direct_effect.cpp", "x -= norm.kind == InputNorm::layer ? mean : 0;", "x -= norm.kind == InputNorm::rms ? mean : 0;",
     "results gpt2 direct-sums"),
    ("model/direct_effect.cpp", "for (double& x : sum) x /= static_cast<double>(columns);",
     "for (double& x : sum) x /= static_cast<double>(rows);", "results gpt2 effects-set-answer"),
    ("model/frozen_norm.cpp", "/ statistics.divisor * (gain[i] + (norm.one_plus ? 1 : 0));", "/ statistics.divisor * gain[i];",
     "results gemma2 of-attention of-vector"),
    ("model/frozen_norm.cpp", "found.divisor = std::sqrt(squares / n + norm.eps);", "found.divisor = std::sqrt(squares / n);",
     "results qwen3-untied direct-sums of-heads"),
    ("model/part_logits.cpp", "for (double& z : logits) z *= head.scale;", "", "results cohere-plus of-heads of-vector"),
    ("model/effects.cpp", "return logit - sum / static_cast<double>(row.width());", "return logit;",
     "results gpt2 effects-set-answer"),
    ("model/effects.cpp", "predicted_->log_p(next_logit_) - (patched", "predicted_->log_p(next_logit_) + (patched",
     "results gpt2 effects"),
    ("model/effects.cpp", "change += (row[i] - final_[i]) * (row[i] - final_[i]);", "change += std::abs(row[i] - final_[i]);",
     "results t5 effects"),
    ("model/sweep.cpp", "(M - runs.here) / (runs.there - runs.here);", "(M - runs.here) / runs.there;",
     "results gemma2 sweep-stream"),
    ("model/sweep.cpp", "point.value * point.value) * n / (n - 1));", "point.value * point.value));",
     "results phi3-longrope sweep-pairs"),
    ("model/predict.cpp", "ActualToken{actual, probability(id), surprise, before + 1};",
     "ActualToken{actual, probability(id), surprise, before};", "results llama3.1 loss"),
    ("model/ablations.cpp", "((text * heads + h) * rows + length - count) * row,", "(text * heads + h) * rows * row,",
     "results cohere-plus effects-resample-ends"),
    ("model/stage_means.cpp", "to.count += own.size();", "to.count += rows;", "results gemma2 effects-mean"),

    # Circuits.
    ("circuits/vocabulary.cpp", "value_at(norm.weight, i) + (norm.one_plus ? 1 : 0);", "value_at(norm.weight, i);",
     "results gemma2 circuits map-ov"),
    ("circuits/vocabulary.cpp", "row.numbers[k] * embedding.scale;", "row.numbers[k];", "results gemma2 map-qk"),
    ("circuits/vocabulary.cpp", "W_E = product(W_E.view(), map_to_stream(embedding).view());",
     "W_E = DenseMatrix(W_E.rows, embedding.width());", "results albert map-qk"),
    ("circuits/projections.cpp", "turn(at, offset, dims.H, to.W_q), turn(at, 0, dims.H_kv, to.W_k);",
     "turn(at, 0, dims.H, to.W_q), turn(at, offset, dims.H_kv, to.W_k);", "results llama-yarn-mscale circuits-offset"),
    ("circuits/projections.cpp", "W.row(i)[j] -= mean[j];", "W.row(i)[j] -= 0 * mean[j];", "results gpt2 circuits"),
    ("circuits/projections.cpp", "W.row(i)[j] *= gain[i];", "W.row(i)[j] *= gain[0];", "results llama3.2 circuits"),
    ("circuits/circuits.cpp", "entropy -= p * std::log(p);", "entropy -= p * std::log2(p);", "results gpt2 circuits"),
    ("circuits/composition.cpp", "product_with_transpose(layer.k(h), factor_of(layer.q(h)).view())",
     "product_with_transpose(layer.k(h), factor_of(layer.k(h)).view())", "results llama3.2 composition"),

    # Flow.
    ("observe/derived.cpp", "double sum = 1;\n    for (std::size_t s = 0; s < T; ++s) sum", "double sum = 0;\n    for (std::size_t s = 0; s < T; ++s) sum",
     "results nemotron rollout"),
    ("observe/derived.cpp", "rolled[t * T + s] += step[t * T + k] * before[k * T + s];",
     "rolled[t * T + s] += step[t * T + k] * before[s * T + k];", "results nemotron rollout"),
    ("observe/derived.cpp", "received[h * of.S + s] /= rows;", "received[h * of.S + s] /= static_cast<double>(of.T);",
     "results cohere-plus received"),
    ("observe/derived.cpp", "(kl_term_to_mean(p, q) + kl_term_to_mean(q, p)) / 2;", "kl_term_to_mean(p, q) / 2;",
     "results granite divergence"),
    ("observe/derived.cpp", "kv = kv_head_of(layer, h);", "kv = h % dims.H_kv;", "results llama3.2 value_norms"),

    # Measures of heads.
    ("heads/measure_rows.cpp", "row.entropy / std::log(to_double(seen.keys))", "row.entropy / std::log2(to_double(seen.keys))",
     "results llama3.2 measures"),
    ("heads/measure_rows.cpp", "add_at(totals.previous, row.p - 1);", "add_at(totals.previous, row.p - 2);",
     "results llama3.2 measures"),
    ("heads/measure_rows.cpp", "next += weights[j + 1], next_if", "next += weights[j], next_if", "results llama3.2 measures"),
    ("heads/measure_rows.cpp", "if (static_cast<std::ptrdiff_t>(j) >= row.p) break;",
     "if (static_cast<std::ptrdiff_t>(j) > row.p) break;", "results llama3.2 measures"),
    ("heads/measure_rows.cpp", "(layer_.sinks.empty() ? 0 : 1 - row.sum));", "(layer_.sinks.empty() ? 0 : row.sum));",
     "results way-sinks measures"),
    ("heads/row_totals.cpp", "covariance = tj / weight - t / weight * j / weight;", "covariance = tj / weight;",
     "results llama3.2 measures"),
    ("heads/measure_results.cpp", "sum[i] -= static_cast<double>(layer_.b_o.as<T>()[i]);",
     "sum[i] += static_cast<double>(layer_.b_o.as<T>()[i]);", "results bloom measures"),
    ("heads/measure_projections.cpp", "const double excess = value * value - 1;", "const double excess = value - 1;",
     "results llama3.2 measures"),
    ("heads/measure_totals.cpp", "cosine <= *head.similarity", "cosine >= *head.similarity", "results llama3.2 measures"),
    ("heads/measure_list.cpp", "constexpr double fewest_rows = 6,", "constexpr double fewest_rows = 5,",
     "cli stats: the kinds of short texts are too short*"),

    # Comparing.
    ("compare/elements.cpp", "!(error <= absolute + relative * magnitude)", "!(error <= absolute + 1e4 * relative * magnitude)",
     "cli diff: --atol and --rtol*"),
    ("compare/verdict.cpp", "outcome.only_inputs = outcome.only_inputs && is_input", "outcome.only_inputs = outcome.only_inputs || is_input",
     "cli diff: the verdict*"),
    ("compare/verdict.cpp", "else if (outcome.compared.empty() || outcome.only_inputs || !outcome.not_compared.empty())",
     "else if (outcome.compared.empty() || outcome.only_inputs)", "cli whole diff: what was not compared*"),
    ("compare/diff.cpp", "if (row.difference.within || row.own == false) continue;", "if (row.difference.within) continue;",
     "cli whole diff: a mistake in a layer*"),
    ("compare/hidden_states.cpp", "take(Stage::resid_post, number + 1);", "take(Stage::resid_post, number);",
     "cli whole diff: hidden_states*"),
    ("compare/hidden_states.cpp", "with && without ? *without < *with : there.stacked;",
     "with && without ? *without > *with : there.stacked;", "cli whole diff: L hidden states*"),
    ("compare/weight_pair.cpp", "coarse_ = 4 * coarseness(", "coarse_ = 4e6 * coarseness(", "cli weights: what was done*"),

    # Diagnosing.
    ("diagnose/hypotheses/scale.cpp", "add(\"scale.missing\", 1, \"1\",", "add(\"scale.missing\", 2, \"2\",",
     "cli diagnose: names a missing scale*"),
    ("diagnose/hypotheses/weight.cpp", "edited.*W = read_transposed(edited.*W);", "edited.*W = copied(edited.*W);",
     "cli diagnose: the option for a transposed weight*"),
    ("diagnose/hypotheses/weight.cpp", "in_order(\"weight.order.KQV\", QkvOrder::kqv,", "in_order(\"weight.order.KQV\", QkvOrder::qkv,",
     "cli diagnose: the order of a fused weight*"),
    ("diagnose/diagnose.cpp", "return becomes(true) && !becomes(false);", "return false;",
     "cli diagnose: what stays open after a change*"),
    ("diagnose/agreement.cpp", "return 5e-5;", "return 5e-1;", "cli diagnose: *"),
    ("diagnose/diagnose.cpp", "output->stage = Stage::residual;", "output->stage = Stage::output;",
     "cli diagnose: what was read otherwise*"),

    # Loading.
    ("load/model_ends.cpp", "head.scale = said_->head_scale.number(group).value_or(1);", "head.scale = 1;",
     "results cohere-plus predict"),
    ("load/model_ends.cpp", "e.scale = value_at(convert(Tensor::of<double>({1}, std::span(&root, 1)), e.tokens.dtype()), 0);",
     "e.scale = root;", "results gemma of-embed"),
    ("load/model_ends.cpp", "embedding_.first_position = static_cast<std::size_t>(first);", "embedding_.first_position = 0;",
     "results opt predict"),
    ("layer/stage_place.cpp", "place.columns.push_back(written.axis(2).of(", "place.columns.push_back(written.axis(1).of(",
     "results phi predict-patched"),
    ("load/edit_values.cpp", "*to++ = sum / static_cast<double>(count);", "*to++ = sum / static_cast<double>(rows);",
     "results gemma2 effects-mean"),
    ("load/take_settings.cpp", "if (norm.one_plus && &entry == &norm.weight) tensor = one_plus(tensor);", "",
     "results gemma2 circuits"),
    ("load/model_reader.cpp", "norm.one_plus = said.one_plus;", "", "results gemma2 direct-sums"),

    # Formats.
    ("formats/npy.cpp", "if (swapped) swap_bytes(tensor.raw_mutable(), tensor.count(), size);", "", "results gpt2 of-vector"),
    ("formats/torch_tensor.cpp", "if (is_row_major(view) && aligned && !swaps)", "if (aligned && !swaps)", "cli published*"),
    ("formats/gguf_rotary.cpp", "if (type_ == \"none\") factor_ = 1;", "", "cli GGUF*"),
    ("formats/gguf_values.cpp", "if (type == GgufType::f32) return static_cast<double>(unaligned<float>(at + 4 * index));",
     "if (type == GgufType::f32) return static_cast<double>(unaligned<float>(at));", "cli GGUF*"),

    # The forward pass.
    ("forward/norm.cpp", "return one_plus ? T(1) + weight[i] : weight[i];", "return weight[i];", "results gemma2 predict"),
    ("forward/bias.cpp", "static_cast<T>(key - all + 1);", "static_cast<T>(key - all);", "results mpt explain"),
    ("forward/bias.cpp", "values[(bucket + (ahead > 0 ? half : 0)) * layer.dims.H];", "values[bucket * layer.dims.H];",
     "results t5 explain"),
    ("forward/bias.cpp", "if (k.data) sum += dot(k.row(j), r, d_k);", "", "results bert-relative-key-query explain"),
    ("forward/embedding.cpp", "(masked > 0 ? 1 - static_cast<double>(masked) / all : 1));", "1);", "results esm2 predict"),
    ("forward/feed_forward.cpp", "y[i] = static_cast<T>(1.702) * x[i];", "y[i] = static_cast<T>(1.7) * x[i];",
     "results gpt2-quick-gelu predict"),
    ("forward/softmax.cpp", "exp_sum + std::exp(sink - shift); });", "exp_sum; });", "results way-sinks explain"),
    ("forward/head.hpp", "if (head_.scale != 1)", "if (head_.scale > 1)", "results cohere-plus predict"),
    ("forward/rotary_kinds.cpp", "return both ? g(s.rope_mscale) / g(s.rope_mscale_all_dim) : g(1);",
     "return both ? g(s.rope_mscale) : g(1);", "results llama-yarn-mscale explain"),
]

# Why a change that no test notices changes nothing: (file, new text) -> reason.
UNNOTICED = {}


def call(words, folder, log):
    return subprocess.run(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT).returncode


class Tree:
    """A worktree of HEAD, built as the dev preset."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        self.log = open(folder.rstrip("/") + ".log", "w")
        if not os.path.exists(folder):
            subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, "HEAD"], cwd=ROOT, check=True)
        if call(["cmake", "--preset", "dev"], folder, self.log) or not self.build("mha-inspect", "cli-tests"):
            sys.exit(f"mutants.py: {folder} does not build as it is: {self.log.name}")
        self.program = os.path.join(folder, "build/dev/app/mha-inspect")

    def build(self, *targets):
        return call(["cmake", "--build", "--preset", "dev", "--parallel", str(self.jobs), "--target", *targets], self.folder,
                    self.log) == 0

    def passes(self, test):
        kind, _, rest = test.partition(" ")
        if kind == "cli":
            return call(["build/dev/tests/cli-tests", rest], self.folder, self.log) == 0
        model, *results = rest.split()
        words = ["/usr/bin/python3", "tests/models/results.py", self.program, "--model", model]
        return call(words + [w for one in results for w in ("--result", one)], self.folder, self.log) == 0

    def passes_all(self):
        return self.build("unit-tests") and all(call([f"build/dev/tests/{name}"], self.folder, self.log) == 0
                                                for name in ("unit-tests", "cli-tests"))

    def try_mutant(self, mutant, all_tests):
        """died, survived, or does not build."""
        path, old, new, tests = mutant
        at = os.path.join(self.folder, "lib", path)
        with open(at) as file:
            text = file.read()
        with open(at, "w") as file:
            file.write(text.replace(old, new))
        try:
            if not self.build("mha-inspect"):
                return "does not build"
            alive = self.passes(tests) and not (all_tests and not self.passes_all())
            return "survived" if alive else "died"
        finally:
            with open(at, "w") as file:
                file.write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only")
    parser.add_argument("--all-tests", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    for path, old, new, _ in MUTANTS:
        with open(os.path.join(ROOT, "lib", path)) as file:
            if file.read().count(old) != 1:
                sys.exit(f"mutants.py: lib/{path} does not have once: {old}")
    part, parts = map(int, args.part.split("/"))
    chosen = [m for i, m in enumerate(MUTANTS) if i % parts == part - 1 and (not args.only or args.only in m[0] + m[3])]
    tree = Tree(args.folder or os.path.join(tempfile.mkdtemp(), "mutants"), args.jobs)
    for test in sorted({m[3] for m in chosen}):
        if not tree.passes(test):
            sys.exit(f"mutants.py: fails as it is: {test}")
    counts, left = {}, []
    for mutant in chosen:
        began = time.monotonic()
        outcome = tree.try_mutant(mutant, args.all_tests)
        counts[outcome] = counts.get(outcome, 0) + 1
        reason = UNNOTICED.get((mutant[0], mutant[2]), "")
        if outcome != "died" and not reason:
            left.append(mutant)
        print(f"{outcome} ({time.monotonic() - began:.0f} s): lib/{mutant[0]}: {mutant[1]} → {mutant[2] or 'nothing'}"
              f"{': ' + reason if reason and outcome != 'died' else ''}", flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in counts.items()) + f" of {len(chosen)}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
