// Tensors that are not what they are called: zeros, padding, another text's, one token's, another
// step's. Each is recognised by name, and no step is blamed for it.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

const std::string ids = "65,300,12,7,90,41";

std::string unwrapped(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (std::size_t at; (at = text.find("  ")) != std::string::npos;) text.erase(at, 1);
  return text;
}

/// A model's own steps, edited by a line of Python: `a` are the arrays, N its four layers.
struct Captures {
  Folder folder;
  std::string model, own, path;

  explicit Captures(const std::string& name)
      : model("data/bard-" + name), own(folder.path("own.npz")), path(folder.path("ref.npz")) {
    dump(ids, own);
  }
  void dump(const std::string& text, const std::string& to) const {
    const std::string stages = "embed,resid_pre,x,output,residual,mlp_x,mlp_out,resid_post,logits";
    REQUIRE(run({"dump", model, "--ids", text, "-q", "-s", stages, "-o", to}).code == 0);
  }
  Result edited(const std::string& python, const std::string& command = "diagnose") const {
    const Result made =
        shell("/usr/bin/python3 -c \"import numpy as np; N = range(4); a = dict(np.load('" + own +
              "')); a = {k: v for k, v in a.items() if v.dtype.kind == 'f'}; " + python +
              "; np.savez('" + path + "', **a)\"");
    INFO(made.err);
    REQUIRE(made.code == 0);
    return run({command, model, "--ids", ids, "--against", path});
  }
  /// Exit code 0, and what is reported of it.
  void check_agrees(const std::string& python, const std::string& note) const {
    for (const char* command : {"diff", "diagnose"}) {
      const Result result = edited(python, command);
      INFO(command << " " << python << "\n" << result.out << result.err);
      CHECK(result.code == 0);
      CHECK_THAT(unwrapped(result.err), Contains(note));
    }
  }
  void check_named(const std::string& python, const std::string& sentence) const {
    const Result result = edited(python);
    INFO(python << "\n" << result.out << result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains(sentence) && !Contains("Nothing explains"));
    for (const char* blamed : {"input_norm.", "block.", "mlp.", "block_norm."})
      CHECK_THAT(result.out, !Contains(blamed));
  }
  void check_other_text(const std::string& python, const std::string& sentence) const {
    for (const char* command : {"diff", "diagnose"}) {
      const Result result = edited(python, command);
      INFO(command << " " << python << "\n" << result.out << result.err);
      CHECK(result.code == 2);
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Contains(sentence));
    }
  }
};

} // namespace

TEST_CASE("captures: a tensor that is another step is named, and nothing is blamed") {
  for (const char* name : {"gpt2", "llama"}) {
    const Captures captures(name);
    const auto taken = [&](const std::string& stage, const std::string& python) {
      return "a.update({f'layers.{n}." + stage + "': " + python + " for n in N})";
    };
    captures.check_named(taken("mlp_out", "a[f'layers.{n}.resid_post']"),
                         "mlp_out was saved from another step: it is resid_post here");
    captures.check_named(taken("output", "a[f'layers.{n}.residual']"),
                         "output was saved from another step: it is residual here");
    captures.check_named(taken("residual", "a[f'layers.{n}.mlp_x']"),
                         "residual was saved from another step: it is mlp_x here");
    captures.check_named(taken("resid_post", "a[f'layers.{n}.mlp_out']"),
                         "resid_post was saved from another step: it is mlp_out here");
    captures.check_named(taken("resid_pre", "a[f'layers.{n}.x']"),
                         "resid_pre was saved from another step: it is x here");
    captures.check_named(taken("mlp_out", "a[f'layers.{n}.mlp_out'] + a[f'layers.{n}.output']"),
                         "mlp_out was saved from another step: it is output + mlp_out here");
  }
}

