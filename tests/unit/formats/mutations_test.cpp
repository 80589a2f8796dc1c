// Damaged files of every format, folders and the texts that name their parts, opened, assembled and
// computed: none crashes, and what is refused gets one line. The long run takes 20,000 of each, and
// also checks that none takes two seconds and that all together take no more memory than 64 MiB
// above what the whole input takes. It is not run by default: unit-tests '[.mutations]'.

#include "support/checkpoint.hpp"
#include "support/damage.hpp"
#include "support/files.hpp"
#include "support/sanitizers.hpp"
#include "unit/formats/support.hpp"
#include <mha/formats/formats.hpp>
#include <mha/formats/shard_file.hpp>
#include <mha/tokenizers/tokenizer.hpp>

#include <catch2/catch.hpp>

using namespace mha;

namespace {

using Texts = std::vector<std::string>;

/// What can be damaged: files of one folder, and texts of the command line.
struct Subject {
  std::string name;
  std::map<std::string, std::string> files; ///< bytes by name
  Texts texts;                              ///< what follows a file's name in a SOURCE
  /// What a command does with them.
  std::function<void(const io::test::Folder& folder, const Texts& texts)> use;
  bool renamed = false; ///< whether the names of the files mean something
};

/// A request of SOURCES with the folder in the place of "@/".
Request request_of(const io::test::Folder& folder, std::vector<std::string> sources) {
  Request request;
  for (std::string& source : sources) {
    const std::size_t at = source.find("@/");
    request.sources.push_back(
        at == std::string::npos ? source : source.substr(0, at) + (folder / source.substr(at + 2)));
  }
  return request;
}

/// A whole layer of one file.
void use_file(const io::test::Folder& folder, const Texts&) {
  compute_every_layer(request_of(folder, {"@/layer"}));
}

/// A file may also get another name, or go.
std::string damaged_name(const std::string& name, std::mt19937& random) {
  std::string other = damaged(name, random).substr(0, 100);
  for (char& c : other)
    if (c == '/' || c == '\0') c = '_';
  return other == "." || other == ".." ? "" : other;
}

void endure(const Subject& subject, Endurance endurance) {
  const io::test::Folder folder;
  for (const auto& [name, bytes] : subject.files) folder.file(name, bytes);
  std::vector<std::string> touched, names; // since the last use; of all files
  for (const auto& [name, bytes] : subject.files) names.push_back(name);
  require_endured(subject.name, endurance, [&](std::mt19937* random) {
    for (const std::string& name : touched) {
      std::filesystem::remove(folder / name);
      if (subject.files.count(name)) folder.file(name, subject.files.at(name));
    }
    touched.clear();
    Texts texts = subject.texts;
    for (auto left = !random ? 0 : (*random)() % 4 == 0 ? 2 : 1; left > 0; --left) {
      const std::size_t which = (*random)() % (names.size() + texts.size());
      if (which >= names.size()) {
        std::string& text = texts[which - names.size()];
        text = damaged(text, *random);
        continue;
      }
      std::string name = names[which];
      const std::string& bytes = subject.files.at(name);
      touched.push_back(name);
      std::filesystem::remove(folder / name); // a new file: one that is cut waits for the disk
      if (subject.renamed && (*random)() % 8 == 0) {
        name = damaged_name(name, *random);
        if (name.empty()) continue;
        touched.push_back(name);
        folder.file(name, bytes);
      } else {
        folder.file(name, damaged(bytes, *random));
      }
    }
    subject.use(folder, texts);
  });
}

/// A layer with weights, settings and labels in every format; as one array for .npy.
std::vector<Subject> formats_of_a_layer() {
  std::vector<Subject> list;
  list.push_back({"json",
                  {{"layer", io::test::contents_of(in_source("data/quickstart.json"))}},
                  {},
                  use_file});
  const io::Contents contents = io::open(in_source("data/quickstart.json"));
  io::Output output;
  for (const io::Entry& entry : contents.tensors)
    output.items.push_back({entry.name, entry.dtype, entry.shape});
  output.scalars = contents.scalars;
  output.labels = contents.labels;
  const io::test::Folder folder;
  for (const std::string format : {"npz", "safetensors", "folder"}) {
    const auto writer = io::create(folder / format, format, output);
    for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
      const Tensor tensor = contents.tensors[i].read();
      writer->write(i, 0, tensor.raw(), tensor.count());
    }
    writer->finish();
    if (format != "folder")
      list.push_back({format, {{"layer", io::test::contents_of(folder / format)}}, {}, use_file});
  }
  Subject arrays{"folder of .npy", {}, {}, nullptr, true};
  for (const auto& entry : std::filesystem::directory_iterator(folder / "folder"))
    arrays.files[entry.path().filename().string()] = io::test::contents_of(entry.path().string());
  arrays.use = [](const io::test::Folder& all, const Texts&) {
    compute_every_layer(request_of(all, {all.path()}));
  };
  list.push_back(arrays);

