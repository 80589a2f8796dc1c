// Pairing of the tensors of two checkpoints.

#include <mha/compare/weights.hpp>

#include <mha/formats/folder.hpp>
#include <mha/formats/formats.hpp>
#include <mha/formats/shard_file.hpp>
#include <mha/load/described.hpp>
#include <mha/load/read_description.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/naming/fused.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mha {

namespace {

using naming::Found;

constexpr std::string_view wrappers[]{"_orig_mod.",      "module.",     "model.",    "transformer.",
                                      "language_model.", "base_model.", "bert.",     "roberta.",
                                      "albert.",         "distilbert.", "gpt_neox.", "decoder.",
                                      "state_dict.",     "net."};

/// The name below the model, with dots between its parts.
std::string without_wrappers(std::string name) {
  if (name.ends_with(":0")) name.resize(name.size() - 2);
  std::replace(name.begin(), name.end(), '/', '.');
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : wrappers)
      if (name.starts_with(wrapper) && name.size() > wrapper.size())
        name.erase(0, wrapper.size()), found = true;
  }
  return name;
}

/// An opened source, and the layers that a family finds in it.
struct OpenedCheckpoint {
  io::Contents contents, as_file;
  naming::Config config;
  std::vector<Found> found;
  bool described = false; ///< by a description of the user
};

std::unique_ptr<OpenedCheckpoint> open_checkpoint(const std::string& path,
                                                  const WeightOptions& options) {
  auto model = std::make_unique<OpenedCheckpoint>();
  model->contents = io::open(path, {false, options.gguf_order});
  if (io::is_shard(model->contents))
    fail("{}: this is {}, which only `convert` reads", path, io::shard_title(model->contents));
  if (model->contents.format == "gguf" && !options.gguf_order)
    model->as_file = io::open(path, {false, true});
  model->config = model->contents.config;
  if (!options.config.empty())
    for (const auto& [key, value] : io::read_config(options.config)) model->config[key] = value;
  return model;
}

/// The tensors under their own names.
WeightFile by_name(const OpenedCheckpoint& model) {
  WeightFile file;
  file.name = model.contents.name, file.format = model.contents.format;
  std::set<std::string> roles;
  for (const io::Entry& entry : model.contents.tensors) {
    Weight weight{entry.name,
                  without_wrappers(entry.name),
                  std::string(entry.type_name()),
                  entry.shape,
                  entry.read,
                  entry.steps,
                  nullptr};
    if (!roles.insert(weight.role).second) weight.role = entry.name;
    const bool ordered = entry.name.find("q_proj") != std::string::npos ||
                         entry.name.find("k_proj") != std::string::npos ||
                         entry.name.find("qkv") != std::string::npos ||
                         entry.name.find("query_key_value") != std::string::npos;
    if (const io::Entry* in_file = ordered ? model.as_file.find(entry.name) : nullptr)
      weight.as_file = in_file->read;
    file.weights.push_back(std::move(weight));
  }
  return file;
}

/// The numbers of heads in the config.
std::vector<std::size_t> heads_of_config(const naming::Config& config) {
  std::vector<std::size_t> heads;
  for (const char* key :
       {"num_attention_heads", "num_key_value_heads", "n_head", "n_heads", "num_heads",
        "text_config.num_attention_heads", "text_config.num_key_value_heads"})
    if (const auto at = config.find(key); at != config.end())
      if (const unsigned long n = std::strtoul(at->second.c_str(), nullptr, 10); n > 0 && n < 65536)
        heads.push_back(n);
  return heads;
}

/// The same contents with the distance between neighbouring levels for each number.
io::Contents steps_of_contents(const io::Contents& contents) {
  io::Contents steps = contents;
  steps.order = nullptr;
  for (io::Entry& entry : steps.tensors)
    entry.read = [steps = entry.steps, shape = entry.shape] {
      return steps ? steps() : Tensor(DType::f32, shape);
    };
  return steps;
}

