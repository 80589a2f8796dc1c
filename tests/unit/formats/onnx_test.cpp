// Layers that are found in ONNX graphs: their parts, settings and remarks.

#include "support/places.hpp"
#include "unit/formats/support.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <map>

using namespace mha;

namespace {

namespace fs = std::filesystem;

io::Contents graph(const std::string& name) {
  return io::open((fs::path(mha::test::source_folder()) / "tests/data/fuzz" / name).string());
}

std::map<std::string, std::string> settings_of(const io::Contents& contents,
                                               const std::string& prefix) {
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : contents.scalars)
    if (name.starts_with(prefix)) settings[name.substr(prefix.size())] = value;
  return settings;
}

} // namespace

TEST_CASE("an ONNX graph says a layer's settings", "[io][onnx]") {
  const std::string path = "encoder.layers.3.self_attn.";
  auto rotary = settings_of(graph("tiny.onnx"), path);
  CHECK(rotary["num_heads"] == "4");
  CHECK(rotary["num_kv_heads"] == "2");
  CHECK(rotary["scale"] == "d_k");
  CHECK(rotary["causal"] == "true");
  CHECK(rotary["rope"] == "half");
  CHECK(rotary["rope_base"] == "100000");
  CHECK(rotary["rope_dims"] == "6");
  CHECK_FALSE(rotary.contains("window_left"));
  CHECK_FALSE(rotary.contains("note"));

  auto grouped = settings_of(graph("onnx-ms-grouped.onnx"), path);
  CHECK(grouped["rope_base"] == "500");
  CHECK(grouped["window_left"] == "3");
  CHECK(grouped["softcap"] == "3");
  CHECK(std::stod(grouped["scale"]) == Approx(0.4));

  auto fused = settings_of(graph("onnx-fused-causal.onnx"), path);
  CHECK(fused["causal"] == "true");
  CHECK(fused["num_heads"] == "4");
  CHECK_FALSE(fused.contains("num_kv_heads"));
  CHECK_FALSE(fused.contains("rope"));
}

TEST_CASE("a fused ONNX weight is a layer's three without a copy", "[io][onnx]") {
  const io::Contents contents = graph("onnx-fused-causal.onnx");
  const std::string path = "encoder.layers.3.self_attn.";
  const io::Entry* q = contents.find(path + "W_q");
  const io::Entry* v = contents.find(path + "W_v");
  REQUIRE(q);
  REQUIRE(v);
  CHECK(q->shape == Shape{20, 24});
  CHECK(q->own_name == v->own_name);
  const auto file =
      std::find_if(contents.tensors.begin(), contents.tensors.end(), [&](const io::Entry& entry) {
        return entry.own_name == q->own_name && entry.shape == Shape{20, 72};
      });
  REQUIRE(file != contents.tensors.end());
  const Tensor fused = file->read(), values = v->read();
  for (const std::size_t row : {std::size_t{0}, std::size_t{19}})
    for (const std::size_t column : {std::size_t{0}, std::size_t{23}})
      CHECK(value_at(values, row * 24 + column) == value_at(fused, row * 72 + 48 + column));
  CHECK(values.stored() != nullptr); // columns of the file's own matrix, until they are read
}

TEST_CASE("ONNX models are told by their first bytes", "[io][onnx]") {
  const std::string whole = io::test::contents_of(
      (fs::path(mha::test::source_folder()) / "tests/data/fuzz/tiny.onnx").string());
  const io::test::Folder folder;
  std::ofstream(folder / "model.dat", std::ios::binary) << whole;
  CHECK(io::open(folder / "model.dat").format == "onnx");
  const io::Contents contents = graph("tiny.onnx");
  REQUIRE_FALSE(contents.notes.empty());
  CHECK(contents.notes[0].in_words(Wording::program).find("opset 17") != std::string::npos);
  CHECK(contents.notes[0].in_words(Wording::program).find("by hand") != std::string::npos);
}