TEST_CASE("captures: zeros are told, and not compared") {
  const Captures captures("llama");
  for (const char* command : {"diff", "diagnose"}) {
    const Result one = captures.edited("a['layers.1.output'] *= 0", command);
    INFO(one.out << one.err);
    CHECK(one.code == (std::string_view(command) == "diff" ? 2 : 1));
    CHECK_THAT(unwrapped(one.out),
               Contains("output (all zeros: it was not computed, or not copied)") &&
                   !Contains("Every layer agrees") && !Contains("differs"));
    const Result all = captures.edited("a = {k: 0 * v for k, v in a.items()}", command);
    CHECK(all.code == 2);
    CHECK_THAT(all.err, Contains("all zeros"));
  }
}

TEST_CASE("captures: a longer text of as many tokens as there are heads, columns or features") {
  // Six heads of 16 dimensions on a stream of 96: no axis of a longer text's stages is
  // distinguished from others by its size.
  for (const std::string model : {"data/bard-gpt2", "data/bard-llama"})
    for (const std::size_t tokens : {6U, 16U, 96U}) {
      const Folder folder;
      std::string longer = "65,300,12";
      for (std::size_t i = 3; i < tokens; ++i) longer += "," + std::to_string(7 + i);
      REQUIRE(run({"dump", model, "--ids", longer, "-q", "-o", folder.path("ref.npz")}).code == 0);
      const Result result =
          run({"diff", model, "--ids", "65,300,12", "--against", folder.path("ref.npz")});
      INFO(model << " " << tokens << "\n" << result.out << result.err);
      CHECK(result.code == 0);
      CHECK_THAT(result.out, Contains("Every layer agrees"));
      CHECK_THAT(unwrapped(result.err), !Contains("read as") && Contains("are this text's"));
    }
}

TEST_CASE("captures: padding behind the text, before it, and other items of a batch") {
  const Captures captures("llama");
  const std::string longer = captures.folder.path("longer.npz");
  captures.dump(ids + ",5,5,5", longer);
  const std::string load = "b = dict(np.load('" + longer +
                           "')); b = {k: v for k, v in b.items() if v.dtype.kind == 'f'}; ";
  captures.check_agrees(load + "a = b", "tokens 0–5 of 9 are this text's");
  captures.check_agrees("a = {k: np.concatenate([v, 0 * v[:2]]) for k, v in a.items()}",
                        "tokens 0–5 of 8 are this text's");
  captures.check_agrees("a = {k: np.concatenate([0 * v[:3] + 7, v])[None] for k, v in a.items()}; "
                        "a.update(input_ids=np.array([[1, 1, 1, " +
                            ids + "]]), attention_mask=np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1]]))",
                        "tokens 3–8 of 9 are this text's, after 3 of padding");
  captures.check_agrees("a = {k: np.stack([v[::-1], v, 2 * v]) for k, v in a.items()}; "
                        "a['input_ids'] = np.array([[1, 2, 3, 4, 5, 6], [" +
                            ids + "], [6, 5, 4, 3, 2, 1]])",
                        "item 1 of 3 is this text");
  captures.check_agrees("a = {'logits': np.stack([a['logits'][::-1], a['logits']])}",
                        "item 1 of 2, the nearest to this text");
}

TEST_CASE("captures: another text is said first, with its tokens") {
  const Captures captures("llama");
  const std::string other = captures.folder.path("other.npz");
  const auto of = [&](const std::string& text) {
    captures.dump(text, other);
    return "a = dict(np.load('" + other +
           "')); a = {k: v for k, v in a.items() if v.dtype.kind == 'f'}";
  };
  // The tokens are read from what enters the first layer.
  captures.check_other_text(of("65,300,12,7,90,44"),
                            "its tokens are 65,300,12,7,90,44, this text's " + ids +
                                ": the same ones are needed, by --ids 65,300,12,7,90,44");
  captures.check_other_text(of("1," + ids), "begins with token 1, which this one lacks: the same "
                                            "tokens are needed, with --bos, or by --ids 1," +
                                                ids);
  captures.check_other_text(of("300,12,7,90,41"), "lacks the first token 65 that this one begins "
                                                  "with: the same tokens are needed, with "
                                                  "--no-special, or by --ids 300,12,7,90,41");
  captures.check_other_text(of("1,1," + ids), "begins with 2 tokens that this one lacks, 1,1");
}

