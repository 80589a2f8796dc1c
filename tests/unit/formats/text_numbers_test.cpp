// Numbers in text files: each way in which programs print an array gives the array, and says how.

#include "unit/formats/support.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

using namespace mha;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

/// A text, and the array that it is.
struct Printed {
  std::string what, extension, text;
  Shape shape;
  std::vector<double> numbers; ///< "": 0.25, 1.25, 2.25 …
  std::string note = "read as";
};

std::vector<double> counting(std::size_t count) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = 0.25 + static_cast<double>(i);
  return numbers;
}

io::Contents contents_of(const io::test::Folder& folder, const Printed& printed) {
  return io::open(folder.file("array" + printed.extension, printed.text));
}

void check(const Printed& printed) {
  INFO(printed.what);
  const io::test::Folder folder;
  const io::Contents contents = contents_of(folder, printed);
  REQUIRE(contents.tensors.size() == 1);
  const io::Entry& entry = contents.tensors[0];
  const Tensor tensor = entry.read();
  CHECK(entry.name == "array");
  CHECK(entry.shape == printed.shape);
  REQUIRE(tensor.shape() == printed.shape);
  const std::vector<double> expected =
      printed.numbers.empty() ? counting(tensor.count()) : printed.numbers;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    INFO(i);
    const double value = value_at(tensor, i);
    CHECK((value == expected[i] || (std::isnan(value) && std::isnan(expected[i]))));
  }
  REQUIRE_FALSE(contents.notes.empty());
  CHECK_THAT(contents.notes[0].in_words(Wording::program), Contains(printed.note));
}

std::vector<std::string> labels_in(const io::Contents& contents, std::string_view name) {
  for (const auto& [own, labels] : contents.labels)
    if (own == name) return labels;
  return {};
}