/// The weights of the layers and the model's ends by their roles, as a family reads them.
class Roles {
public:
  explicit Roles(const OpenedCheckpoint& model) : found_(model.found) {
    naming::Options options;
    for (const Found& layer : found_) {
      naming::LayerReading read(layer.group, *layer.family, options);
      naming::read_layer(*layer.family, layer.group, read);
      add_attention(layer, read);
    }
    if (naming::has_whole_model(*found_[0].family)) add_model();
  }
  std::vector<Weight> take() { return std::move(weights_); }

private:
  void add(std::string role, const Tensor& tensor, std::string name = "") {
    if (tensor.empty()) return;
    Weight weight;
    const io::Contents& file = *found_[0].group.contents;
    if (name.starts_with(file.name + ": ")) name.erase(0, file.name.size() + 2);
    const io::Entry* entry = name.empty() ? nullptr : file.find(name);
    weight.type = entry ? entry->type_name() : name_of(tensor.dtype());
    weight.name = name.empty() ? role : std::move(name), weight.role = std::move(role);
    weight.shape = tensor.shape();
    weight.read = [tensor] { return tensor; };
    weights_.push_back(std::move(weight));
  }

  void add_attention(const Found& layer, const naming::LayerReading& read) {
    const std::string at = fmt::format("layers.{}.", layer.id);
    const std::size_t heads = read.count("num_heads").value_or(0),
                      kv_heads = read.count("num_kv_heads").value_or(heads);
    Settings settings;
    for (const auto& setting : read.settings)
      if (setting.name == "qkv_order") set(settings, setting.name, setting.value, setting.origin);
    for (const auto& [name, part] : read.parts) {
      const bool fused = (name == "W_qkv" || name == "b_qkv") && heads > 0;
      if (!fused) {
        add(at + name, flattened(part.tensor, name), part.from);
        continue;
      }
      const SplitTensors split =
          split_fused(part.tensor, settings.qkv_order, heads, kv_heads, part.source);
      const std::string letter = name.substr(0, 2);
      add(at + letter + "q", split.q, part.from), add(at + letter + "k", split.k, part.from);
      add(at + letter + "v", split.v, part.from);
    }
    if (read.norm.weight) add(at + "norm.weight", read.norm.weight->read(), read.norm.weight->name);
    if (read.norm.bias) add(at + "norm.bias", read.norm.bias->read(), read.norm.bias->name);
  }

  /// Matrices of the heads, (H, d_in, d_k), side by side as (d_in, H · d_k); W_o one below another.
  static Tensor flattened(const Tensor& tensor, const std::string& name) {
    if (tensor.rank() == 2 && name.starts_with("b_")) return tensor.reshaped({tensor.count()});
    if (tensor.rank() != 3 || !name.starts_with("W_")) return tensor;
    const Shape& s = tensor.shape();
    if (name == "W_o") return tensor.reshaped({s[0] * s[1], s[2]});
    return permuted(tensor, {1, 0, 2}).reshaped({s[1], s[0] * s[2]});
  }

  void add_linear(const std::string& role, const LinearMap& map) {
    add(role + ".weight", map.W), add(role + ".bias", map.b);
  }
  void add_norm(const std::string& role, const Norm& norm) {
    add(role + ".weight", norm.weight), add(role + ".bias", norm.bias);
  }