TEST_CASE("captures: the last token alone, fewer columns, transposed, counted from one") {
  const Captures captures("llama");
  captures.check_agrees("a = {'logits': a['logits'][-1]}", "logits: the last token alone");
  captures.check_agrees("a = {'logits': a['logits'][None, -1:]}", "logits: the last token alone");
  captures.check_agrees("a = {k: v for k, v in a.items() if '3' not in k}; a.update(logits="
                        "a['logits'][-1:])",
                        "logits: the last token alone");
  captures.check_agrees("a = {'logits': a['logits'][:, :1000]}",
                        "logits: 1000 of the vocabulary's 1024 columns");
  captures.check_agrees("a = {'logits': a['logits'].T}", "read as");
  captures.check_agrees("a = {k.replace('.' + k.split('.')[1] + '.', '.' + str(1 + "
                        "int(k.split('.')[1])) + '.') if 'layers' in k else k: v for k, v in "
                        "a.items()}",
                        "its layers count from 1");
  // A wrong last row is a difference all the same, and its cause is found.
  const Result wrong = captures.edited("a = {'logits': 30 * np.tanh(a['logits'][-1] / 30)}");
  INFO(wrong.out << wrong.err);
  CHECK_THAT(wrong.out, Contains("head.softcap"));
  const Result one = captures.edited("a = {k: v[-1:] for k, v in a.items()}");
  CHECK(one.code == 1);
  CHECK_THAT(unwrapped(one.out), Contains("resid_pre is (1, 96): resid_pre is (6, 96) in this "
                                          "layer: it is one token's; save all tokens"));
  const Result rank = captures.edited("a['layers.0.mlp_out'] = a['layers.0.mlp_out'][:, :48]");
  CHECK(rank.code == 1);
  CHECK_THAT(unwrapped(rank.out),
             Contains("the share of one rank of 2? Join the ranks' along axis 1"));
}

TEST_CASE("captures: a rank's part of a sum is told") {
  const Captures captures("llama");
  const std::string heads = captures.folder.path("heads.npz");
  REQUIRE(
      run({"dump", captures.model, "--ids", ids, "-q", "-s", "head_result", "-o", heads}).code ==
      0);
  const std::string load = "h = np.load('" + heads + "')['layers.1.head_result']; ";
  captures.check_named(load + "a['layers.1.output'] = h[:3].sum(0)",
                       "rank 0 of 2's part of it, before the sum over ranks");
  captures.check_named(load + "a['layers.1.output'] = h[3:].sum(0).astype(np.float16)",
                       "rank 1 of 2's part of it, before the sum over ranks");
  const Result share = captures.edited("a['layers.0.mlp.gate_up_proj'] = np.ones((6, 256))");
  CHECK_THAT(unwrapped(share.out),
             Contains("of another width than here: the share of one rank of 2"));
}

TEST_CASE("captures: a state of another layer is named") {
  const Captures captures("gpt2");
  const Result moved = captures.edited(
      "a = {f'layers.{n}.resid_post': a[f'layers.{(n + 2) % 4}.resid_post'] for n in N}");
  INFO(moved.out);
  CHECK(moved.code == 1);
  CHECK_THAT(moved.out, Contains("the reference's resid_post is that of layer 2"));
}