/// Lines of numbers.
std::vector<Printed> rows() {
  const Shape two_by_three{2, 3};
  return {
      {"CSV", ".csv", "0.25,1.25,2.25\n3.25,4.25,5.25\n", two_by_three, {}, "between ','"},
      {"CSV with blanks", ".csv", "0.25, 1.25, 2.25\r\n3.25, 4.25, 5.25", two_by_three, {}, "','"},
      {"a comma ends each line", ".csv", "0.25,1.25,2.25,\n3.25,4.25,5.25,\n", two_by_three, {}},
      {"semicolons", ".csv", "0.25;1.25;2.25\n3.25;4.25;5.25\n", two_by_three, {}, "';'"},
      {"decimal commas",
       ".csv",
       "0,25;1,25;2,25\n3,25;4,25;5,25\n",
       two_by_three,
       {},
       "decimal commas"},
      {"decimal commas between blanks",
       ".txt",
       "0,25 1,25 2,25\n3,25 4,25 5,25\n",
       two_by_three,
       {},
       "decimal commas"},
      {"decimal commas between tabs",
       ".tsv",
       "0,25\t1,25\t2,25\n3,25\t4,25\t5,25\n",
       two_by_three,
       {},
       "decimal commas"},
      {"TSV", ".tsv", "0.25\t1.25\t2.25\n3.25\t4.25\t5.25\n", two_by_three, {}, "between tabs"},
      {"numpy.savetxt",
       ".txt",
       "# a header\n2.500000000000000000e-01 1.250000000000000000e+00 2.25e+00\n"
       "3.250000000000000000e+00 4.250000000000000000e+00 5.25e+00\n",
       two_by_three,
       {},
       "between blanks"},
      {"unaligned blanks", "", "  0.25 1.25\t 2.25\n 3.25  4.25 5.25 \n\n\n", two_by_three, {}},
      {"a header of tokens",
       ".csv",
       "the,cat,sat\n0.25,1.25,2.25\n3.25,4.25,5.25\n",
       two_by_three,
       {},
       "after a header"},
      {"labels",
       ".csv",
       "the,0.25,1.25,2.25\ncat,3.25,4.25,5.25\n",
       two_by_three,
       {},
       "after labels"},
      {"both, with a corner",
       ".csv",
       ",a,b,c\nthe,0.25,1.25,2.25\ncat,3.25,4.25,5.25\n",
       two_by_three,
       {},
       "after a header, after labels"},
      {"a data frame of numbers",
       ".csv",
       ",0,1,2\n0,0.25,1.25,2.25\n1,3.25,4.25,5.25\n",
       two_by_three,
       {},
       "after a header, after labels"},
      {"R's write.table",
       ".txt",
       "\"a\" \"b\" \"c\"\n\"1\" 0.25 1.25 2.25\n\"2\" 3.25 4.25 5.25\n",
       two_by_three,
       {},
       "after a header, after labels"},
      {"a byte order mark",
       ".csv",
       "\xef\xbb\xbf"
       "0.25,1.25,2.25\n3.25,4.25,5.25\n",
       two_by_three,
       {}},
      {"matrices between empty lines",
       ".csv",
       "0.25,1.25\n2.25,3.25\n4.25,5.25\n\n6.25,7.25\n8.25,"
       "9.25\n10.25,11.25\n",
       {2, 3, 2},
       {},
       "2 matrices"},
      {"empty lines of a spreadsheet",
       ".csv",
       "0.25,1.25,2.25\n3.25,4.25,5.25\n,,\n,,\n",
       two_by_three,
       {}},
      {"a column", ".csv", "0.25\n1.25\n2.25\n", {3, 1}, {}},
      {"a column with decimal commas",
       ".csv",
       "0,25\n1,025\n2,25\n",
       {3, 1},
       {0.25, 1.025, 2.25},
       "decimal commas"},
      {"a column with whole numbers",
       ".csv",
       "0,05\n1\n2,25\n",
       {3, 1},
       {0.05, 1, 2.25},
       "decimal commas"},
      {"a named column with decimal commas",
       ".csv",
       "w\n0,25\n1,25\n",
       {2, 1},
       {},
       "decimal commas"},
      {"two named columns", ".csv", "a,b\n0,25\n1,25\n", {2, 2}, {0, 25, 1, 25}},
      {"two whole columns with blanks", ".csv", "0, 25\n1, 25\n", {2, 2}, {0, 25, 1, 25}},
      {"negative whole columns", ".csv", "0,-2\n1,25\n", {2, 2}, {0, -2, 1, 25}},
      {"a line", ".csv", "464,2068\n", {1, 2}, {464, 2068}},
      {"words of numbers",
       ".csv",
       "nan,-inf,Infinity\n+1.5,.5,1.\n1e3,2E-3,1d2\n",
       {3, 3},
       {not_a_number, -inf, inf, 1.5, 0.5, 1, 1000, 0.002, 100}},
      {"truth", ".csv", "TRUE,FALSE\nTRUE,TRUE\n", {2, 2}, {1, 0, 1, 1}},
      {"below float64", ".csv", "1e-400,-1e-400,1\n", {1, 3}, {0, 0, 1}},
  };
}

