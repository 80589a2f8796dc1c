#include "unit/formats/support.hpp"
#include <mha/load/source.hpp>

#include <catch2/catch.hpp>

using namespace mha;
using namespace mha::io;
using Catch::Matchers::Contains;

TEST_CASE("a word without a name is a file", "[io]") {
  for (const std::string text :
       {"layer.npz", "-", "runs/lr=1e-4/layer.npz", "a-b=c.npz", "1=x.npz"}) {
    const Source source = parse_source(text);
    CHECK(source.name.empty());
    CHECK(source.path == text);
  }
}

TEST_CASE("a binding has a name, a file, a tensor and axes", "[io]") {
  const Source source = parse_source("X=hidden.npz:layers.0@TBC");
  CHECK(source.name == "X");
  CHECK(source.path == "hidden.npz");
  CHECK(source.tensor == "layers.0");
  CHECK(source.axes == "TBC");
  CHECK(parse_source("q_norm.weight=runs/lr=1/w.npy").path == "runs/lr=1/w.npy");
  CHECK(parse_source("X=-:h").path == "-");
  CHECK(parse_source("X=user@host/x.npy").axes.empty());
  CHECK(parse_source("X=user@host/x.npy@BTC").axes == "BTC");
}

TEST_CASE("raw bytes say their dtype and shape", "[io]") {
  const Source source = parse_source("q=q.bin:bf16[2,512,12,64]@BTHD");
  CHECK(source.path == "q.bin");
  CHECK(source.raw_dtype == DType::bf16);
  CHECK(source.raw_shape == Shape{2, 512, 12, 64});
  CHECK(source.axes == "BTHD");
  CHECK(parse_source("q=q.bin:f32[]").raw_shape == Shape{});
  CHECK_THROWS_WITH(parse_source("q=q.bin:f31[2]"), Contains("unknown dtype 'f31'"));
  for (const std::string shape :
       {"[2,]", "[,2]", "[-1]", "[2 3]", "[99999999999999999999]", "[4294967296,4294967296]"})
    CHECK_THROWS_AS(parse_source("q=q.bin:f32" + shape), Error);
  CHECK_THROWS_WITH(bound_entry(parse_source("q=q.bin:f32")), Contains("need a shape"));
}

TEST_CASE("bf16 may stand for the void elements of NumPy files", "[io]") {
  CHECK(parse_source("w=w.npy:bf16").raw_dtype == DType::bf16);
  const Source source = parse_source("w=w.npz:layers.0:bf16@OI");
  CHECK(source.tensor == "layers.0");
  CHECK(source.raw_dtype == DType::bf16);
}

TEST_CASE("axes are letters of the list, none twice", "[io]") {
  CHECK_THROWS_WITH(parse_source("X=x.npy@BTX"), Contains("axis 'X' is unknown"));
  CHECK_THROWS_WITH(parse_source("X=x.npy@BTB"), Contains("axis B is named twice"));
  CHECK_THROWS_AS(parse_source("X=x.npy@"), Error);
  CHECK_THROWS_AS(parse_source("X="), Error);
  CHECK_THROWS_AS(parse_source("X=x.npz:"), Error);
  CHECK_THROWS_AS(parse_source(""), Error);
}

TEST_CASE("a file that exists is a file, whatever its name", "[io]") {
  const io::test::Folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const std::string name : {"X=a.npz", "run:1.npz", "at@BT"}) {
    io::test::write(name, "npz", {{"h", io::test::numbers(DType::f32, {2})}});
    CHECK(parse_source(name).path == name);
    CHECK(parse_source("Y=" + name).path == name);
  }
  const Source source = parse_source("Y=run:1.npz:h@T");
  CHECK(source.path == "run:1.npz");
  CHECK(source.tensor == "h");
  CHECK_THROWS_WITH(parse_source("run:1.npz:h"), Contains("NAME=run:1.npz:h"));
  std::filesystem::current_path(before);
}

TEST_CASE("{layer} is filled in", "[io]") {
  const Source source = parse_source("X=h{layer}.npz:layers.{layer}");
  CHECK(mentions_layer(source));
  CHECK(with_layer(source, "3").path == "h3.npz");
  CHECK(with_layer(source, "3").tensor == "layers.3");
  CHECK_FALSE(mentions_layer(with_layer(source, "3")));
}

TEST_CASE("a binding finds the tensor that it means", "[io]") {
  const io::test::Folder folder;
  io::test::write(folder / "one.npz", "", {{"h", io::test::numbers(DType::f32, {2})}});
  io::test::write(folder / "two.npz", "",
                  {{"X", io::test::numbers(DType::f32, {3})},
                   {"layers.0", io::test::numbers(DType::f32, {4})}});
  const auto entry = [&](const std::string& text) {
    return bound_entry(parse_source("X=" + (folder / text)));
  };
  CHECK(entry("one.npz").name == "h");
  CHECK(entry("two.npz").name == "X");
  CHECK(entry("two.npz:layers.0").shape == Shape{4});
  CHECK_THROWS_WITH(
      entry("two.npz:layers.1"),
      Contains("no tensor 'layers.1'; did you mean 'layers.0'? (there: X, layers.0)"));
  CHECK_THROWS_WITH(bound_entry(parse_source("Y=" + (folder / "two.npz"))),
                    Contains("which of its tensors"));
  CHECK_THROWS_WITH(entry("on.npz"), Contains("did you mean"));
}

TEST_CASE("raw bytes are read where the size is right, and only there", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::i16, {2, 3});
  const std::string path = folder.file(
      "q.bin", std::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()));
  const Entry entry = bound_entry(parse_source("q=" + path + ":i16[2,3]"));
  CHECK(entry.name == "q");
  CHECK(io::test::same(entry.read(), tensor));
  CHECK_THROWS_WITH(bound_entry(parse_source("q=" + path + ":i16[2,4]")),
                    Contains("12 bytes; int16 of (2, 4) needs 16"));
  CHECK_THROWS_WITH(open(path), Contains("raw bytes have no shape"));
}

TEST_CASE("labels come from JSON, text lines, NumPy texts and token numbers", "[io]") {
  const io::test::Folder folder;
  const std::vector<std::string> expected{"the", "cat"};
  const auto labels = [&](const std::string& name, const std::string& bytes) {
    return read_labels(parse_source("tokens=" + folder.file(name, bytes)));
  };
  CHECK(labels("a.json", R"(["the", "cat"])") == expected);
  CHECK(labels("b.json", R"({"tokens": ["the", "cat"], "other": ["x"]})") == expected);
  CHECK(labels("c.txt", "the\r\ncat\n") == expected);
  CHECK(labels("d.txt", "the\ncat") == expected);
  CHECK(labels("e.json", "[101, 7592]") == std::vector<std::string>{"101", "7592"});
  Output output;
  output.labels = {{"words", expected}};
  io::test::write(folder / "f.npz", "", {}, output);
  CHECK(read_labels(parse_source("tokens=" + (folder / "f.npz"))) == expected);
  CHECK(read_labels(parse_source("tokens=" + (folder / "b.json") + ":other")).at(0) == "x");
  CHECK_THROWS_AS(labels("g.json", R"({"X": [[1]]})"), Error);
  CHECK_THROWS_AS(labels("h.txt", "\xff\xfe"), Error);
}
