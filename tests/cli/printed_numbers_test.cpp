// Numbers in text come back: what the program prints, what others print, and parts of tensors.

#include "support/run.hpp"
#include <mha/formats/formats.hpp>
#include <mha/naming/tensor_names.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

using namespace mha::test;
using Catch::Contains;

namespace {

/// A layer whose axes all differ: 5 tokens, 4 query heads on 2 key/value heads of 3.
const std::vector<std::string> model{"data/bard-llama", "--ids", "5,9,3,7,12,44,6,2,30", "--layer",
                                     "1"};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
std::vector<std::string> command(const std::string& name, const std::vector<std::string>& more) {
  return with(with({name}, model), more);
}

void expect_equal(const std::vector<std::string>& words, int code, const std::string& text) {
  const Result result = run(words);
  INFO(result.out << result.err);
  CHECK(result.code == code);
  CHECK_THAT(result.out + result.err, Contains(text));
}

mha::Tensor stage(const Folder& folder, const std::string& name) {
  const std::string path = folder.path(name + ".npy");
  REQUIRE(run(command("dump", {"-q", "-s", name, "-o", path})).code == 0);
  return mha::io::open(path).tensors.at(0).read();
}

/// Prints as llama.cpp's eval-callback does, by its own description: along each of the first three
/// axes, the contiguous one first, three numbers at each end where there are more than six.
std::string as_callback(const std::string& name, const std::string& operation,
                        const mha::Tensor& tensor) {
  std::array<std::size_t, 4> n{1, 1, 1, 1};
  for (std::size_t i = 0; i < tensor.rank(); ++i) n[i] = tensor.shape()[tensor.rank() - 1 - i];
  std::string text = fmt::format("ggml_debug: {:>24} = (f32) {:>10}(a{{{}, 1, 1, 1}}, }}) = {{{}, "
                                 "{}, {}, {}}}\n",
                                 name, operation, n[0], n[0], n[1], n[2], n[3]);
  const auto next = [&](std::size_t i, std::size_t length, const char* dots) {
    if (i != 2 || length <= 6) return i + 1;
    text += dots;
    return length - 3;
  };
  for (std::size_t i3 = 0; i3 < n[3]; ++i3) {
    text += " [\n";
    for (std::size_t i2 = 0; i2 < n[2]; i2 = next(i2, n[2], "  ..., \n")) {
      text += "  [\n";
      for (std::size_t i1 = 0; i1 < n[1]; i1 = next(i1, n[1], "   ..., \n")) {
        text += "   [";
        for (std::size_t i0 = 0; i0 < n[0]; i0 = next(i0, n[0], "..., ")) {
          const std::size_t at = ((i3 * n[2] + i2) * n[1] + i1) * n[0] + i0;
          text += fmt::format("{:12.4f}{}", value_at(tensor, at), i0 + 1 < n[0] ? ", " : "");
        }
        text += "],\n";
      }
      text += "  ],\n";
    }
    text += fmt::format(" ]\n sum = {:f}\n", 0.5);
  }
  return text;
}

} // namespace

TEST_CASE("printed: what show prints for programs is a reference of the same numbers") {
  const Folder folder;
  for (const std::string form : {"csv", "tsv", "ndjson"}) {
    const std::string all = folder.path("all." + form), some = folder.path("weights." + form);
    REQUIRE(
        run(command("show", {"-s", "q,k,weights,row_max,output", "-f", form, "-o", all})).code ==
        0);
    expect_equal(command("diff", {"--against", all}), 0, "All stages match bit for bit");
    if (form == "ndjson") continue;
    REQUIRE(run(command("show", {"-s", "weights", "-f", form, "--matrix", "-o", some})).code == 0);
    expect_equal(command("diff", {"--against", some}), 0, "weights matches bit for bit");
  }
}

TEST_CASE("printed: texts of unequal lengths and several layers come back from one file") {
  const Folder folder;
  const std::vector<std::string> texts{"data/bard-llama", "--ids", "5,9,3,7", "--ids", "8,6"};
  for (const std::string form : {"csv", "ndjson"}) {
    const std::string path = folder.path("all." + form);
    REQUIRE(run(with({"show"}, with(texts, {"--layer", "0-1", "-s", "weights,concat", "-f", form,
                                            "-o", path})))
                .code == 0);
    expect_equal(with({"diff"}, with(texts, {"--layer", "0-1", "--against", path})), 0,
                 "Every layer agrees.");
  }
}

TEST_CASE("printed: four decimals are allowed half of the last, and no more") {
  const Folder folder;
  const mha::Tensor output = stage(folder, "output");
  std::string text = "tensor([", other;
  for (std::size_t i = 0; i < output.count(); ++i) {
    const std::size_t width = output.shape().back();
    if (i % width == 0) text += i > 0 ? "],\n        [" : "[";
    text += fmt::format("{}{:.4f}", i % width > 0 ? ", " : "", value_at(output, i));
  }
  text += "]], grad_fn=<MmBackward0>)\n";
  expect_equal(command("diff", {"--against", "output=" + folder.write("o.txt", text)}), 0,
               "±5e-05 is allowed");
  other = text;
  char& digit = other[other.find('.') + 3]; // the third decimal of the first number
  digit = digit == '9' ? '7' : static_cast<char>(digit + 1);
  expect_equal(command("diff", {"--against", "output=" + folder.write("o.txt", other)}), 1,
               "differs");
}