/// Prints of programs.
std::vector<Printed> prints() {
  const Shape two_by_three{2, 3};
  return {
      {"NumPy",
       ".txt",
       "[[0.25 1.25 2.25]\n [3.25 4.25 5.25]]\n",
       two_by_three,
       {},
       "printed rows"},
      {"NumPy's repr",
       ".txt",
       "array([[0.25, 1.25, 2.25],\n       [3.25, 4.25, 5.25]], dtype=float32)\n",
       two_by_three,
       {}},
      {"NumPy, three axes and long rows",
       ".txt",
       "[[[ 0.25\n    1.25]\n  [ 2.25  3.25]\n  [ 4.25  5.25]]\n\n [[ 6.25  7.25]\n  [ 8.25 9.25]\n"
       "  [10.25 11.25]]]",
       {2, 3, 2},
       {}},
      {"NumPy, whole floats", "", "[[0. 1.]\n [2. 3.]]\n", {2, 2}, {0, 1, 2, 3}},
      {"PyTorch",
       ".txt",
       "tensor([[0.2500, 1.2500, 2.2500],\n        [3.2500, 4.2500, 5.2500]], device='cuda:0',\n"
       "       grad_fn=<SoftmaxBackward0>)\n",
       two_by_three,
       {},
       "with 4 decimals"},
      {"PyTorch's powers of ten",
       ".txt",
       "tensor([[2.5000e-01, 1.2500e+00, 2.2500e+00],\n        [3.2500e+00, 4.2500e+00, "
       "5.2500e+00]])",
       two_by_three,
       {},
       "with 5 digits"},
      {"PyTorch's parameter",
       "",
       "Parameter containing:\ntensor([[0.2500, 1.2500],\n        [2.2500, 3.2500]], "
       "requires_grad=True)\n",
       {2, 2},
       {}},
      {"PyTorch from a terminal",
       ".txt",
       ">>> w\ntensor([0.2500, 1.2500, 2.2500])\n>>> \n",
       {3},
       {}},
      {"PyTorch's infinity",
       ".txt",
       "tensor([[0., -inf],\n        [0., nan]])",
       {2, 2},
       {0, -inf, 0, not_a_number}},
      {"JAX",
       ".txt",
       "Array([[0.25, 1.25, 2.25],\n       [3.25, 4.25, 5.25]], dtype=float32)",
       two_by_three,
       {}},
      {"TensorFlow",
       ".txt",
       "tf.Tensor(\n[[0.25 1.25 2.25]\n [3.25 4.25 5.25]], shape=(2, 3), dtype=float32)\n",
       two_by_three,
       {}},
      {"TensorFlow's repr",
       ".txt",
       "<tf.Tensor: shape=(2, 3), dtype=float32, numpy=\narray([[0.25, 1.25, 2.25],\n       [3.25, "
       "4.25, 5.25]], dtype=float32)>\n",
       two_by_three,
       {}},
      {"Paddle",
       ".txt",
       "Tensor(shape=[2, 3], dtype=float32, place=Place(cpu), stop_gradient=True,\n       [[0.25, "
       "1.25, 2.25],\n        [3.25, 4.25, 5.25]])",
       two_by_three,
       {}},
      {"a notebook", ".txt", "Out[3]: \narray([[0.25, 1.25],\n       [2.25, 3.25]])", {2, 2}, {}},
      {"truth", ".txt", "[[ True False]\n [False  True]]", {2, 2}, {1, 0, 0, 1}},
      {"MATLAB and Julia in a line", ".txt", "[0.25 1.25 2.25; 3.25 4.25 5.25]", two_by_three, {}},
      {"Julia with a type", ".txt", "Float32[0.25 1.25; 2.25 3.25]", {2, 2}, {}},
      {"JSON's list", ".txt", "[[0.25, 1.25], [2.25, 3.25]]", {2, 2}, {}},
      {"Julia",
       ".txt",
       "2×3 Matrix{Float64}:\n 0.25  1.25  2.25\n 3.25  4.25  5.25\n",
       two_by_three,
       {},
       "displayed rows"},
      {"Julia's vector", ".txt", "3-element Vector{Float32}:\n 0.25\n 1.25\n 2.25\n", {3, 1}, {}},
      {"Julia's pages",
       ".txt",
       "2×2×2 Array{Float64, 3}:\n[:, :, 1] =\n 0.25  2.25\n 4.25  6.25\n\n[:, :, 2] =\n 1.25  "
       "3.25\n"
       " 5.25  7.25\n",
       {2, 2, 2},
       {},
       "pages"},
      {"MATLAB",
       ".txt",
       ">> array\n\narray =\n\n    0.2500    1.2500    2.2500\n    3.2500    4.2500  "
       "  5.2500\n\n",
       two_by_three,
       {},
       "with 4 decimals"},
      {"MATLAB's factor",
       ".txt",
       "array =\n\n   1.0e+03 *\n\n    0.0010    1.2500\n    0.5000         "
       "0\n\n",
       {2, 2},
       {1, 1250, 500, 0},
       "times 1000"},
      {"MATLAB's columns",
       ".txt",
       "array =\n\n  Columns 1 through 2\n\n    0.2500    1.2500\n    3.2500    4.2500\n\n  Column "
       "3\n\n "
       "   2.2500\n    5.2500\n\n",
       two_by_three,
       {}},
      {"MATLAB's pages",
       ".txt",
       "array(:,:,1) =\n\n    0.2500    2.2500\n    4.2500    6.2500\n\narray(:,:,2) =\n\n    "
       "1.2500    "
       "3.2500\n    5.2500    7.2500\n",
       {2, 2, 2},
       {}},
      {"Octave",
       ".txt",
       "array =\n\n Columns 1 and 2:\n\n   0.2500   1.2500\n   3.2500   4.2500\n\n Column 3:\n\n   "
       "2.2500\n   5.2500\n\n",
       two_by_three,
       {}},
      {"R",
       ".txt",
       "     [,1] [,2] [,3]\n[1,] 0.25 1.25 2.25\n[2,] 3.25 4.25 5.25\n",
       two_by_three,
       {}},
  };
}

} // namespace

