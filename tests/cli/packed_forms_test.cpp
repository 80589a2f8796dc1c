// Forms in which kernels and other programs save what a layer is made of: packed texts, axes of one
// element, floats of 8 bits.

#include "support/run.hpp"
#include <mha/formats/formats.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cmath>

using namespace mha::test;
using Catch::Contains;

namespace {

/// Numbers that all differ, (n₀, n₁, …) as JSON; `close` closes each of the innermost.
std::string numbers(const std::vector<std::size_t>& shape, int seed, std::size_t ones = 0,
                    std::size_t axis = 0, std::size_t index = 0) {
  if (axis == shape.size())
    return std::string(ones, '[') +
           fmt::format("{:.3f}", std::sin(seed + 1.7 * static_cast<double>(index))) +
           std::string(ones, ']');
  std::string text = "[";
  for (std::size_t i = 0; i < shape[axis]; ++i)
    text += (i > 0 ? "," : "") + numbers(shape, seed, ones, axis + 1, index * shape[axis] + i);
  return text + "]";
}

std::string packed(const std::string& more) {
  return fmt::format(R"({{"q": {}, "k": {}, "v": {}{}}})", numbers({7, 4, 3}, 1),
                     numbers({7, 2, 3}, 2), numbers({7, 2, 5}, 3), more);
}

/// Rows [first, last) of head_out, as CSV.
std::string rows(const std::string& text, std::size_t first, std::size_t last) {
  std::string kept;
  std::size_t row = 0, begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    if (end == begin)
      row = 0, kept += '\n';
    else if (const std::size_t at = row++; at >= first && at < last)
      kept += text.substr(begin, end - begin + 1);
  return kept;
}

Result show(const std::vector<std::string>& words) {
  std::vector<std::string> all{"show", "-s", "head_out", "-f", "csv", "--matrix", "-q"};
  all.insert(all.end(), words.begin(), words.end());
  return run(all);
}

} // namespace

TEST_CASE("packed texts are computed as each alone") {
  const Folder folder;
  const std::string path = folder.write("packed.json", packed(R"(, "cu_seqlens": [0, 2, 7])"));
  for (const std::string mask : {"--scale=0.5", "--causal", "--window-left=1"}) {
    INFO(mask);
    const Result both = show({path, mask});
    INFO(both.err);
    REQUIRE(both.code == 0);
    for (const auto& [first, last] : {std::pair(0, 2), {2, 7}}) {
      const std::string slice = fmt::format("[{}:{}]@THD", first, last);
      std::vector<std::string> words{mask};
      for (const std::string name : {"q", "k", "v"})
        words.push_back(fmt::format("{}={}:{}{}", name, path, name, slice));
      const Result one = show(words);
      INFO(one.err);
      CHECK(one.code == 0);
      CHECK(one.out ==
            rows(both.out, static_cast<std::size_t>(first), static_cast<std::size_t>(last)));
    }
  }
}

TEST_CASE("packed texts are refused where more than a mask would follow from them") {
  const Folder folder;
  const auto refused = [&](const std::string& more, const std::vector<std::string>& options,
                           const std::string& text) {
    std::vector<std::string> words{folder.write("packed.json", packed(", " + more))};
    words.insert(words.end(), options.begin(), options.end());
    const Result result = show(words);
    INFO(more);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(text));
  };
  refused(R"("cu_seqlens": [0, 2, 8])", {}, "ends at 8");
  refused(R"("cu_seqlens": [0, 3, 2, 7])", {}, "has 2 at 2");
  refused(R"("cu_seqlens": [1, 7])", {}, "has 1 at 0");
  refused(R"("cu_seqlens": [7])", {}, "one axis expected");
  refused(R"("cu_seqlens": [0, 2.5, 7])", {}, "has 2.5 at 1");
  refused(R"("cu_seqlens_k": [0, 2, 7])", {}, "give cu_seqlens, of the queries");
  refused(R"("cu_seqlens": [0, 2, 7], "cu_seqlens_k": [0, 7])", {}, "has 2 texts");
  refused(R"("cu_seqlens": [0, 2, 7], "cu_seqlens_k": [0, 3, 7])", {"--causal"},
          "as many keys as queries");
  refused(R"("cu_seqlens": [0, 2, 7])", {"--rope", "half", "--rope-dims", "2"}, "give positions");
  CHECK(show({folder.write("packed.json",
                           packed(R"(, "cu_seqlens": [0, 2, 7], "cu_seqlens_k": [0, 3, 7])"))})
            .code == 0);
}