TEST_CASE("printed: eval-callback's text is compared number by number as far as it goes") {
  const Folder folder;
  const mha::Tensor q = permuted(stage(folder, "q"), {1, 0, 2}),
                    rotated = permuted(stage(folder, "q_rope"), {1, 0, 2});
  const std::string text = "main: build = 1\n" + as_callback("Qcur-1", "MUL_MAT", q) +
                           as_callback("Qcur-1 (reshaped)", "RESHAPE", q) +
                           as_callback("Qcur-1", "ROPE", rotated) +
                           as_callback("kq_soft_max-1", "SOFT_MAX", stage(folder, "weights")) +
                           as_callback("attn_out-1", "MUL_MAT", stage(folder, "output"));
  const std::string path = folder.write("log.txt", text);
  expect_equal({"info", path}, 0, "first and last 3 numbers of each axis");
  const Result same = run(command("diff", {"--against", path}));
  INFO(same.out << same.err);
  CHECK(same.code == 0);
  for (const char* name : {"  q ", "q_rope", "weights", "output"})
    CHECK_THAT(same.out, Contains(name));
  // A number that is printed, of each tensor, is compared.
  for (const char* operation : {"MUL_MAT", "ROPE", "SOFT_MAX"}) {
    INFO(operation);
    std::string other = text;
    const std::size_t at = other.find("[  ", other.find(operation)), point = other.find('.', at);
    other[point + 2] = other[point + 2] == '9' ? '5' : static_cast<char>(other[point + 2] + 1);
    CHECK(run(command("diff", {"--against", folder.write("log.txt", other)})).code == 1);
  }
  expect_equal({"info", folder.write("log.txt", text + as_callback("Qcur-1", "MUL_MAT", q))}, 0,
               "a second pass, from line");
}

TEST_CASE("printed: token numbers come from lines, a column and standard input") {
  const Folder folder;
  const auto predicted = [&](const std::vector<std::string>& ids, const Setting& setting = {}) {
    const Result result = run(
        with({"predict", "data/bard-llama", "--top", "1", "-f", "csv", "--quiet"}, ids), setting);
    INFO(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  const std::string one = predicted({"--ids", "5,9,3"}),
                    two = predicted({"--ids", "5,9,3", "--ids", "7,8"});
  CHECK(one != two);
  CHECK(predicted({"--ids", folder.write("ids.txt", "5 9 3\n")}) == one);
  CHECK(predicted({"--ids", folder.write("ids.txt", "5\n9\n3\n")}) == one);
  CHECK(predicted({"--ids", folder.write("ids.csv", "5,9,3\n7,8\n")}) == two);
  CHECK(predicted({"--ids", "-"}, {.input = "5, 9, 3\n"}) == one);
  expect_equal({"predict", "data/bard-llama", "--ids", folder.write("ids.txt", "5 9.5\n")}, 2,
               "a token's number expected");
}

TEST_CASE("printed: a binding takes a slice") {
  const Folder folder;
  const std::string all = folder.path("all.npz");
  REQUIRE(run(command("dump", {"-q", "-s", "q,q_rope,k_rope,v", "-o", all})).code == 0);
  const mha::io::Contents contents = mha::io::open(all);
  const auto shown = [&](const std::string& q, const std::string& head = "[1:2]") {
    const Result result = run({"show", "q=" + q, "k=" + all + ":k_rope" + head,
                               "v=" + all + ":v" + head, "-s", "q", "-f", "csv", "-q"});
    INFO(result.err);
    CHECK(result.code == 0);
    return std::count(result.out.begin(), result.out.end(), '\n') - 1;
  };
  const mha::Shape shape = contents.find("q")->shape;
  CHECK(shown(all + ":q[2:4]") == static_cast<int>(2 * shape[1] * shape[2]));
  CHECK(shown(all + ":q[-1]", "[1]") == static_cast<int>(shape[1] * shape[2]));
  CHECK(shown(all + ":q[..., 1:9:2, :]@HTD") == static_cast<int>(shape[0] * 4 * shape[2]));
  const auto refused = [&](const std::string& q, const std::string& text) {
    expect_equal({"show", "q=" + q, "k=" + all + ":k_rope", "v=" + all + ":v"}, 2, text);
  };
  refused(all + ":q[9]", "there are 6");
  refused(all + ":q[0,0,0,0]", "names 4 axes, the tensor has 3");
  refused(all + ":q[a]", "q[a]");
}

TEST_CASE("printed: a student's matrices come from spreadsheets, with their labels") {
  const Folder folder;
  const std::vector<std::string> matrices{"X", "W_q", "W_k", "W_v", "W_o"};
  std::vector<std::string> sources{"--num-heads", "2", "--scale", "0.6931471805599453"};
  const mha::io::Contents layer = mha::io::open("data/quickstart.json");
  for (const std::string& name : matrices) {
    const mha::Tensor tensor = layer.find(name)->read();
    const std::size_t width = tensor.shape()[1];
    std::string text = "token";
    for (std::size_t i = 0; i < width; ++i) text += fmt::format(";column {}", i);
    for (std::size_t i = 0; i < tensor.count(); ++i) {
      if (i % width == 0) text += fmt::format("\nrow {}", i / width);
      std::string number = fmt::format("{}", value_at(tensor, i));
      std::ranges::replace(number, '.', ',');
      text += ";" + number;
    }
    sources.push_back(folder.write(name + ".csv", text + "\n"));
  }
  expect_equal(with({"diff"}, with(sources, {"--against", "data/quickstart.json"})), 0,
               "All stages match bit for bit");
  const Result shown = run(with({"show", "-s", "weights", "--head", "1"}, sources));
  CHECK_THAT(shown.out, Contains("'row 2'"));
  CHECK(shown.err.empty());
}