TEST_CASE("captures: an exported graph's products are not taken for sums with a bias") {
  const Captures captures("gpt2");
  const std::string weights = "import sys; sys.path.insert(0, 'tests/models'); import safetensors; "
                              "w = safetensors.read_folder('data/bard-gpt2')[1]; ",
                    bias = "np.asarray(w[f'transformer.h.{n}.attn.c_proj.bias'][1])",
                    whole = "a[f'layers.{n}.output']";
  const auto node = [](const std::string& name, const std::string& value) {
    return "a.update({f'/transformer/h.{n}/attn/c_proj/" + name + "_output_0': " + value +
           " for n in N}); ";
  };
  const auto only_nodes = std::string("a = {k: v for k, v in a.items() if k[0] == '/' or k == "
                                      "'logits'}");
  const Result right = captures.edited(
      weights + node("MatMul", whole + " - " + bias) + node("Add", whole) + only_nodes, "diff");
  INFO(right.out << right.err);
  CHECK(right.code == 0);
  CHECK_THAT(unwrapped(right.out), Contains("Every layer agrees") &&
                                       Contains("the product before its bias is added) × 4"));
  const Result wrong = captures.edited(weights + node("Add", whole + " - " + bias) + only_nodes);
  INFO(wrong.out << wrong.err);
  CHECK_THAT(wrong.out, Contains("bias.missing.o"));
}

TEST_CASE("captures: caches are compared, with what they leave unfilled") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), path = folder.path("ref.npz");
  const auto saved = [&](const std::string& value) {
    const Result made = shell(
        "/usr/bin/python3 -c \"import numpy as np; a = np.load('" + own +
        "'); f = lambda x: np.pad(x, ((0, 0), (0, 10), (0, 0)))[None]; np.savez('" + path +
        "', logits=a['logits'], **{f'present.{n}.value': f(a[f'layers.{n}.v']) for n in range(4)}, "
        "**{f'present.{n}.key': f(" +
        value + ") for n in range(4)})\"");
    INFO(made.err);
    REQUIRE(made.code == 0);
  };
  REQUIRE(run({"dump", "data/bard-llama", "--ids", ids, "-q", "-s", "k,v,k_rope,logits", "-o", own})
              .code == 0);
  saved("a[f'layers.{n}.k_rope']");
  const Result right = run({"diff", "data/bard-llama", "--ids", ids, "--against", path});
  INFO(right.out << right.err);
  CHECK(right.code == 0);
  CHECK_THAT(unwrapped(right.out), Contains("compared: v, k_rope of layers 0–3; logits"));
  CHECK_THAT(unwrapped(right.err), Contains("the first 6 rows of 16; the others are 0"));
  saved("a[f'layers.{n}.k']");
  const Result wrong = run({"diagnose", "data/bard-llama", "--ids", ids, "--against", path});
  INFO(wrong.out << wrong.err);
  CHECK_THAT(wrong.out, Contains("rope.missing"));
}

TEST_CASE("captures: without a text, a reference's own token numbers are the text") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), path = folder.path("ref.npz");
  REQUIRE(
      run({"dump", "data/bard-llama", "--ids", ids, "-q", "-s", "resid_post", "-o", own}).code ==
      0);
  for (const std::string name : {"input_ids", "model.forward_batch_info.input_ids"}) {
    REQUIRE(shell("/usr/bin/python3 -c \"import numpy as np; a = dict(np.load('" + own +
                  "')); t = a.pop('ids'); a['" + name + "'] = t; np.savez('" + path + "', **a)\"")
                .code == 0);
    for (const char* command : {"diff", "diagnose"}) {
      const Result found = run({command, "data/bard-llama", "--against", path});
      INFO(name << " " << command << "\n" << found.out << found.err);
      CHECK(found.code == 0);
      CHECK_THAT(unwrapped(found.err), Contains("the reference's own"));
      CHECK(run({command, "data/bard-llama", "--ids", path, "--against", path}).code == 0);
    }
  }
  const Result none = run({"diff", "data/bard-llama", "--against", own, "--layer", "0"});
  CHECK(none.code == 2);
}