TEST_CASE("lines of numbers are read with any separator", "[io][text]") {
  for (const Printed& printed : rows()) check(printed);
}

TEST_CASE("prints of arrays are read", "[io][text]") {
  for (const Printed& printed : prints()) check(printed);
}

TEST_CASE("a text with any byte changed or cut is read as announced, or refused", "[io][text]") {
  std::size_t read = 0, refused = 0;
  const auto take = [&](const std::string& text) {
    const std::shared_ptr<std::byte[]> data(new std::byte[text.size()]); // no byte more
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), data.get());
    try {
      for (const io::Entry& entry :
           io::format_named("text").read({"file.txt", {data, data.get()}, text.size()}).tensors)
        if (const Tensor tensor = entry.read();
            tensor.shape() != entry.shape || tensor.dtype() != entry.dtype)
          FAIL("not as announced");
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  };
  const std::vector<Printed> others{
      {"long CSV",
       "",
       "layer,stage,batch,head,row,col,value,row_token,col_token\n"
       "0,weights,0,0,0,0,0.5,a,a\n0,weights,0,0,1,0,0.5,b,a\n"
       "0,weights,1,0,0,0,0.5,a,a\n",
       {},
       {}},
      {"NDJSON",
       "",
       "{\"layer\":0,\"stage\":\"weights\",\"head\":0,\"row\":0,\"row_token\":"
       "\"a\",\"values\":[0.5,\"NaN\"]}\n",
       {},
       {}},
      {"eval-callback",
       "",
       "ggml_debug: q-0 = (f32) MUL_MAT(a{8, 1, 1, 1}, }) = {8, 1, 1, 1}\n"
       "[\n [\n  [ 0.1, 0.2, 0.3, ..., 0.4, 0.5, 0.6],\n ],\n]\nsum = 1.0\n",
       {},
       {}}};
  for (const auto& printed : {rows(), prints(), others})
    for (const Printed& one : printed)
      for (std::size_t at = 0; at < one.text.size(); ++at) {
        take(one.text.substr(0, at));
        for (const char other : std::string_view("\0\n,;[].-9x\"=:", 13)) {
          std::string changed = one.text;
          changed[at] = other;
          take(changed);
        }
      }
  CHECK(read > 10000);
  CHECK(refused > 10000);
}

TEST_CASE("several arrays of one print keep their names", "[io][text]") {
  const io::test::Folder folder;
  const auto names_in = [&](const std::string& text) {
    std::string names;
    for (const io::Entry& entry : io::open(folder.file("all.txt", text)).tensors)
      names += entry.name + to_string(entry.shape) + " ";
    return names;
  };
  CHECK(names_in("W_q = tensor([[0.5, 1.]])\nb_q = tensor([0.5])\n") == "W_q(1, 2) b_q(1,) ");
  CHECK(names_in("{'q': array([0.5, 1.]), 'k': array([[0.5]])}") == "q(2,) k(1, 1) ");
  CHECK(names_in("(tensor([[0.5, 1.]], grad_fn=<A>), tensor([[0.5]], grad_fn=<B>))") ==
        "0(1, 2) 1(1, 1) ");
  CHECK(names_in("W =\n\n  0.5  1.5\n\nb =\n\n  0.5\n") == "W(1, 2) b(1, 1) ");
}