  io::test::write(folder / "X", "npy", {{"X", io::test::numbers(DType::f32, {3, 4})}});
  list.push_back({"npy", {{"layer", io::test::contents_of(folder / "X")}}, {}, use_file});

  // One tensor of an archive under another name, as a SOURCE gives it.
  Subject bound{"NAME=FILE:TENSOR@AXES",
                {{"layer.npz", list[1].files.at("layer")}},
                {":W_q@IO", ":X", ""},
                nullptr};
  bound.use = [](const io::test::Folder& all, const Texts& texts) {
    compute_every_layer(request_of(
        all, {"@/layer.npz" + texts[2], "W_q=@/layer.npz" + texts[0], "X=@/layer.npz" + texts[1]}));
  };
  list.push_back(bound);
  return list;
}

/// A layer in PyTorch's forms, and as pickles.
std::vector<Subject> pickles() {
  std::vector<Subject> list;
  for (const char* name :
       {"layer-zip.pt", "layer-old.pt", "layer-0.pkl", "layer-2.pkl", "layer-5.pkl", "beside-4.pkl",
        "checkpoint-zip.pt", "module-old.pth", "script.pt"}) {
    const std::string bytes = io::test::contents_of(in_source("tests/data/pytorch/") + name);
    Subject subject{name, {{name, bytes}}, {}, nullptr};
    subject.use = [name = std::string(name)](const io::test::Folder& folder, const Texts&) {
      compute_every_layer(request_of(folder, {"@/" + name}));
    };
    list.push_back(std::move(subject));
  }
  return list;
}

