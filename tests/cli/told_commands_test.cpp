// Every command that diff and diagnose print runs as it is printed, in the folder they were typed
// in.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <set>
#include <sstream>

using namespace mha::test;

namespace {

/// The lines "Title: mha-inspect …" of a text, after the program's name.
std::vector<std::string> commands_in(const std::string& text) {
  std::vector<std::string> commands;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(": mha-inspect ");
    const std::size_t wide = line.find(":   mha-inspect ");
    if (at != std::string::npos) commands.push_back(line.substr(at + 14));
    if (wide != std::string::npos) commands.push_back(line.substr(wide + 16));
  }
  return commands;
}

/// What a port is compared with, and how: words for a shell, in the folder of the files.
struct Told {
  const char* layer;
  const char* against;
};

const std::string data = source_folder() + "/data";

} // namespace

TEST_CASE("diff and diagnose: every command that they print runs") {
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  folder.write("it's a \"layer\".json", small_layer_json());
  Setting here;
  here.folder = folder.path();
  here.env["D"] = data;
  const char* const python = R"(python3 - <<'EOF'
import numpy as np
f = np.load("own.npz")
np.savez("odd.npz", **{"my z": f["head_out"] * 1.5, "it's q": f["q"], "a:b": f["head_out"] + 1, "w@1": f["weights"] * 2})
f["head_out"].transpose(1, 0, 2).astype(np.float32).copy().tofile("o.bin")
for n in "qkv": (f[n] * 1.25).transpose(1, 0, 2).astype(np.float32).copy().tofile(n + ".bin")
np.savez("packed.npz", Q=f["q"].transpose(1, 0, 2).reshape(3, 4), K=f["k"].transpose(1, 0, 2).reshape(3, 4), V=f["v"].transpose(1, 0, 2).reshape(3, 4))
np.savez("batch.npz", **{n: np.stack([f[n], f[n] * 2]) for n in ("q", "k", "v")})
np.savez("batch_out.npz", head_out=np.stack([f["head_out"], f["head_out"] * 3]))
np.savez("gqa.npz", q=np.arange(48.).reshape(4, 3, 4) % 7, k=np.arange(24.).reshape(2, 3, 4) % 5, v=np.arange(24.).reshape(2, 3, 4) % 3)
np.savez("gqa2.npz", q=np.arange(48.).reshape(4, 3, 4) % 7, k=np.arange(24.).reshape(2, 3, 4)[:, ::-1] % 5, v=np.arange(24.).reshape(2, 3, 4) % 3)
EOF)";
  REQUIRE(
      shell(
          "$MHA dump layer.json -q -o own.npz && $MHA dump layer.json --scale 1 -q -o scale.npz && "
          "$MHA dump layer.json --no-causal -q -o full.npz && " +
              std::string("PATH=/usr/bin:$PATH ") + python,
          here)
          .code == 0);
  const Told cases[]{
      {"layer.json", "scale.npz"},
      {"./layer.json --tokens 'the cat sat'", "full.npz"},
      {"'it'\\''s a \"layer\".json'", "scale.npz"},
      {"layer.json", "'head_out=odd.npz:my z'"},
      {"layer.json", "'z=odd.npz:a:b'"},
      {"layer.json", "'weights=odd.npz:w@1'"},
      {"layer.json \"q=odd.npz:it's q\" --dtype f64", "scale.npz"},
      {"q=q.bin:f32[3,2,2]@THD 'k=k.bin:f32[3,2,2]@THD' v=v.bin:f32[3,2,2]@THD --causal",
       "head_out=o.bin:f32[3,2,2]@THD"},
      {"head_out=o.bin:f32[3,2,2]@THD", "'head_out=odd.npz:my z'"},
      {"weights=own.npz", "'weights=odd.npz:w@1'"},
      {"own.npz", "scale.npz"},
      {"scale.npz", "full.npz"},
      {"packed.npz --num-heads 2 --scale 0.2", "full.npz -s head_out"},
      {"Q=packed.npz K=packed.npz V=packed.npz --num-heads 2 --causal --scale 0.2",
       "head_out=own.npz"},
      {"batch.npz --causal", "batch_out.npz"},
      {"gqa.npz", "gqa2.npz"},
      {"q=gqa.npz k=gqa.npz v=gqa.npz --window-left 1 --softcap 3 --masked-rows uniform",
       "gqa2.npz"},
      {"layer.json --no-causal", "layer.json"},
      {"layer.json --num-heads 1", "own.npz"},
      {"$D/columns.json --scale 1", "output=columns.npy"},
      {"$D/induction --layer all X=$D/induction/hidden.npz:layers.{layer} --scale 1",
       "$D/induction/expected/layer{layer}.npz"},
      {"$D/shakespeare --layer 0 X=$D/shakespeare/hidden.npz:layers.0",
       "$D/port/stages.safetensors"},
      {"$D/bard-gpt2 --text \"It's 'me' \\$HOME\" --layer 1", "text.npz"},
      {"$D/bard-gpt2 --ids 5,6,7,8 --patch 'layers.1.head_out[2,1] = zero'", "ids.npz"},
      {"$D/bard-gpt2 --ids 5,6,7,8", "logits.npz"},
      {"$D/bard-llama --ids 5,6,7,8 --layer 2 --rope interleaved", "llama.npz"},
  };
  REQUIRE(shell("$MHA show $D/columns.json -s output -f npy -o columns.npy && "
                "$MHA dump $D/bard-gpt2 --text \"It's 'me' \\$HOME\" --scale 1 -q -o text.npz && "
                "$MHA dump $D/bard-gpt2 --ids 5,6,7,8 -q -o ids.npz && "
                "$MHA dump $D/bard-llama --ids 5,6,7,8 -q -o llama.npz && "
                "$MHA dump $D/bard-gpt2 --ids 5,6,7,8 -s logits --patch 'final[*,1] = zero' -q -o "
                "logits.npz",
                here)
              .code == 0);
  std::set<std::string> ran;
  std::size_t looked = 0, why = 0;
  for (const Told& one : cases)
    for (const char* command : {"diff", "diagnose"}) {
      std::string against = one.against;
      if (std::string_view(command) == "diagnose") against = against.substr(0, against.find(" -s"));
      const std::string typed = fmt::format("$MHA {} {} --against {}", command, one.layer, against);
      const Result result = shell(typed, here);
      INFO(typed << "\n" << result.out << result.err);
      CHECK(result.code != 2);
      const std::vector<std::string> told = commands_in(result.out);
      if (std::string_view(command) == "diff") CHECK(told.size() >= 2);
      for (const std::string& line : told) {
        if (!ran.insert(line).second) continue;
        const Result again = shell("$MHA " + line, here);
        INFO(line << "\n" << again.err);
        CHECK(again.code != 2);
        looked += line.starts_with("show") || line.starts_with("explain") ? 1 : 0;
        why += line.starts_with("diagnose") ? 1 : 0;
      }
    }
  CHECK(looked >= 20);
  CHECK(why >= 20);
}
