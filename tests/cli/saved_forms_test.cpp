// References in the forms that people save them in, compared by the program: bare lists of states,
// padded batches, typed numbers, q, k and v without their axes, rows of NaN.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace mha::test;
using Catch::Contains;

namespace {

/// A command, its exit code, and what it prints in either stream.
struct Case {
  std::string words;
  int code;
  std::string says;
};

/// The words of a command line, separated by spaces; @NAME is a file of the folder.
std::vector<std::string> arguments_of(const std::string& words, const Folder& folder) {
  std::vector<std::string> list{""};
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == ' ')
      list.emplace_back();
    else if (words[i] == '@' && (i == 0 || words[i - 1] == ' ' || words[i - 1] == '='))
      list.back() += folder.path("");
    else
      list.back() += words[i];
  return list;
}

void check(const Folder& folder, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    INFO(one.words);
    const Result result = run(arguments_of(one.words, folder));
    INFO(result.out << result.err);
    CHECK(result.code == one.code);
    if (one.says[0] == '!')
      CHECK_THAT(result.out + result.err, !Contains(one.says.substr(1)));
    else
      CHECK_THAT(result.out + result.err, Contains(one.says));
  }
}

void make(const Folder& folder, const std::string& script) {
  const Result made =
      shell("cd " + folder.path() + " && /usr/bin/python3 " + folder.write("make.py", script));
  INFO(made.err);
  REQUIRE(made.code == 0);
}

} // namespace

TEST_CASE("states of a pass are read from a list or a stack without names") {
  const Folder folder;
  const std::string model = "data/bard-gpt2 --ids 5,17,44 ";
  REQUIRE(run({"dump", "data/bard-gpt2", "--ids", "5,17,44", "-q", "-s",
               "resid_pre,resid_post,weights,k,v,final", "-o", folder.path("s.npz")})
              .code == 0);
  make(folder, R"(
import numpy as np
s, L = np.load("s.npz"), range(4)
states = [s[f"layers.{i}.resid_pre"][None] for i in L] + [s["final"][None]]
def save(name, arrays): np.savez(name + ".npz", **{str(i): a for i, a in enumerate(arrays)})
save("states", states), save("rows", [a[0] for a in states])
save("no_last", states[:4]), save("no_first", states[1:])
save("posts", [s[f"layers.{i}.resid_post"][None] for i in L])
save("maps", [s[f"layers.{i}.weights"][None] for i in L])
wrong = [a.copy() for a in states]
wrong[2][0, 1, 5] += 0.5
save("wrong", wrong)
np.savez("cache.npz", **{f"{i}.{j}": s[f"layers.{i}.{n}"][None] for i in L for j, n in enumerate("kv")})
np.savez("steps.npz", **{f"{i}.{j}": a for i in range(3) for j, a in enumerate(states)})
np.save("stack.npy", np.stack(states))
np.savez("named.npz", a=np.stack(states), b=np.stack(states))
)");
  const std::string all = "resid_pre of layers 0–3; resid_post of layers 0–2; final";
  check(folder,
        {{"diff " + model + "--against @states.npz", 0, all},
         {"diff " + model + "--against @rows.npz", 0, all},
         {"diff " + model + "--against hidden_states=@states.npz", 0, all},
         {"diff " + model + "--against hidden_states=@stack.npy", 0, all},
         {"diff " + model + "--against hidden_states=@named.npz:a", 0, all},
         {"diff " + model + "--against hidden_states=@named.npz", 2, "which of its tensors"},
         {"diff " + model + "--against @no_last.npz", 0, "resid_pre of layers 0–3"},
         {"diff " + model + "--against @no_first.npz", 0, "final"},
         {"diff " + model + "--against @posts.npz", 0, "resid_post of layers 0–3"},
         {"diff " + model + "--against @maps.npz", 0, "weights of layers 0–3"},
         {"diff " + model + "--against attentions=@maps.npz", 0, "weights of layers 0–3"},
         {"diff " + model + "--against @cache.npz", 0, "k, v of layers 0–3"},
         {"diff " + model + "--against @steps.npz", 2, "a list of lists of arrays"},
         {"diff " + model + "--against @wrong.npz", 1, "layer 1 is the first that differs"},
         {"diff " + model + "--against hidden_states=@wrong.npz", 1, "layer 1 is the first"}});
}

