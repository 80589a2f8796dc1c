// Padding before a text: rows of it are never compared, and positions count from the first token or
// through the padding.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

/// Two texts of 6 and 4 tokens, dumped without padding; `left.npz` has them with `input_ids` and
/// `attention_mask`, after as much padding as fills 8 rows, and `ids.npz` those two alone.
struct LeftPadded {
  Folder folder;
  std::string model;
  std::string ids = folder.path("ids.npz"), left = folder.path("left.npz");

  /// `more` edits the padded arrays `a` in Python.
  explicit LeftPadded(const std::string& name, const std::string& more = "")
      : model("data/bard-" + name) {
    const std::string own = folder.path("own.npz");
    const std::string stages =
        name == "llama" ? "embed,resid_pre,q_rope,k_rope,weights,output,resid_post,logits"
                        : "embed,resid_pre,weights,output,resid_post,logits";
    const std::string script =
        "import numpy as np, subprocess, os\n"
        "texts = [[65, 300, 12, 7, 90, 41], [9, 70, 31, 5]]\n"
        "np.savez('" +
        own +
        "', ids=np.array([t + [0] * (6 - len(t)) for t in texts]), "
        "attention_mask=np.array([[1] * len(t) + [0] * (6 - len(t)) for t in texts]))\n"
        "mha = os.environ['MHA']\n"
        "subprocess.run([mha, 'dump', '" +
        model + "', '--ids', '" + own + "', '-q', '-s', '" + stages + "', '-o', '" + own +
        ".npz'], check=True)\n"
        "a, rng = {}, np.random.default_rng(1)\n"
        "for name, value in np.load('" +
        own +
        ".npz').items():\n"
        "    if value.dtype.kind != 'f': continue\n"
        "    T = [i for i, n in enumerate(value.shape) if i > 0 and n == 6][-1 if 'weights' not in "
        "name else -2]\n"
        "    wide = [(0, 0)] * value.ndim\n"
        "    axes = [T, T + 1] if 'weights' in name else [T]\n"
        "    for axis in axes: wide[axis] = (2, 0)\n"
        "    out = np.pad(value, wide)\n"
        "    for b, text in enumerate(texts):\n"
        "        for axis in axes: out[b] = np.roll(out[b], 6 - len(text), axis - 1)\n"
        "        rows = [slice(None)] * (value.ndim - 1)\n"
        "        rows[T - 1] = slice(0, 8 - len(text))\n"
        "        out[b][tuple(rows)] = rng.standard_normal(out[b][tuple(rows)].shape)\n"
        "    a[name] = out\n"
        "beside = {'input_ids': np.array([[1] * (8 - len(t)) + t for t in texts]),\n"
        "          'attention_mask': np.array([[0] * (8 - len(t)) + [1] * len(t) for t in "
        "texts])}\n" +
        more + "\nnp.savez('" + left + "', **a, **beside)\nnp.savez('" + ids + "', **beside)\n";
    const std::string path = folder.write("pad.py", script);
    const Result made = shell("MHA=$MHA /usr/bin/python3 " + path);
    INFO(made.out << made.err);
    REQUIRE(made.code == 0);
  }
  Result compared(const std::string& command) const {
    return run({command, model, "--ids", ids, "--against", left});
  }
};

} // namespace

TEST_CASE("left padding: what is computed here is the text without it, and so is the reference's") {
  for (const std::string name : {"llama", "gpt2"}) {
    const LeftPadded texts(name);
    for (const char* command : {"diff", "diagnose"}) {
      const Result result = texts.compared(command);
      INFO(name << " " << command << "\n" << result.out << result.err);
      CHECK(result.code == 0);
      CHECK_THAT(result.err, Contains("padding before the tokens of 2 texts is left out"));
      CHECK_THAT(result.out, Contains("compared: ") && !Contains("not compared"));
    }
  }
}

TEST_CASE("left padding: positions that count it are the cause, with rotation none of the output") {
  // Rows of the table two and four further on.
  const std::string through = R"(
import json, struct
path = ')" + std::string("data/bard-gpt2/model.safetensors") +
                              R"('
raw = open(path, 'rb').read()
size = struct.unpack('<Q', raw[:8])[0]
header = json.loads(raw[8:8 + size])
name = [n for n in header if n.endswith('wpe.weight')][0]
first, last = header[name]['data_offsets']
wpe = np.frombuffer(raw[8 + size + first:8 + size + last], {'F32': np.float32, 'F16': np.float16}[header[name]['dtype']])
wpe = wpe.reshape(header[name]['shape']).astype(np.float32)
for b, text in enumerate(texts):
    n = len(text)
    for stage in ('embed', 'layers.0.resid_pre'):
        a[stage][b, 8 - n:] += wpe[8 - n:8] - wpe[:n]
a = {k: a[k] for k in ('embed', 'layers.0.resid_pre')}
)";
  const LeftPadded learned("gpt2", through);
  const Result cause = learned.compared("diagnose");
  INFO(cause.out << cause.err);
  CHECK_THAT(cause.out, Contains("embed.positions.offset") &&
                            Contains("through the padding before each text"));

  const std::string turned = R"(
for name in [n for n in a if '_rope' in n]:
    d = a[name].shape[-1]
    for b, text in enumerate(texts):
        angle = (8 - len(text)) * 10000.0 ** (-np.arange(0, d, 2) / d)
        x, y = a[name][b][..., :d // 2].copy(), a[name][b][..., d // 2:].copy()
        a[name][b][..., :d // 2] = x * np.cos(angle) - y * np.sin(angle)
        a[name][b][..., d // 2:] = x * np.sin(angle) + y * np.cos(angle)
)";
  const LeftPadded rotary("llama", turned);
  const Result none = rotary.compared("diagnose");
  INFO(none.out << none.err);
  CHECK(none.code == 0);
  CHECK_THAT(none.out, Contains("rope.padding") && Contains("the model's end  agrees"));
}