Subject raw_bytes() {
  const auto bytes = [](DType dtype, std::size_t count) {
    const Tensor tensor = io::test::numbers(dtype, {count});
    return std::string(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  };
  Subject raw{"raw bytes, DTYPE[SHAPE]@AXES",
              {{"q.bin", bytes(DType::f32, 24)},
               {"k.bin", bytes(DType::bf16, 40)},
               {"v.bin", bytes(DType::f64, 50)}},
              {":f32[2,3,4]@HTD", ":bf16[5,2,4]@SHD", ":f64[5,10]@SC"},
              nullptr};
  raw.use = [](const io::test::Folder& folder, const Texts& texts) {
    compute_every_layer(request_of(
        folder, {"q=@/q.bin" + texts[0], "k=@/k.bin" + texts[1], "v=@/v.bin" + texts[2]}));
  };
  return raw;
}

/// A model of one layer with every type of blocks, a tokenizer and X beside it.
Subject gguf() {
  const io::test::Folder folder;
  io::test::write(folder / "X.npy", "npy", {{"X", io::test::numbers(DType::f32, {3, 32})}});
  Subject subject{"gguf",
                  {{"model.gguf", io::test::contents_of(in_source("tests/data/fuzz/tiny.gguf"))},
                   {"X.npy", io::test::contents_of(folder / "X.npy")}},
                  {},
                  nullptr};
  subject.use = [](const io::test::Folder& all, const Texts&) {
    for (const io::Entry& entry : io::open(all / "model.gguf").tensors) {
      const Tensor tensor = entry.read();
      CHECK(tensor.shape() == entry.shape);
      CHECK(tensor.dtype() == entry.dtype);
    }
    if (tokenizers::has_tokenizer(all / "model.gguf"))
      tokenizers::load_tokenizer(all / "model.gguf").encode("! \"#");
    compute_every_layer(request_of(all, {"@/model.gguf", "X=@/X.npy"}));
  };
  return subject;
}

/// Graphs with a layer each: spelt out, as an operator, in a function, in the body of a Loop.
std::vector<Subject> graphs() {
  const io::test::Folder folder;
  io::test::write(folder / "X.npy", "npy", {{"X", io::test::numbers(DType::f32, {3, 20})}});
  std::vector<Subject> list;
  for (const char* name : {"tiny", "onnx-ms-grouped", "onnx-fused-causal", "onnx-function",
                           "onnx-loop", "onnx-turned-weights"}) {
    Subject subject{name,
                    {{"model.onnx", io::test::contents_of(
                                        in_source(fmt::format("tests/data/fuzz/{}.onnx", name)))},
                     {"X.npy", io::test::contents_of(folder / "X.npy")}},
                    {},
                    nullptr};
    subject.use = [](const io::test::Folder& all, const Texts&) {
      for (const io::Entry& entry : io::open(all / "model.onnx").tensors) {
        const Tensor tensor = entry.read();
        CHECK(tensor.shape() == entry.shape);
        CHECK(tensor.dtype() == entry.dtype);
      }
      compute_every_layer(request_of(all, {"@/model.onnx", "X=@/X.npy"}));
    };
    list.push_back(std::move(subject));
  }
  return list;
}

/// Labels as lines, as JSON, and as a NumPy array of text.
std::vector<Subject> labels() {
  const std::string layer = io::test::contents_of(in_source("data/quickstart.json"));
  std::string header = "{'descr': '<U3', 'fortran_order': False, 'shape': (3,), }\n";
  std::string array = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0';
  array += header;
  for (const char c : std::string("thecatsat")) array += c + std::string(3, '\0');
  std::vector<Subject> list;
  for (const auto& [name, bytes] :
       std::map<std::string, std::string>{{"tokens.txt", "the\ncat\nsat\n"},
                                          {"tokens.json", R"(["the", "c\u00e4t", "\ud83d\ude00"])"},
                                          {"tokens.npy", array}}) {
    Subject subject{"labels: " + name, {{name, bytes}}, {}, nullptr};
    subject.use = [name = name](const io::test::Folder& folder, const Texts&) {
      Request request;
      request.sources = {in_source("data/quickstart.json")};
      request.tokens = folder / name;
      compute_every_layer(std::move(request));
    };
    list.push_back(subject);
  }
  return list;
}

/// Two parts of a dump in one format, to be joined.
Subject parts(const std::string& format) {
  const io::test::Folder folder;
  io::Output whole;
  whole.items = {{"q", DType::f32, {2, 3, 4}}, {"output", DType::f32, {3, 4}}};
  const Tensor values = io::test::numbers(DType::f32, {24});
  Subject subject{"parts of a dump, " + format, {}, {}, nullptr, true};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = fmt::format("part-{}.{}", i + 1, format);
    const auto writer = io::create_shard(
        folder / name, "", whole,
        {{{i * 6, 6}, {12 + i * 6, 6}}, {{i == 0 ? 0u : 4u, i == 0 ? 4u : 8u}}}, {"a run", i, 2});
    writer->write(0, i * 6, values.raw(), 6), writer->write(0, 12 + i * 6, values.raw(), 6);
    writer->write(1, i == 0 ? 0 : 4, values.raw(), i == 0 ? 4 : 8);
    writer->finish();
    subject.files[name] = io::test::contents_of(folder / name);
  }
  subject.use = [](const io::test::Folder& all, const Texts&) {
    std::vector<io::Contents> files;
    for (const auto& entry : std::filesystem::directory_iterator(all.path()))
      files.push_back(io::open(entry.path().string()));
    const io::test::Folder out;
    try {
      io::join_shards(files, out / "whole.npz", "");
    } catch (const Error&) {
      CHECK(out.size() == 0); // nothing half-made
      throw;
    }
  };
  return subject;
}

/// What a checkpoint folder holds, and X beside it.
std::map<std::string, std::string> files_of(Checkpoint& checkpoint, const CanonicalLayer& layer) {
  checkpoint.write();
  io::test::write(checkpoint.path() + "/X.npy", "npy", {{"X", layer["X"]}});
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint.path()))
    files[entry.path().filename().string()] = io::test::contents_of(entry.path().string());
  return files;
}

