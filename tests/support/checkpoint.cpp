#include "support/checkpoint.hpp"

#include "support/compare.hpp"
#include <mha/formats/formats.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

using namespace mha;

namespace {

Tensor random_tensor(Shape shape) {
  static std::mt19937 bits(20240229);
  Tensor tensor(DType::f32, std::move(shape));
  for (float& x : tensor.as_mutable<float>())
    x = static_cast<float>(bits()) / 2147483648.0f - 1.0f; // −1 … 1
  return tensor;
}

void write_file(const std::string& path, const std::string& format,
                const std::vector<std::pair<std::string, Tensor>>& tensors) {
  io::Output output;
  for (const auto& [name, tensor] : tensors)
    output.items.push_back({name, tensor.dtype(), tensor.shape()});
  const auto writer = io::create(path, format, output);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    writer->write(i, 0, tensors[i].second.raw(), tensors[i].second.count());
  writer->finish();
}

} // namespace

CanonicalLayer::CanonicalLayer(LayerSizes given, const std::string& biases) : sizes(given) {
  const LayerSizes& s = sizes;
  add("X", {s.T, s.d_model});
  if (s.S > 0) add("X_kv", {s.S, s.d_model});
  add("W_q", {s.d_model, s.H * s.d}), add("W_k", {s.d_model, s.H_kv * s.d});
  add("W_v", {s.d_model, s.H_kv * s.d}), add("W_o", {s.H * s.d, s.d_model});
  for (char letter : biases)
    add(std::string("b_") + letter,
        {letter == 'o' ? s.d_model : (letter == 'q' ? s.H : s.H_kv) * s.d});
  set("num_heads", std::to_string(s.H)), set("num_kv_heads", std::to_string(s.H_kv));
}

CanonicalLayer& CanonicalLayer::add(const std::string& name, Shape shape) {
  tensors[name] = random_tensor(std::move(shape));
  return *this;
}

CanonicalLayer& CanonicalLayer::set(const std::string& setting, const std::string& value) {
  settings_.emplace_back(setting, value);
  return *this;
}

CanonicalLayer& CanonicalLayer::round_to_bf16() {
  for (auto& [name, tensor] : tensors)
    if (name[0] != 'X') tensor = convert(convert(tensor, DType::bf16), DType::f32);
  return *this;
}

Layer CanonicalLayer::layer() const {
  NamedTensors parts;
  for (const auto& [name, tensor] : tensors) parts[name] = {tensor, "canonical: " + name};
  Settings settings;
  for (const auto& [name, value] : settings_) mha::set(settings, name, value, "test");
  if (settings.columns) // the weights of these tests are made for rows
    for (auto& [name, part] : parts) part.rows = name[0] != 'X';
  return make_layer(std::move(parts), std::move(settings));
}

Tensor head_rows(const Tensor& W, std::size_t d, const std::vector<std::size_t>& heads) {
  const std::size_t in = W.rank() == 1 ? 1 : W.shape()[0], out = W.shape().back();
  Tensor rows(DType::f32, {heads.size() * d, in});
  for (std::size_t h = 0; h < heads.size(); ++h)
    for (std::size_t j = 0; j < d; ++j)
      for (std::size_t i = 0; i < in; ++i)
        rows.as_mutable<float>()[(h * d + j) * in + i] = W.as<float>()[i * out + heads[h] * d + j];
  return rows;
}

Tensor stacked(const std::vector<Tensor>& matrices) {
  Shape shape = matrices[0].shape();
  shape[0] = 0;
  for (const Tensor& matrix : matrices) shape[0] += matrix.shape()[0];
  Tensor all(matrices[0].dtype(), shape);
  std::size_t at = 0;
  for (const Tensor& matrix : matrices) {
    std::memcpy(all.raw_mutable() + at, matrix.raw(), matrix.bytes());
    at += matrix.bytes();
  }
  return all;
}

Checkpoint::Checkpoint(std::string config) : config_(std::move(config)) {
  static int count = 0;
  path_ = (std::filesystem::temp_directory_path() /
           fmt::format("mha-checkpoint-{}-{}", getpid(), count++))
              .string();
  std::filesystem::create_directory(path_);
}
Checkpoint::~Checkpoint() {
  std::filesystem::remove_all(path_);
}

Checkpoint& Checkpoint::add(const std::string& name, const Tensor& tensor) {
  tensors_.emplace_back(name, tensor);
  return *this;
}

Checkpoint& Checkpoint::linear(const std::string& module, const CanonicalLayer& layer,
                               const std::string& letter) {
  add(module + ".weight", transposed(layer["W_" + letter]));
  if (layer.has("b_" + letter)) add(module + ".bias", layer["b_" + letter]);
  return *this;
}