TEST_CASE("axes of one element are seen through") {
  const Folder folder;
  const auto layer = [&](const std::string& X, const std::string& b, const std::string& mask) {
    std::string text =
        R"({"num_heads": 2, "X": )" + X + R"(, "b_q": )" + b + R"(, "mask": )" + mask;
    for (const char* name : {"W_q", "W_k", "W_v"})
      text += fmt::format(R"(, "{}": {})", name, numbers({4, 6}, name[2]));
    return folder.write("layer.json", text + "}");
  };
  const std::string mask = numbers({3, 3}, 7);
  const Result plain = show({layer(numbers({3, 4}, 4), numbers({6}, 5), mask)});
  REQUIRE(plain.code == 0);
  const auto same = [&](const std::string& path) {
    const Result result = show({path});
    INFO(result.err);
    CHECK(result.out == plain.out);
  };
  same(layer(numbers({3, 4}, 4, 2), numbers({6, 1}, 5), "[[[" + mask + "]]]"));
  same(layer(numbers({3, 4}, 4), "[" + numbers({6}, 5) + "]", "[" + mask + "]"));

  const std::string own = layer(numbers({3, 4}, 4), numbers({6}, 5), mask);
  for (const std::size_t ones : {1U, 2U}) {
    const std::string shown = folder.path("shown.csv");
    REQUIRE(run({"show", own, "-s", "q", "-f", "json", "-o", folder.path("q.json")}).code == 0);
    const mha::Tensor q = mha::io::open(folder.path("q.json")).tensors.at(0).read();
    std::string text = "[";
    for (std::size_t i = 0; i < q.count(); ++i)
      text += fmt::format("{}{}{}{}", i % 9 == 0 ? "[" : "", i % 3 == 0 ? "[" : "",
                          std::string(ones, '[') + fmt::format("{}", value_at(q, i)) +
                              std::string(ones, ']'),
                          i % 9 == 8   ? "]]"
                          : i % 3 == 2 ? "]"
                                       : "") +
              (i + 1 < q.count() ? "," : "]");
    const Result result =
        run({"diff", own, "--against", "q=" + folder.write("reference.json", text)});
    INFO(text << result.out << result.err);
    CHECK(result.code == 0);
  }
  // The weight of a convolution has its axes in another order.
  const Result convolution =
      run({"show", "X=" + folder.write("X.json", numbers({3, 4}, 1)), "--num-heads", "2",
           "W_q=" + folder.write("W.json", numbers({4, 4}, 2, 2))});
  CHECK(convolution.code == 2);
  CHECK_THAT(convolution.err, Contains("expected (d_in, H·d)"));
}

TEST_CASE("floats of 8 bits are read, and refused beside their scales") {
  const Folder folder;
  // As torch.save writes them: an archive with a pickle of calls, here without PyTorch.
  const std::string script = R"(
import collections, io, json, pickle, struct, sys, types, zipfile
torch, utils, storage = (types.ModuleType(n) for n in ("torch", "torch._utils", "torch.storage"))
sys.modules.update({m.__name__: m for m in (torch, utils, storage)})
def rebuild(*given): pass
rebuild.__module__, rebuild.__qualname__, rebuild.__name__ = "torch._utils", "_rebuild_tensor_v3", "_rebuild_tensor_v3"
utils._rebuild_tensor_v3 = rebuild
class UntypedStorage: pass
UntypedStorage.__module__, storage.UntypedStorage = "torch.storage", UntypedStorage
class Type:
    def __init__(self, name):
        self.name, self.__module__ = name, "torch"
        setattr(torch, name, self)
    def __reduce__(self): return self.name
class Stored:
    def __init__(self, key): self.key = key
class Tensor:
    def __init__(self, key, dtype, shape): self.key, self.dtype, self.shape = key, dtype, shape
    def __reduce__(self):
        return rebuild, (Stored(self.key), 0, self.shape, (self.shape[1], 1), False,
                         collections.OrderedDict(), self.dtype, {})
class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Stored): return "storage", UntypedStorage, value.key, "cpu", 256
every = bytes(range(256))
def torch_file(path, names, dtype):
    file = io.BytesIO()
    Pickler(file, 2).dump({n: Tensor(str(i), dtype, (8, 32)) for i, n in enumerate(names)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", file.getvalue())
        archive.writestr("a/version", "3\n")
        for i in range(len(names)): archive.writestr("a/data/%d" % i, every)
def safetensors(path, tensors):
    header, data = {}, b""
    for name, dtype, shape, numbers in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
for name, dtype, of_torch in ("e4m3", "F8_E4M3", Type("float8_e4m3fn")), ("e5m2", "F8_E5M2", Type("float8_e5m2")):
    safetensors(name + ".safetensors", [("k", dtype, [8, 32], every)])
    torch_file(name + ".pt", ["k"], of_torch)
    safetensors(name + "-scaled.safetensors", [("k", dtype, [8, 32], every), ("k_scale", "F32", [1], b"0000")])
    torch_file(name + "-scaled.pt", ["l.weight", "l.weight_scale"], of_torch)
)";
  const Result made =
      shell("cd " + folder.path() + " && /usr/bin/python3 " + folder.write("make.py", script));
  INFO(made.err);
  REQUIRE(made.code == 0);
  for (const auto& [name, mantissa, bias, last] :
       {std::tuple("e4m3", 3, 7, 126), {"e5m2", 2, 15, 123}})
    for (const std::string extension : {".safetensors", ".pt"}) {
      INFO(name << extension);
      const mha::io::Contents contents = mha::io::open(folder.path(name + extension));
      const mha::Tensor k = contents.find("k")->read();
      REQUIRE(k.shape() == mha::Shape{8, 32});
      // Each code is the next number: the steps double with every exponent.
      double expected = 0;
      for (int code = 0; code <= last; ++code) {
        INFO(code);
        CHECK(value_at(k, static_cast<std::size_t>(code)) == expected);
        CHECK(value_at(k, static_cast<std::size_t>(code + 128)) == -expected);
        expected += std::ldexp(1.0, std::max(code >> mantissa, 1) - bias - mantissa);
      }
      CHECK(std::isnan(value_at(k, 127)));
      CHECK(std::isinf(value_at(k, 124)) == (bias == 15));
      const Result info = run({"info", folder.path(name + extension)});
      CHECK_THAT(info.out, Contains("1 tensor of 8-bit floats, read without scales"));
      const Result scaled = run({"info", folder.path(name + std::string("-scaled") + extension)});
      CHECK(scaled.code == 2);
      CHECK_THAT(scaled.err, Contains("beside its scales"));
    }
}