TEST_CASE("a padded batch is compared where its mask says tokens") {
  const Folder folder;
  REQUIRE(run({"dump", "data/bard-gpt2", "--ids", "65,300,12,7,99", "--ids", "5,17,44", "-q", "-s",
               "resid_pre,weights,final,logits", "-o", folder.path("s.npz")})
              .code == 0);
  make(folder, R"(
import numpy as np
s, texts, rng = np.load("s.npz"), [[65, 300, 12, 7, 99], [5, 17, 44]], np.random.default_rng(1)
for side in ("left", "right"):
    def padded(a, axes):
        out = rng.standard_normal(a.shape).astype("f4")
        for b, t in enumerate(texts):
            n = len(t)
            to = slice(5 - n, 5) if side == "left" else slice(0, n)
            if axes == 2:
                out[b, :, to] = 0
                out[b, :, to, to] = a[b, :, :n, :n]
            else:
                out[b, to] = a[b, :n]
        return out
    pads = [[1023] * (5 - len(t)) for t in texts]
    ids = np.array([p + t if side == "left" else t + p for t, p in zip(texts, pads)])
    mask = (ids != 1023).astype(int)
    positions = np.where(mask == 1, np.maximum(np.cumsum(mask, 1) - 1, 0), 1)
    states = np.stack([padded(s[f"layers.{i}.resid_pre"], 1) for i in range(4)] + [padded(s["final"], 1)])
    maps = np.stack([padded(s[f"layers.{i}.weights"], 2) for i in range(4)])
    logits = padded(s["logits"], 1)
    arrays = dict(hidden_states=states, attentions=maps, logits=logits)
    np.savez(side + ".npz", input_ids=ids, attention_mask=mask, position_ids=positions, **arrays)
    np.savez(side + "_bool.npz", input_ids=ids, attention_mask=mask.astype(bool), **arrays)
    np.savez(side + "_ids.npz", input_ids=ids, **arrays)
    wrong = states.copy()
    wrong[2, 1, 3 if side == "left" else 1, 7] += 0.5
    np.savez(side + "_wrong.npz", input_ids=ids, attention_mask=mask, hidden_states=wrong)
    wrong[2] = states[2]
    wrong[2, 1, 0 if side == "left" else 4] += 0.5
    np.savez(side + "_beside.npz", input_ids=ids, attention_mask=mask, hidden_states=wrong)
    other = ids.copy()
    other[1, 3 if side == "left" else 1] = 9
    np.savez(side + "_other.npz", input_ids=other, attention_mask=mask, **arrays)
)");
  const std::string both = "diff data/bard-gpt2 --ids 65,300,12,7,99 --ids 5,17,44 --against ";
  for (const std::string side : {"left", "right"})
    check(folder, {{both + "@" + side + ".npz", 0, "Every layer agrees"},
                   {both + "@" + side + "_bool.npz", 0, "Every layer agrees"},
                   {both + "@" + side + "_ids.npz", 0, "Every layer agrees"},
                   {both + "@" + side + "_beside.npz", 0, "Every layer agrees"},
                   {both + "@" + side + "_wrong.npz", 1, "layer 1 is the first that differs"},
                   {both + "@" + side + "_other.npz", 2, "text 1: its tokens are"},
                   {fmt::format("diff data/bard-gpt2 --ids @{0}.npz --against @{0}.npz", side), 0,
                    "Every layer agrees"},
                   {"diff data/bard-gpt2 --ids 5,17,44 --against @" + side + ".npz", 0,
                    "Every layer agrees"}});
}

TEST_CASE("typed numbers may be off by half of their last digit, and no more") {
  const Folder folder;
  make(folder, "layer = '" + source_folder() + R"(/data/quickstart.json'
import json, os, subprocess
mha = os.environ["MHA"]
def stages(*options):
    text = subprocess.check_output([mha, "show", layer, "-s", "weights,output", "-f", "json", "-q", *options])
    return {n: json.loads(text)[n]["data"] for n in ("weights", "output")}
def rounded(x, n): return [rounded(a, n) for a in x] if isinstance(x, list) else round(x, n)
def save(name, **stages): json.dump(stages, open(name + ".json", "w"))
right = stages()
save("output", output=rounded(right["output"], 2))
save("both", weights=rounded(right["weights"], 3), output=rounded(right["output"], 2))
save("causal", output=rounded(stages("--causal")["output"], 2))
off = rounded(right["output"], 2)
off[1][2] += 0.02
save("off", output=off)
save("few", output=[row[:] for row in rounded(right["output"], 2)], weights=right["weights"])
)");
  const std::string layer = "data/quickstart.json ";
  check(folder, {{"diff " + layer + "--against @output.json", 0,
                  "output has 2 decimals: ±0.005 is allowed"},
                 {"diff " + layer + "--against @both.json", 0, "weights has 3 decimals: ±0.0005"},
                 {"diff " + layer + "--against @off.json", 1, "output is the first step"},
                 {"diff " + layer + "--against @causal.json", 1, "output is the first step"},
                 {"diff " + layer + "--against @output.json --atol 1e-5", 1, "output is the first"},
                 {"diff " + layer + "--against @few.json", 0, "!weights has"}});
}

