// PyTorch's files and pickles against what PyTorch and NumPy themselves read: tests/data/pytorch,
// which its make.py wrote.

#include "support/places.hpp"
#include "unit/formats/support.hpp"
#include <mha/formats/pickle.hpp>

#include <catch2/catch.hpp>

#include <cstring>
#include <map>

using namespace mha;

namespace {

std::string in_pytorch(const std::string& name) {
  return (std::filesystem::path(mha::test::source_folder()) / "tests" / "data" / "pytorch" / name)
      .string();
}

/// The same names, shapes, types and bits; bfloat16 is expected as float32. NumPy's have an axis
/// more.
void require_expected(const io::Contents& found, const std::string& expectation) {
  const io::Contents expected = io::open(in_pytorch(expectation + ".expect.npz"));
  std::map<std::string, const io::Entry*> names;
  for (const io::Entry& entry : found.tensors) names[entry.name] = &entry;
  CHECK(names.size() == found.tensors.size());
  CHECK(names.size() == expected.tensors.size());
  for (const io::Entry& entry : expected.tensors) {
    INFO(entry.name);
    REQUIRE(names.contains(entry.name));
    const Tensor wanted = entry.read();
    Tensor tensor = names[entry.name]->read();
    CHECK(tensor.shape() == names[entry.name]->shape);
    CHECK(tensor.dtype() == names[entry.name]->dtype);
    if (tensor.dtype() == DType::bf16) tensor = convert(tensor, DType::f32);
    CHECK(tensor.dtype() == wanted.dtype());
    CHECK(Shape(wanted.shape().begin() + 1, wanted.shape().end()) == tensor.shape());
    REQUIRE(tensor.bytes() == wanted.bytes());
    CHECK(std::equal(tensor.raw(), tensor.raw() + tensor.bytes(), wanted.raw()));
  }
}

bool has_note(const io::Contents& contents, const std::string& part) {
  return std::any_of(contents.notes.begin(), contents.notes.end(), [&](const Message& note) {
    return note.in_words(Wording::program).find(part) != std::string::npos;
  });
}

/// The one line that refuses these bytes as a file of this name; "" if they are read.
std::string refusal(const std::string& bytes, const std::string& name = "file.pkl") {
  const io::test::Folder folder;
  const std::string path = folder.file(name, bytes);
  try {
    for (const io::Entry& entry : io::open(path).tensors) entry.read();
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(what.find('\n') == what.npos);
    return what;
  }
  return "";
}

std::string text(const std::string& word) { // SHORT_BINUNICODE
  return "\x8c" + std::string(1, static_cast<char>(word.size())) + word;
}
std::string called(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

} // namespace

TEST_CASE("PyTorch's files give what PyTorch reads: types, views, forms", "[io][pytorch]") {
  const std::pair<const char*, const char*> files[] = {
      {"views-zip.pt", "views"},
      {"views-old.pt", "views"},
      {"module-zip.pth", "module-zip"},
      {"module-old.pth", "module-old"},
      {"checkpoint-zip.pt", "checkpoint-zip"},
      {"checkpoint-old.pt", "checkpoint-old"},
      {"script.pt", "script"},
      {"shards", "shards"},
      {"arrays-0.pkl", "arrays"},
      {"arrays-2.pkl", "arrays"},
      {"arrays-4.pkl", "arrays"},
      {"arrays-5.pkl", "arrays"},
      {"beside-zip.pt", "beside"},
      {"beside-old.pt", "beside"},
      {"beside-0.pkl", "beside"},
      {"beside-1.pkl", "beside"},
      {"beside-2.pkl", "beside"},
      {"beside-3.pkl", "beside"},
      {"beside-4.pkl", "beside"},
      {"beside-5.pkl", "beside"},
      {"optimizers-zip.pt", "optimizers"},
      {"optimizers-old.pt", "optimizers"},
      {"empty-0.pkl", "empty"},
      {"empty-2.pkl", "empty"},
      {"frozen.pt", "frozen"},
  };
  for (const auto& [file, expectation] : files) {
    INFO(file);
    require_expected(io::open(in_pytorch(file)), expectation);
  }
}

TEST_CASE("a checkpoint's training run is set aside, and its configuration kept", "[io][pytorch]") {
  for (const char* file : {"checkpoint-zip.pt", "checkpoint-old.pt"}) {
    INFO(file);
    const io::Contents contents = io::open(in_pytorch(file));
    CHECK(contents.format == "pytorch");
    CHECK(contents.config.at("n_head") == "2");
    CHECK(contents.config.at("lr") == "0.1");
    CHECK(contents.config.at("betas") == "0.9,0.999");
    CHECK(contents.config.at("deep.width") == "6");
    CHECK(contents.config.at("name") == "tiny");
    CHECK(contents.scalars.empty());
    CHECK(has_note(contents, "set aside: epoch, best_loss"));
    CHECK(has_note(contents, "optimizer ("));
    CHECK(has_note(contents, "argparse.Namespace"));
    CHECK(has_note(contents, "Config"));
  }
  CHECK(io::open(in_pytorch("script.pt")).format == "torchscript");
}

TEST_CASE("pickled modules say their heads and epsilons", "[io][pytorch]") {
  for (const char* file : {"module-zip.pth", "module-old.pth"}) {
    INFO(file);
    const io::Contents contents = io::open(in_pytorch(file));
    CHECK(contents.config.at("layers.0.heads") == "2");
    CHECK(contents.config.at("layers.1.heads") == "2");
    CHECK(contents.config.at("norm.eps") == "1e-05");
  }
}

TEST_CASE("optimizers beside a model in parts are set aside by what they hold", "[io][pytorch]") {
  for (const char* file : {"optimizers-zip.pt", "optimizers-old.pt"})
    CHECK(has_note(io::open(in_pytorch(file)), "set aside: optim (1 tensor), last_state, whole.0"));
}

TEST_CASE("a pickled layer is the layer of the JSON that it was made of", "[io][pytorch]") {
  const io::Contents expected = io::open(
      (std::filesystem::path(mha::test::source_folder()) / "data/quickstart.json").string());
  for (const char* file : {"layer-zip.pt", "layer-old.pt", "layer-0.pkl", "layer-1.pkl",
                           "layer-2.pkl", "layer-3.pkl", "layer-4.pkl", "layer-5.pkl"}) {
    INFO(file);
    const io::Contents contents = io::open(in_pytorch(file));
    CHECK(contents.scalars == expected.scalars);
    CHECK(contents.labels == expected.labels);
    REQUIRE(contents.tensors.size() == expected.tensors.size());
    for (const io::Entry& entry : expected.tensors) {
      REQUIRE(contents.find(entry.name));
      CHECK(io::test::same(contents.find(entry.name)->read(), entry.read()));
    }
  }
}

TEST_CASE("pickles that would run code are refused by the name that they call", "[io][pytorch]") {
  const std::string system = called("os", "system"), shell = text("touch /tmp/mha-was-here");
  const std::string argument = "(" + shell + "t";
  const std::pair<std::string, const char*> pickles[] = {
      {"\x80\x02" + system + argument + "R.", "calls os.system"},
      {"\x80\x02}" + text("a") + system + argument + "Rs.", "calls os.system"},
      {"\x80\x04" + text("os") + text("system") + "\x93" + argument + "R.", "calls os.system"},
      {"\x80\x02]" + called("builtins", "eval") + argument + "Ra0N.", "calls builtins.eval"},
      {"\x80\x02" + called("__builtin__", "getattr") + "(" + called("os", "path") + text("x") +
           "tR.",
       "calls builtins.getattr"},
      {"\x80\x02" + called("collections", "OrderedDict") + "(" + system + argument + "RtR.",
       "calls os.system"},
      {"\x80\x02" + called("torch._utils", "_rebuild_tensor_v2") + "(" + system + argument + "RtR.",
       "calls os.system"},
      {"\x80\x02" + called("torch.storage", "_load_from_bytes") + "(C\1atR.",
       "calls torch.storage._load_from_bytes"},
      {"\x80\x02" + called("torch._utils", "_rebuild_qtensor") + ")R.", "quantised"},
      {"\x80\x02" + called("torch._utils", "_rebuild_sparse_tensor") + ")R.", "sparse"},
      {"\x80\x02" + called("enum", "Enum") + "(K\1tR.", "calls enum.Enum"},
      {"\x80\x02" + called("builtins", "bytes") + "(K\1tR.",
       "calls builtins.bytes with an argument"},
      {"\x80\x02)" + argument + "R.", "calls something that is not a name"},
      // What is set aside stays a value that nothing calls.
      {"\x80\x02" + called("functools", "partial") + "(" + system + shell + "tR)R.",
       "calls something that is not a name"},
      {"\x80\x02" + called("functools", "partial") + "(" + system + argument + "RtR.",
       "calls os.system"},
      {"\x80\x02" + called("torch._tensor", "_rebuild_from_type_v2") + "(" + system +
           called("torch", "Tensor") + argument + "}tR.",
       "calls os.system"},
      {"\x80\x02" + called("torch._tensor", "_rebuild_from_type_v2") + "(" +
           called("torch._tensor", "_rebuild_from_type_v2") + called("torch", "Tensor") + argument +
           "}tR.",
       "calls torch._tensor._rebuild_from_type_v2, and a pickle's calls are not carried out"},
      {"\x80\x02" + called("torch._tensor", "_rebuild_from_type_v2") + argument + "R.",
       "with other arguments than PyTorch"},
      {"\x80\x02" + called("torch._utils", "_rebuild_meta_tensor_no_storage") + ")R.",
       "of the device meta"},
      {"(S'a'\ncos\nsystem\n(S'b'\ntRs.", "calls os.system"},
  };
  for (const auto& [bytes, part] : pickles) {
    INFO(part);
    const std::string what = refusal(bytes);
    INFO(what);
    CHECK(what.find(part) != what.npos);
  }
  CHECK(!std::filesystem::exists("/tmp/mha-was-here"));
}

TEST_CASE("objects of other classes are attributes, and are not made", "[io][pytorch]") {
  const io::test::Folder folder;
  const std::string system = called("os", "system"), argument = "(" + text("x") + "t";
  for (const std::string& bytes :
       {"\x80\x02" + system + argument + "\x81.", "\x80\x02(" + system + text("x") + "o.",
        "(" + text("x") + "ios\nsystem\n.",
        "\x80\x02" + system + argument + "\x81}" + text("a") + "K\1sb."}) {
    const io::Contents contents = io::open(folder.file("object.pkl", bytes));
    CHECK(contents.tensors.empty());
    CHECK(has_note(contents, "os.system"));
  }
}

TEST_CASE("keys of a pickle's dicts that are no names are told, equal names are refused",
          "[io][pytorch]") {
  const auto with_keys = [](const std::string& first, const std::string& second) {
    const std::string array = called("numpy.core.numeric", "_frombuffer") + "(C\4" +
                              std::string("\0\0\x80\x3f", 4) + called("numpy", "dtype") +
                              text("f4") + "\x85RK\1\x85" + text("C") + "tR";
    return "\x80\x04}" + first + array + "s" + second + array + "s.";
  };
  const io::test::Folder folder;
  const std::string number = "K\1", tuple = "K\1K\2\x86", one = text("1");
  CHECK(refusal(with_keys(number, one)).find("tensor '1' appears twice") != std::string::npos);
  CHECK(io::open(folder.file("same.pkl", with_keys(one, one))).tensors.size() == 1);
  const io::Contents left = io::open(folder.file("left.pkl", with_keys(tuple, one)));
  CHECK(left.tensors.size() == 1);
  CHECK(has_note(left, "left out: 1 tensor under keys that are neither text nor whole numbers"));
}

TEST_CASE("pickles that ask for more than there is are refused at once", "[io][pytorch]") {
  // 60 lists, each of the one before it twice: 2^60 ways through it.
  std::string lists = "\x80\x02]q"; // memo 0
  lists += '\0';
  for (char i = 1; i < 60; ++i) {
    lists += "](h";
    lists += static_cast<char>(i - 1);
    lists += "h";
    lists += static_cast<char>(i - 1);
    lists += "eq";
    lists += i;
  }
  const std::pair<std::string, const char*> pickles[] = {
      {"\x80\x02"
       "B\xff\xff\xff\xff"
       "abc.",
       "cut short"},
      {std::string("\x80\x04\x8e\0\0\0\0\0\0\0\x80.", 12), "cut short"},
      {"\x80\x02]r\xff\xff\xff\xffj\xfe\xff\xff\xff.", "of the memo is not there"},
      {"\x80\x02" + std::string(100'000, '('), "cut short"},
      {"\x80\x02" + std::string(100'000, ']'), "cut short"},
      {"\x80\x02R.", "empty stack"},
      {"\x80\x09N.", "protocol 9"},
      {"\x80\x02(K\1u.", "empty stack"},
      {"\x80\x02}(K\1u.", "a key without a value"},
      {"\x80\x02\x8b\xff\xff\xff\xff.", "a negative length"},
      {"\x80\x02\x82\1.", "copyreg"},
      {"\x80\x02\xff.", "no operation of a pickle"},
      {"\x80\x02NN.", "values left on the stack"},
      {"\x80\x02N.NN", "bytes too many"},
  };
  for (const auto& [bytes, part] : pickles) {
    INFO(part);
    const std::string what = refusal(bytes);
    INFO(what);
    CHECK(what.find(part) != what.npos);
  }
  // Of the 60 lists on the stack the last one is the pickle's, the others go.
  const io::test::Folder folder;
  lists += std::string(60, '0') + "h\x3b.";
  CHECK(io::open(folder.file("ways.pkl", lists)).tensors.empty());
  // A list within a list, 100,000 deep, and one that holds itself.
  CHECK(io::open(folder.file("deep.pkl", "\x80\x02" + std::string(100'000, ']') +
                                             std::string(99'999, 'a') + "."))
            .tensors.empty());
  CHECK(io::open(folder.file("self.pkl", std::string("\x80\x02]q\0h\0a.", 9))).tensors.empty());
}
