#include "unit/formats/support.hpp"
#include <mha/load/source.hpp>

#include <catch2/catch.hpp>

#include <cstring>

using namespace mha;
using namespace mha::io;
using Catch::Matchers::Contains;

namespace {

std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  const std::string text = dictionary + "\n";
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(text.size());
  bytes += '\0';
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + text + data;
}

std::string header(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result(tensor.count());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = value_at(tensor, i);
  return result;
}

} // namespace

TEST_CASE("NPY is read in every version, byte order and axis order", "[io]") {
  const io::test::Folder folder;
  const std::string little("\1\0\2\0\3\0\4\0\5\0\6\0", 12), big("\0\1\0\2\0\3\0\4\0\5\0\6", 12);
  const std::vector<double> rows{1, 2, 3, 4, 5, 6}, columns{1, 3, 5, 2, 4, 6};
  const auto read = [&](const std::string& bytes) {
    return open(folder.file("X.npy", bytes)).tensors.at(0).read();
  };
  for (const char version : {'\1', '\2', '\3'}) {
    CHECK(values(read(npy(header("<i2", "False", "(2, 3)"), little, version))) == rows);
    CHECK(values(read(npy(header(">i2", "False", "(2, 3)"), big, version))) == rows);
    CHECK(values(read(npy(header("<i2", "True", "(2, 3)"), little, version))) == columns);
    CHECK(values(read(npy(header(">i2", "True", "(2, 3)"), big, version))) == columns);
  }
  CHECK(read(npy(header("<i2", "True", "(6,)"), little)).shape() == Shape{6});
  CHECK(read(npy(header("=i2", "False", "(6L,)"), little)).shape() == Shape{6});
}

TEST_CASE("an NPY header's keys come in any order and spacing", "[io]") {
  const io::test::Folder folder;
  const std::string text = "{ \"shape\":(2 ,3) , 'fortran_order' : False,'descr':\"|u1\"}";
  const Contents contents = open(folder.file("W_q.npy", npy(text, "abcdef")));
  CHECK(contents.tensors.at(0).name == "W_q");
  CHECK(contents.tensors.at(0).shape == Shape{2, 3});
  CHECK(contents.format == "npy");
}

TEST_CASE("arrays without axes are settings, texts are labels", "[io]") {
  const io::test::Folder folder;
  folder.file("f/num_heads.npy", npy(header("<i4", "False", "()"), std::string("\x08\0\0\0", 4)));
  folder.file("f/big.npy", npy(header(">i4", "False", "()"), std::string("\0\0\0\x08", 4)));
  folder.file("f/causal.npy", npy(header("|b1", "False", "()"), std::string("\1", 1)));
  folder.file("f/tokens.npy", npy(header(">U2", "False", "(2,)"),
                                  std::string("\0\0\0a\0\0\0b\0\1\xf6\0\0\0\0\0", 16)));
  folder.file("f/key_tokens.npy", npy(header("|S3", "False", "(2,)"), std::string("abc\0\0\0", 6)));
  const Contents contents = open(folder / "f");
  using Scalars = decltype(contents.scalars);
  CHECK(contents.scalars == Scalars{{"big", "8"}, {"causal", "true"}, {"num_heads", "8"}});
  using Labels = decltype(contents.labels);
  CHECK(contents.labels == Labels{{"key_tokens", {"abc", ""}}, {"tokens", {"ab", "😀"}}});
}

TEST_CASE("elements that do not lie aligned are copied", "[io]") {
  const io::test::Folder folder;
  // The header is 62 bytes long: doubles after it begin at no multiple of 8.
  const double number = 2.5;
  std::string data(8, '\0');
  std::memcpy(data.data(), &number, 8);
  const std::string text = header("<f8", "False", "(1, 1)");
  const Tensor tensor = open(folder.file("X.npy", npy(text, data))).tensors.at(0).read();
  CHECK(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 8 == 0);
  CHECK(value_at(tensor, 0) == 2.5);
}

TEST_CASE("2-byte void elements are bfloat16 where the binding says so", "[io]") {
  const io::test::Folder folder;
  const std::string path =
      folder.file("w.npy", npy(header("|V2", "False", "(2,)"), std::string("\x80\x3f\0\xc0", 4)));
  const Entry entry = bound_entry(parse_source("W_q=" + path + ":bf16"));
  CHECK(entry.dtype == DType::bf16);
  CHECK(values(entry.read()) == std::vector<double>{1, -2});
  CHECK_THROWS_WITH(open(path), Contains("give w=" + path + ":bf16"));
}

TEST_CASE("names of members may have folders; what is no array is passed over", "[io]") {
  const io::test::Folder folder;
  io::test::write(folder / "a.npz", "", {{"layers/0/X", io::test::numbers(DType::f32, {2, 2})}});
  CHECK(open(folder / "a.npz").find("layers/0/X") != nullptr);
  CHECK_THROWS_WITH(
      io::test::write(folder / "f/", "", {{"../X", io::test::numbers(DType::f32, {2})}}),
      Contains("cannot be a file's name"));
}