TEST_CASE("q, k and v that do not say their axes are read in the order that the reference shows") {
  const Folder folder;
  make(folder, R"(
import numpy as np
rng = np.random.default_rng(2)
def attention(q, k, v, causal=True):
    k, v = [np.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v)]
    s = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    if causal: s = np.where(np.triu(np.ones(s.shape[-2:]), 1) > 0, -np.inf, s)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    lse = (top + np.log(e.sum(-1, keepdims=True)))[..., 0]
    return np.einsum("bhts,bshd->bthd", e / e.sum(-1, keepdims=True), v), lse
def save(name, **a): np.savez(name + ".npz", **{n: x.astype("f4") for n, x in a.items()})
B, d = 2, 16
for name, T, H, G in (("gqa", 24, 6, 2), ("mha", 24, 6, 6), ("few", 5, 8, 8), ("square", 6, 6, 6)):
    q, k, v = rng.standard_normal((B, T, H, d)), rng.standard_normal((B, T, G, d)), rng.standard_normal((B, T, G, d))
    out, lse = attention(q, k, v)
    wrong = out.copy()
    wrong[1, T // 2, 3] *= 1.03
    save(name, q=q, k=k, v=v, out=out, wrong=wrong, lse=lse)
    save(name + "_file", q=q, k=k, v=v, out=out, lse=lse)
    h = lambda x: x.transpose(0, 2, 1, 3)
    save(name + "_heads", q=h(q), k=h(k), v=h(v), out=h(out), wrong=h(wrong), lse=lse)
)");
  for (const std::string name : {"gqa", "mha", "few", "square"})
    for (const std::string heads : {"", "_heads"}) {
      const std::string file = "@" + name + heads + ".npz";
      const auto command = [&](const std::string& verb, const std::string& stage) {
        return fmt::format("{} q={}:q k={}:k v={}:v --causal --against {}", verb, file, file, file,
                           stage == "lse" ? "lse=" + file + ":lse" : "out=" + file + ":" + stage);
      };
      check(folder,
            {{command("diff", "out"), 0, "head_out"},
             {command("diff", "lse"), 0, "logsumexp"},
             {command("diff", "wrong"), 1, heads.empty() ? "BTHD" : "head_out is the first"},
             {command("diagnose", "out"), 0, "!heads.between"}});
    }
  check(folder, {{"info @gqa_file.npz", 0, "read tokens first"},
                 {"info @mha_file.npz", 0, "read tokens first"},
                 {"diff @gqa_file.npz --causal --against head_out=@gqa.npz:wrong", 1, "head 3"},
                 {"show q=@square.npz k=@square.npz v=@square.npz -s lse", 0,
                  "if tokens come first, write "}});
}

TEST_CASE("the cause of rows of NaN is found with what becomes of rows that are hidden whole") {
  const Folder folder;
  make(folder, R"(
import numpy as np
rng = np.random.default_rng(3)
q, k, v = rng.standard_normal((3, 2, 3, 6, 8))
hidden = np.array([[0] * 6, [0, 0, 0, 0, 1, 1]]).astype(bool)
see = rng.random((6, 6)) > 0.5
see[:, 0], see[2] = True, True
def out(hide, dtype="f8"):
    with np.errstate(all="ignore"):
        s = np.where(hide, -np.inf, q @ k.swapaxes(-1, -2) / np.sqrt(8))
        e = np.exp(s - s.max(-1, keepdims=True))
        w = e / e.sum(-1, keepdims=True)
        return w.astype(dtype), (w @ v).astype(dtype)
np.savez("padding.npz", q=q, k=k, v=v, key_padding_mask=hidden)
np.savez("mask.npz", q=q, k=k, v=v, mask=see)
def save(name, hide, dtype="f8"):
    w, o = out(hide, dtype)
    np.savez(name + ".npz", head_out=o)
    np.savez(name + "_all.npz", weights=w, head_out=o)
save("padding_inverted", ~hidden[:, None, None, :])
save("padding_queries", hidden[:, None, :, None])
save("mask_inverted", see)
save("mask_inverted32", see, "f4")
)");
  check(folder, {{"diagnose @padding.npz --against @padding_inverted.npz", 0, "mask.inverted"},
                 {"diagnose @padding.npz --against @padding_inverted.npz", 0, "masked_rows"},
                 {"diagnose @padding.npz --against @padding_inverted_all.npz", 0, "mask.inverted"},
                 {"diagnose @padding.npz --against @padding_queries.npz", 0, "mask.axis"},
                 {"diagnose @mask.npz --against @mask_inverted.npz", 0, "mask.inverted"},
                 {"diagnose @mask.npz --against @mask_inverted32.npz", 0, "masked_rows"},
                 {"diagnose @mask.npz --against @mask_inverted_all.npz", 0, "mask.inverted"}});
}