std::vector<Subject> checkpoints() {
  const auto use = [](const io::test::Folder& folder, const Texts&) {
    Request request = request_of(folder, {folder.path(), "X=@/X.npy"});
    request.layer = "all";
    compute_every_layer(std::move(request));
  };
  const LayerSizes grouped{.T = 5, .d_model = 10, .H = 6, .H_kv = 2, .d = 4};
  const CanonicalLayer layer(grouped, "");
  const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "o_proj"};
  const std::string config =
      R"({"model_type": "llama", "num_attention_heads": 6, "num_key_value_heads": 2,
          "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}})";
  Checkpoint whole(config), first(config), second;
  const std::string layers[] = {"model.layers.0.self_attn.", "model.layers.1.self_attn."};
  for (const std::string& prefix : layers) whole.linears(prefix, projections, layer);
  first.linears(layers[0], projections, layer), second.linears(layers[1], projections, layer);

  std::vector<Subject> list;
  list.push_back({"checkpoint", files_of(whole, layer), {}, use, true});

  Subject shards{"checkpoint in shards", files_of(first, layer), {}, use, true};
  const std::string names[] = {"model-1.safetensors", "model-2.safetensors"};
  shards.files[names[0]] = shards.files.extract("model.safetensors").mapped();
  shards.files[names[1]] = files_of(second, layer).at("model.safetensors");
  std::string map;
  for (std::size_t i = 0; i < 2; ++i)
    for (const std::string& module : projections)
      map += fmt::format("{}\"{}{}.weight\": \"{}\"", map.empty() ? "" : ", ", layers[i], module,
                         names[i]);
  shards.files["model.safetensors.index.json"] =
      fmt::format(R"({{"metadata": {{"total_size": 7040}}, "weight_map": {{{}}}}})", map);
  list.push_back(shards);

  // GPT-2's names, the file and its config.json each named by itself.
  const CanonicalLayer causal;
  Checkpoint gpt2(R"({"model_type": "gpt2", "n_head": 3, "scale_attn_weights": true,
                      "scale_attn_by_inverse_layer_idx": true})");
  for (const std::string prefix : {"h.0.attn.", "h.1.attn."}) {
    gpt2.add(prefix + "c_attn.weight",
             transposed(stacked({transposed(causal["W_q"]), transposed(causal["W_k"]),
                                 transposed(causal["W_v"])})));
    gpt2.add(prefix + "c_attn.bias", stacked({causal["b_q"], causal["b_k"], causal["b_v"]}));
    gpt2.add(prefix + "c_proj.weight", causal["W_o"]).add(prefix + "c_proj.bias", causal["b_o"]);
    gpt2.add(prefix + "bias", Tensor(DType::u8, {1, 1, 8, 8}));
  }
  Subject named{"GPT-2's h.N, --config", files_of(gpt2, causal), {}, nullptr};
  named.use = [](const io::test::Folder& folder, const Texts&) {
    Request request = request_of(folder, {"@/model.safetensors", "X=@/X.npy"});
    request.layer = "all";
    request.config = folder / "config.json";
    compute_every_layer(std::move(request));
  };
  list.push_back(named);
  return list;
}

std::vector<Subject> subjects() {
  std::vector<Subject> list = formats_of_a_layer();
  list.push_back(raw_bytes());
  for (Subject& subject : pickles()) list.push_back(std::move(subject));
  list.push_back(gguf());
  for (Subject& subject : graphs()) list.push_back(std::move(subject));
  for (Subject& subject : labels()) list.push_back(std::move(subject));
  for (const char* format : {"npz", "safetensors"}) list.push_back(parts(format));
  for (Subject& subject : checkpoints()) list.push_back(std::move(subject));
  return list;
}

} // namespace

TEST_CASE("damaged files of every format are read or refused in one line", "[io]") {
  for (const Subject& subject : subjects()) endure(subject, {sanitized ? 40 : 200});
}

TEST_CASE("20,000 damaged files of every format cost no time and no memory", "[io][.mutations]") {
  for (const Subject& subject : subjects()) endure(subject, {20'000, !sanitized});
}