Checkpoint& Checkpoint::linears(const std::string& prefix, const std::vector<std::string>& modules,
                                const CanonicalLayer& layer) {
  std::size_t i = 0;
  for (const char* letter : {"q", "k", "v", "o"}) linear(prefix + modules[i++], layer, letter);
  return *this;
}

Checkpoint& Checkpoint::fused(const std::string& module, const CanonicalLayer& layer,
                              const std::vector<std::pair<char, std::size_t>>& runs) {
  std::vector<Tensor> weights, biases;
  for (const auto& [letter, head] : runs) {
    weights.push_back(head_rows(layer[std::string("W_") + letter], layer.sizes.d, {head}));
    if (layer.has("b_q"))
      biases.push_back(head_rows(layer[std::string("b_") + letter], layer.sizes.d, {head}));
  }
  add(module + ".weight", stacked(weights));
  if (!biases.empty()) {
    const Tensor bias = stacked(biases);
    add(module + ".bias", bias.reshaped({bias.count()}));
  }
  return *this;
}

Checkpoint& Checkpoint::store_as(DType dtype) {
  dtype_ = dtype;
  return *this;
}

void Checkpoint::write() {
  std::vector<std::pair<std::string, Tensor>> stored;
  for (const auto& [name, tensor] : tensors_)
    stored.emplace_back(name, is_floating(tensor.dtype()) ? convert(tensor, dtype_) : tensor);
  write_file(path_ + "/model.safetensors", "safetensors", stored);
  if (!config_.empty()) std::ofstream(path_ + "/config.json") << config_;
}

LoadedLayer Checkpoint::load(const CanonicalLayer& layer, Request more) {
  write();
  more.sources.insert(more.sources.begin(), path_);
  const bool has_positions = std::ranges::any_of(
      more.sources, [](const std::string& source) { return source.starts_with("position"); });
  for (const std::string name : {"X", "X_kv", "positions"})
    if (layer.has(name) && !(name == "positions" && has_positions)) {
      // Beside the checkpoint, not in it.
      const std::string file = path_ + "/" + name + ".npy";
      write_file(file, "npy", {{name, layer[name]}});
      more.sources.push_back(fmt::format("{}={}", name, file));
    }
  const Sources model(std::move(more));
  return model.load(model.chosen().at(0));
}

LoadedLayer Checkpoint::load(const CanonicalLayer& layer, const std::string& id) {
  Request request;
  request.layer = id;
  return load(layer, std::move(request));
}

std::vector<LayerListing> Checkpoint::layers() {
  write();
  Request request;
  request.sources = {path_};
  request.layer = "all";
  return Sources(std::move(request)).layers();
}

Request with(const std::string& setting, const std::string& value) {
  Request request;
  request.settings = {{setting, value}};
  return request;
}

std::vector<std::pair<char, std::size_t>> one_after_the_other(const std::string& letters,
                                                              const LayerSizes& sizes) {
  std::vector<std::pair<char, std::size_t>> runs;
  for (char letter : letters)
    for (std::size_t h = 0; h < (letter == 'q' ? sizes.H : sizes.H_kv); ++h)
      runs.emplace_back(letter, h);
  return runs;
}

std::vector<std::pair<char, std::size_t>> by_group(const LayerSizes& sizes) {
  const std::size_t queries = sizes.H / sizes.H_kv;
  std::vector<std::pair<char, std::size_t>> runs;
  for (std::size_t g = 0; g < sizes.H_kv; ++g) {
    for (std::size_t i = 0; i < queries; ++i) runs.emplace_back('q', g * queries + i);
    runs.emplace_back('k', g), runs.emplace_back('v', g);
  }
  return runs;
}

std::string difference(const Layer& got, const CanonicalLayer& want) {
  const Layer canonical = want.layer();
  const StageSet stages_there = available_stages(canonical);
  if (available_stages(got) != stages_there)
    return fmt::format("stages: {} — and not {}", joined_names(available_stages(got)),
                       joined_names(stages_there));
  std::vector<Stage> all;
  for (const StageInfo& info : stages())
    if (contains(stages_there, info.stage)) all.push_back(info.stage);
  const Trace a = trace(got, all), b = trace(canonical, all);
  for (Stage stage : all)
    if (const std::string bits = compare_bits(a.value(stage), b.value(stage)); !bits.empty())
      return fmt::format("{}: {}", name_of(stage), bits);
  return "";
}

bool notes_say(const LoadedLayer& layer, const std::string& text) {
  for (const std::string& note : layer.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}