  void add_model() {
    const WholeModel model(found_);
    for (std::size_t n = 0; n < model.layers().size(); ++n) {
      const std::string at = fmt::format("layers.{}.", model.layers()[n]);
      const auto block = model.block(n);
      add_linear(at + "mlp.in", block->mlp.in), add_linear(at + "mlp.up", block->mlp.up);
      add_linear(at + "mlp.out", block->mlp.out);
      add(at + "mlp.product_bias", block->mlp.product_bias);
      add_norm(at + "mlp.inner_norm", block->mlp.inner);
      add_norm(at + "post_attention_norm", block->post_attention_norm);
      add_norm(at + "pre_mlp_norm", block->pre_mlp_norm);
      add_norm(at + "post_mlp_norm", block->post_mlp_norm);
      add_norm(at + "post_block_norm", block->post_block_norm);
      add_linear(at + "mlp.layer_in", block->supplement.in);
      add_linear(at + "mlp.layer_out", block->supplement.out);
      add_norm(at + "mlp.layer_norm", block->supplement.norm);
    }
    const Embedding& e = model.embedding();
    add("embed.token", e.tokens), add("embed.position", e.positions), add("embed.type", e.types);
    add_norm("embed.norm", e.norm), add_linear("embed.linear", e.projection);
    const LayerEmbedding& by_layer = model.layer_embedding();
    add("embed.layer", by_layer.table), add_linear("embed.layer_map", by_layer.map);
    add_norm("embed.layer_norm", by_layer.norm);
    add_norm("final_norm", model.last_norm());
    const ModelHead& head = model.head();
    add_linear("head.dense", head.dense), add_norm("head.norm", head.norm);
    add_linear("head", head.decoder);
  }

  const std::vector<Found>& found_;
  std::vector<Weight> weights_;
};

void find_roles(OpenedCheckpoint& model, const WeightOptions& options) {
  if (!model.found.empty() || options.naming == "canonical") return;
  if (std::optional<io::Contents> other = presented(model.contents, model.config))
    model.contents = *std::move(other);
  model.found =
      naming::find_layers(model.contents, model.config,
                          is_description(options.naming) ? nullptr : chosen_family(options.naming));
}

/// Applies a description to the file that has the tensors it names.
void apply_description(OpenedCheckpoint& model, const WeightOptions& options) {
  if (!is_description(options.naming)) return;
  const auto [description, family] = read_naming(options.naming);
  if (family) {
    model.found = naming::find_layers(model.contents, model.config, family);
    return;
  }
  if (!has_described_tensors(*description, model.contents)) return;
  model.found = described_layers(description, model.contents, model.config, naming::Options(),
                                 std::make_shared<naming::Reads>());
  model.described = true;
}

WeightFile by_role(OpenedCheckpoint& model, const WeightOptions& options) {
  find_roles(model, options);
  if (model.found.empty())
    fail("{}: its names are not the other file's, and no family is recognised by them; give a "
         "description of it: <naming> FILE.json",
         model.contents.name);
  WeightFile file;
  file.name = model.contents.name, file.format = model.contents.format, file.by_role = true;
  file.weights = Roles(model).take();
  const bool blocks = std::ranges::any_of(
      model.contents.tensors, [](const io::Entry& entry) { return entry.steps != nullptr; });
  if (!blocks) return file;
  OpenedCheckpoint steps;
  steps.contents = steps_of_contents(model.contents), steps.config = model.config;
  find_roles(steps, options);
  std::vector<Weight> of_steps = Roles(steps).take();
  for (std::size_t i = 0; i < file.weights.size() && i < of_steps.size(); ++i)
    file.weights[i].steps = of_steps[i].read;
  return file;
}

} // namespace

std::pair<WeightFile, WeightFile> open_weights(const std::string& a, const std::string& b,
                                               const WeightOptions& options) {
  const auto first = open_checkpoint(a, options), second = open_checkpoint(b, options);
  apply_description(*first, options), apply_description(*second, options);
  std::pair<WeightFile, WeightFile> files{by_name(*first), by_name(*second)};
  std::set<std::string_view> roles;
  for (const Weight& weight : files.first.weights) roles.insert(weight.role);
  std::size_t common = 0;
  for (const Weight& weight : files.second.weights) common += roles.contains(weight.role);
  const std::size_t fewer = std::min(files.first.weights.size(), files.second.weights.size());
  if (fewer == 0) fail("{}: there is no tensor in it", files.first.weights.empty() ? a : b);
  if (2 * common < fewer || first->described != second->described)
    files = {by_role(*first, options), by_role(*second, options)};
  files.first.heads = heads_of_config(first->config);
  files.second.heads = heads_of_config(second->config);
  return files;
}

} // namespace mha