TEST_CASE("labels of text files are those of tokens and columns", "[io][text]") {
  const io::test::Folder folder;
  const auto labels = [&](const std::string& text, std::string_view name) {
    return labels_in(io::open(folder.file("w.csv", text)), name);
  };
  using Texts = std::vector<std::string>;
  const std::string both = ",the, cat\n\"a,\"\"b\",0.5,1.5\n sat,2.5,3.5\n";
  CHECK(labels(both, "tokens") == Texts{"a,\"b", " sat"});
  CHECK(labels(both, "column_names") == Texts{"the", " cat"});
  CHECK(labels("the,cat\n0.5,1.5\n2.5,3.5\n", "tokens") == Texts{"the", "cat"});
  CHECK(labels("x,y,z\n0.5,1.5,2.5\n2.5,3.5,4.5\n", "tokens").empty());
  CHECK(labels(",0,1\n0,0.5,1.5\n1,2.5,3.5\n", "tokens").empty());
  CHECK(labels("the\ncat\nsat\n", "w") == Texts{"the", "cat", "sat"});
  CHECK(labels("the,cat,sat\n", "w") == Texts{"the", "cat", "sat"});
}

TEST_CASE("printed digits give the error of numbers, and exact ones none", "[io][text]") {
  const io::test::Folder folder;
  const auto resolution = [&](const std::string& text) {
    const io::Entry entry = io::open(folder.file("w.txt", text)).tensors.at(0);
    return entry.steps ? value_at(entry.steps(), 0) / 2 : 0;
  };
  CHECK(resolution("tensor([0.1234, 0.5000])") == Approx(0.5e-4));
  CHECK(resolution("tensor([1.2340e-05, 5.0000e-01])") == Approx(0.5e-5));
  CHECK(resolution("w =\n\n   1.0e+03 *\n\n   0.0010   1.2346\n") == Approx(0.05));
  CHECK(resolution("0.125 0.5 0.25\n") == 0);
  CHECK(resolution("tensor([0.1234])") == Approx(0.5e-4));
  CHECK(resolution("0.1234 0.12345\n") == 0);
  CHECK(resolution("1 2 3\n") == 0);
  CHECK(resolution("1.000000000000000000e+00 1.250000000000000000e+00\n") == 0);
}

TEST_CASE("token numbers are a line a text, or a column", "[io][text]") {
  const io::test::Folder folder;
  const auto ids = [&](const std::string& text) {
    return io::open(folder.file("ids.txt", text), {.token_lines = true});
  };
  CHECK(ids("464,2068").find("ids")->shape == Shape{2});
  CHECK(ids("464, 2068,\n").find("ids")->shape == Shape{2});
  CHECK(ids("464\n2068\n7\n").find("ids")->shape == Shape{3});
  CHECK(ids("464\n2068\n").find("lengths") == nullptr);
  CHECK(ids("[464, 2068, 7]").find("ids")->shape == Shape{3});
  const io::Contents ragged = ids("1 2 3\n4\n5 6\n");
  const Tensor numbers = ragged.find("ids")->read(), lengths = ragged.find("lengths")->read();
  CHECK(values_in_double(numbers) == std::vector<double>{1, 2, 3, 4, 0, 0, 5, 6, 0});
  CHECK(values_in_double(lengths) == std::vector<double>{3, 1, 2});
}

TEST_CASE("bytes that are no text are none, and JSON stays JSON", "[io][text]") {
  const auto format = [](const std::string& text) {
    const io::test::Folder folder;
    return io::open(folder.file("file", text)).format;
  };
  CHECK(format("[[1, 2], [3, 4]]") == "json");
  CHECK(format("{\"X\": [[1.5, 2]]}") == "json");
  CHECK(format("[[1.5 2.5]\n [3. 4.]]") == "text");
  CHECK(format("[1. 2.]") == "text");
  CHECK(format("0.5,1.5\n") == "text");
  CHECK(format("the,cat\n0.5,1.5\n") == "text");
  CHECK(format("W =\n\n   0.5 1.5\n") == "text");
  CHECK(format("W = tensor([[0.5, 1.5]])") == "text");
  CHECK_THROWS_WITH(format("To be, or not to be\nThat is\n"), Contains("unsupported file format"));
  CHECK_THROWS_WITH(format(std::string("0.5\0,1.5\n", 9)), Contains("unsupported file format"));
  CHECK_THROWS_WITH(format("a binary \x01 file"), Contains("unsupported file format"));
}
