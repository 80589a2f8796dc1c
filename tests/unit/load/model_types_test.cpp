// A table of published model_types: each is computed as a canonical layer with the settings that
// the model is known to have, bit for bit, or refused by name, alone and as a whole model.

#include "support/checkpoint.hpp"
#include "support/files.hpp"
#include <mha/load/families/family.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/parts.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>
#include <set>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return std::string(text);
}

/// The fields between | of each line that is no comment.
Rows rows_of(const std::string& name) {
  std::ifstream file(in_source("tests/data/model_types/" + name));
  Rows rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string_view field : split_at(line, '|')) row.push_back(trimmed(field));
  }
  return rows;
}

struct Layout {
  std::string name, prefix, how;
  std::vector<std::string> modules;
  std::string biases, norm, norm_module;
};

const Layout& layout_named(const std::string& name) {
  static const auto all = [] {
    std::map<std::string, Layout> layouts;
    for (const auto& row : rows_of("layouts.txt")) {
      const auto norm = words_of<std::string>(row.at(5));
      layouts[row[0]] = {row[0],
                         row[1],
                         row[2],
                         words_of<std::string>(row[3]),
                         row[4],
                         norm.at(0),
                         norm.size() > 1 ? norm[1] : ""};
    }
    return layouts;
  }();
  return all.at(name);
}

/// What a model's layer is: the part's model_type, that of the whole, and the words of its
/// settings.
struct Model {
  std::string part, whole;
  const Layout* layout = nullptr;
  std::map<std::string, std::string> words;
  std::string config;

  Model(const std::string& type, const std::string& of, const std::string& settings,
        std::string members)
      : part(type.substr(0, type.find(" in "))),
        whole(part.size() == type.size() ? part : type.substr(part.size() + 4)),
        layout(&layout_named(of)),
        config(std::move(members)) {
    for (const std::string& word : words_of<std::string>(settings)) {
      const std::size_t equals = word.find('=');
      words[word.substr(0, equals)] = equals == word.npos ? "" : word.substr(equals + 1);
    }
  }
  bool has(const char* word) const { return words.count(word) > 0; }
  std::string biases() const { return has("biases") ? words.at("biases") : layout->biases; }
  std::string norm() const { return has("norm") ? words.at("norm") : ""; }
  LayerSizes sizes() const {
    const bool grouped =
        layout->modules.size() == 4 && layout->modules[3] == "o_proj" && !has("patches");
    if (layout->how == "latent") return {.d_model = 10, .H = 3, .H_kv = 3, .d = 6};
    if (layout->name == "phi3" || grouped) return {.d_model = 10, .H = 6, .H_kv = 2, .d = 8};
    if (has("window")) return {.T = 4, .d_model = 12, .H = 3, .H_kv = 3, .d = 4};
    return {.d_model = 12, .H = 3, .H_kv = has("kv") ? std::size_t{1} : 3, .d = 4};
  }
  /// config.json; the part's own keys stand where its model_type does.
  std::string json() const {
    const LayerSizes s = sizes();
    std::string own = fmt::format("\"num_attention_heads\": {}", s.H);
    if (s.H_kv != s.H) own += fmt::format(", \"num_key_value_heads\": {}", s.H_kv);
    if (!config.empty()) own += ", " + config;
    if (part.empty()) return "{" + own + "}";
    own = fmt::format("{{\"model_type\": \"{}\", {}}}", part, own);
    if (part == whole) return own;
    const std::string& prefix = layout->prefix;
    const char* const section = layout->name.ends_with("-both")
                                    ? prefix.starts_with("encoder") ? "encoder" : "decoder"
                                : prefix.find("vis") != prefix.npos ? "vision_config"
                                                                    : "text_config";
    return fmt::format("{{\"model_type\": \"{}\", \"{}\": {}}}", whole, section, own);
  }
};

/// The canonical layer with the same numbers, in parts and settings.
CanonicalLayer canonical(const Model& model) {
  const LayerSizes s = model.sizes();
  CanonicalLayer layer(s, model.biases());
  if (model.layout->how == "latent") {
    layer.tensors.erase("W_k"), layer.tensors.erase("W_v");
    layer.add("W_kv_a", {10, 9}).add("kv_a_norm.weight", {7}).add("W_kv_b", {7, 27});
    layer.add("W_q_a", {10, 9}).add("q_a_norm.weight", {9}).add("W_q", {9, 18});
    layer.add("W_o", {15, 10}).set("rope_first", "4").set("rope_dims", "2");
  }
  if (model.has("sinks")) layer.add("sinks", {s.H});
  if (model.has("table"))
    layer.add("relative_bias", {8, s.H}).set("relative_bidirectional", "true");
  if (model.has("qk")) {
    const bool head = model.words.at("qk") == "head";
    layer.add("q_norm.weight", {head ? s.d : s.H * s.d});
    layer.add("k_norm.weight", {head ? s.d : s.H_kv * s.d});
  }
  if (model.has("gate"))
    layer.add("W_gate", {s.d_model, model.words.at("gate") == "g_proj" ? s.H : s.H * s.d});
  if (model.has("unit"))
    for (const char letter : model.words.at("unit"))
      layer.tensors[std::string(1, letter) + "_norm.weight"] =
          Tensor::of<double>({s.d}, std::vector<double>(s.d, 1));
  if (model.layout->norm != "none") {
    layer.set("input_norm", model.layout->norm);
    if (model.norm() != "bare") layer.add("norm.weight", {s.d_model});
    if (model.layout->norm == "layer" && model.norm().empty()) layer.add("norm.bias", {s.d_model});
  }
  if (model.has("window")) layer.add("bias", {s.H, 4, 4});
  if (model.has("patches")) { // two pairs: a row's, and a column's whose frequency is also 1
    layer.add("positions", {3, s.T});
    const double base = std::stod(model.words.at("rope_base"));
    for (const char* name : {"rope_short_factor", "rope_long_factor"})
      layer.tensors[name] = Tensor::of<double>({2}, std::vector<double>{1, 1 / std::sqrt(base)});
  }
  constexpr std::string_view of_parts =
      "biases norm plus1 qk kv sinks table window patches gate unit";
  for (const auto& [word, value] : model.words)
    if (!has_word(of_parts, word)) layer.set(word == "eps" ? "input_norm_eps" : word, value);
  return layer;
}

std::vector<std::pair<char, std::size_t>> runs_of(const Model& model) {
  if (model.layout->how == "grouped") return by_group(model.sizes());
  return one_after_the_other("qkv", model.sizes());
}

/// The layer's tensors under the names of the layout, below `prefix`.
void add_attention(Checkpoint& file, const Model& model, const CanonicalLayer& layer) {
  const Layout& layout = *model.layout;
  const std::string& at = layout.prefix;
  const auto turned = [&](const std::string& name, const char* canonical) {
    file.add(at + name, transposed(layer[canonical]));
  };
  const auto rows = [&](const char* kind) {
    std::vector<Tensor> parts;
    for (const char* letter : {"q", "k", "v"}) {
      const Tensor& part = layer[std::string(kind) + letter];
      parts.push_back(part.rank() == 2 ? transposed(part) : part);
    }
    return stacked(parts);
  };
  if (model.has("gate") && model.words.at("gate") == "q_proj") { // which add_gate writes
    for (std::size_t i = 1; i < 4; ++i)
      file.linear(at + layout.modules[i], layer, std::string(1, "qkvo"[i]));
  } else if (layout.how == "linears") {
    file.linears(at, layout.modules, layer);
  } else if (layout.how == "fused" || layout.how == "grouped") {
    file.fused(at + layout.modules[0], layer, runs_of(model));
    file.linear(at + layout.modules[1], layer, "o");
  } else if (layout.how == "conv") {
    file.add(at + layout.modules[0] + ".weight", transposed(rows("W_")));
    file.add(at + layout.modules[0] + ".bias", rows("b_"));
    file.add(at + layout.modules[1] + ".weight", layer["W_o"]);
    file.add(at + layout.modules[1] + ".bias", layer["b_o"]);
  } else if (layout.how == "torch") {
    file.add(at + "in_proj_weight", rows("W_")).add(at + "in_proj_bias", rows("b_"));
    file.linear(at + "out_proj", layer, "o");
  } else if (layout.how == "latent") {
    turned("q_a_proj.weight", "W_q_a"), turned("q_b_proj.weight", "W_q");
    turned("kv_a_proj_with_mqa.weight", "W_kv_a"), turned("kv_b_proj.weight", "W_kv_b");
    turned("o_proj.weight", "W_o");
    file.add(at + "q_a_layernorm.weight", layer["q_a_norm.weight"]);
    file.add(at + "kv_a_layernorm.weight", layer["kv_a_norm.weight"]);
  }
}

/// Swin's table of a window of 2 × 2 tokens, which begin at (0, 0), (0, 1), (1, 0), (1, 1), and its
/// index. The layer's bias becomes what the table has for two places: row 3 (Δrow + 1) + Δcolumn
/// + 1.
void add_window(Checkpoint& file, const Model& model, CanonicalLayer& layer) {
  const Tensor table = layer.add("table", {9, 3})["table"];
  layer.tensors.erase("table");
  Tensor bias(DType::f32, layer["bias"].shape()), index(DType::i64, {4, 4});
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t row = 3 * (i / 2 + 1 - j / 2) + i % 2 + 1 - j % 2;
      index.as_mutable<std::int64_t>()[i * 4 + j] = static_cast<std::int64_t>(row);
      for (std::size_t h = 0; h < 3; ++h)
        bias.as_mutable<float>()[(h * 4 + i) * 4 + j] = table.as<float>()[row * 3 + h];
    }
  layer.tensors["bias"] = bias;
  const bool bert_like = model.layout->name == "swin";
  const std::string at = model.layout->prefix + (bert_like ? "self." : "");
  file.add(at + "relative_position_bias_table", table);
  if (model.words.at("window") == "index") file.add(at + "relative_position_index", index);
}

/// The map of the heads' gate: its own, or the second part of each head's rows of q_proj.
void add_gate(Checkpoint& file, const Model& model, const CanonicalLayer& layer) {
  const std::string& name = model.words.at("gate");
  const Tensor gate = transposed(layer["W_gate"]);
  if (name != "q_proj") {
    file.add(model.layout->prefix + name + ".weight", gate);
    return;
  }
  const LayerSizes s = model.sizes();
  const Tensor q = transposed(layer["W_q"]);
  std::vector<Tensor> rows;
  for (std::size_t h = 0; h < s.H; ++h)
    for (const Tensor* part : {&q, &gate}) rows.push_back(part_of_axis(*part, 0, h * s.d, s.d));
  file.add(model.layout->prefix + "q_proj.weight", stacked(rows));
}

/// The same with what stands around the projections. What is 1 + w is w in the file.
void add_layer(Checkpoint& file, const Model& model, CanonicalLayer& layer) {
  const Layout& layout = *model.layout;
  add_attention(file, model, layer);
  if (model.has("gate")) add_gate(file, model, layer);
  const auto is_written = [&](const std::string& name) {
    return !model.has("unit") || name == "sinks" ||
           model.words.at("unit").find(name[0]) == std::string::npos;
  };
  for (std::string name : {"sinks", "q_norm.weight", "k_norm.weight"})
    if (layer.has(name) && is_written(name)) {
      const Tensor& numbers = layer[name];
      if (layout.name == "lfm2") name.insert(2, "layer");
      if (layout.name == "bailing")
        name = (name[0] == 'q' ? "query_" : "key_") + ("layer" + name.substr(2));
      if (name == "sinks" && model.part.starts_with("mimo")) name = "attention_sink_bias";
      file.add(layout.prefix + name, numbers);
    }
  if (model.has("window")) add_window(file, model, layer);
  if (layout.name == "qwen-image") // beside all blocks
    file.add("model.visual.merger.norm.weight", layer["norm.weight"]);
  if (layer.has("relative_bias")) {
    std::string first = layout.prefix;
    if (const std::size_t one = first.find("1."); one != first.npos) first[one] = '0';
    file.add(first + "relative_attention_bias.weight", layer["relative_bias"]);
  }
  for (const char* name : {"weight", "bias"})
    if (const std::string norm = std::string("norm.") + name; layer.has(norm))
      file.add(layout.norm_module + "." + name, layer[norm]);
  if (!model.has("plus1")) return;
  Tensor whole = convert(layer["norm.weight"], DType::f64);
  for (double& w : whole.as_mutable<double>()) w += 1;
  layer.tensors["norm.weight"] = whole;
}

Request checked(const std::string& naming = "") {
  Request request = with("input_norm", "checkpoint");
  request.naming = naming;
  return request;
}

/// What a text of the model is refused with; "": nothing.
std::string refusal_of_text(const Model& model) {
  Model first = model;
  Layout layout = *model.layout; // layer 0: the first of a whole model's
  for (std::string* name : {&layout.prefix, &layout.norm_module})
    if (const std::size_t at = name->find("1."); at != name->npos) (*name)[at] = '0';
  first.layout = &layout;
  CanonicalLayer layer = canonical(first);
  Checkpoint file(first.json());
  add_layer(file, first, layer);
  file.write();
  Request request;
  request.sources = {file.path()};
  request.for_texts = true;
  try {
    const Sources sources(std::move(request));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::set<std::string> words_of_all(std::string_view (*list_of)(const naming::FamilyRow&)) {
  std::set<std::string> all;
  for (const naming::FamilyRow* family : naming::families())
    for (const std::string& word : words_of<std::string>(list_of(*family))) all.insert(word);
  for (const char* own : {"*", "attention-only", "mingpt", "nanogpt"}) all.erase(own);
  return all;
}

} // namespace

TEST_CASE("model_type: layers that are computed, by the settings of a canonical layer") {
  std::set<std::string> listed, whole;
  for (const auto& row : rows_of("computed.txt")) {
    INFO(row[0]);
    const Model model(row.at(0), row.at(1), row.at(3), row.at(4));
    listed.insert(model.part);
    if (row[2] == "whole") whole.insert(model.part);
    if (model.whole != model.part) listed.insert(model.whole);
    if (row[3] != "as the whole") {
      CanonicalLayer layer = canonical(model);
      Checkpoint file(model.json());
      add_layer(file, model, layer);
      Request request = checked();
      if (model.part == "albert") request.layer = "1"; // a pass of the shared layer
      LoadedLayer loaded;
      CHECK_NOTHROW(loaded = file.load(layer, std::move(request)));
      CHECK(difference(loaded.layer, layer) == "");
      CHECK_FALSE(notes_say(loaded, "is not known here"));
    }
    if (row[2] == "-")
      CHECK_THAT(refusal_of_text(model), Contains("model_type '" + model.part + "'") ||
                                             Contains("as a whole model yet") ||
                                             Contains("of images or sound"));
  }
  // Whatever a naming lists stands in the table, and a whole model's reference is in tests/models.
  for (const std::string& type :
       words_of_all([](const naming::FamilyRow& f) { return f.models; })) {
    INFO(type);
    CHECK(listed.count(type) == 1);
  }
  for (const std::string& type : words_of_all(naming::whole_models_of)) {
    INFO(type);
    CHECK((whole.erase(type) == 1 || has_word("gemma3 gemma4 llama4", type)));
  }
  CHECK(whole == std::set<std::string>());
}

TEST_CASE("model_type: the page lists those of every naming") {
  std::ifstream file(in_source("docs/families.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const naming::FamilyRow* family : naming::families()) {
    if (family->models.empty() || family->models == "*") continue;
    const auto code = [](std::string_view type) { return fmt::format("`{}`", type); };
    CHECK_THAT(page, Contains(fmt::format("\n- `{}`: {}\n", family->name,
                                          joined_texts(words_of(family->models), ", ", code))));
  }
}

TEST_CASE("model_type: layers that have another family's names are refused, alone and whole") {
  const Rows rows = rows_of("refused.txt");
  CHECK(rows.size() + rows_of("computed.txt").size() >= 280);
  for (const auto& row : rows) {
    INFO(row[0]);
    const Model model(row.at(0), row.at(1), "", "");
    CanonicalLayer layer = canonical(model);
    Checkpoint file(model.json());
    add_layer(file, model, layer);
    for (const std::string& name : words_of<std::string>(row.at(2)))
      file.add(model.layout->prefix + name, Tensor(DType::f32, {8}));
    const std::string named = "model_type '" + model.part + "'",
                      whole = "model_type '" + model.whole + "'";
    CHECK_THROWS_WITH(file.load(layer, checked()), Contains(named) || Contains(whole));
    CHECK_THAT(refusal_of_text(model), Contains(named) || Contains(whole));
  }
}

TEST_CASE("model_type: a naming that the user chose is taken, with a warning") {
  for (const auto& [type, layout, naming, settings] :
       {std::tuple("aquila", "llama", "llama", "causal=true rope=half eps=1e-06"),
        {"jais", "gpt2", "gpt2", "causal=true eps=1e-05"},
        {"vilt", "vit", "vit", "causal=false eps=1e-12"},
        {"dinov3_vit", "timm", "timm", "causal=false eps=1e-06"}}) {
    INFO(type);
    const Model model(type, layout, settings, "");
    CanonicalLayer layer = canonical(model);
    Checkpoint file(model.json());
    add_layer(file, model, layer);
    const LoadedLayer loaded = file.load(layer, checked(naming));
    CHECK(difference(loaded.layer, layer) == "");
    CHECK(notes_say(loaded, fmt::format("model_type '{}' is not known here: read as", type)));
  }
}

TEST_CASE("without a model_type, tensors that only another family has refuse the layer") {
  for (const auto& row : rows_of("without.txt")) {
    INFO(row[0] << " " << row.at(3));
    Model model("", row.at(1), "", "");
    CanonicalLayer layer = canonical(model);
    Checkpoint file(model.json());
    add_attention(file, model, layer);
    const auto more = words_of<std::string>(row.at(3));
    for (const std::string& name : more)
      file.add(name, name.ends_with("dense.weight") ? layer["W_o"] : layer["X"].at(0));
    if (row[2] == "computed")
      CHECK_NOTHROW(file.load(layer));
    else
      CHECK_THROWS_WITH(file.load(layer), Contains("is not a tensor of") ||
                                              Contains("which LLaMA's layers have beside") ||
                                              Contains("Qwen2-VL's vision tower") ||
                                              Contains("DINOv3's rotation in two dimensions"));
  }
}

TEST_CASE("without a model_type, the class in architectures says which model it is") {
  for (const auto& [members, refused] :
       {std::pair(R"("architectures": ["LlamaForCausalLM"])", false),
        {R"("architectures": ["MistralForCausalLM"])", false},
        {R"("architectures": ["Qwen2Model"])", true},
        {R"("architectures": ["Gemma3nForConditionalGeneration", "B"])", true},
        {R"("architectures": null)", false}}) {
    INFO(members);
    const Model model("", "llama", "", members);
    CanonicalLayer layer = canonical(model);
    Checkpoint file(model.json());
    add_attention(file, model, layer);
    if (refused)
      CHECK_THROWS_WITH(file.load(layer), Contains("config.json has no model_type, and its"));
    else
      CHECK_NOTHROW(file.load(layer));
  }
}

TEST_CASE("timm's models of the same names that are more than attention are refused") {
  for (const auto& [architecture, refused] : {std::pair("vit_base_patch16_224", false),
                                              {"deit3_base_patch16_224", false},
                                              {"vit_base_patch16_dinov3", true},
                                              {"vit_base_patch16_rope_224", true},
                                              {"vit_pe_core_base_patch16_224", true},
                                              {"vit_relpos_base_patch16_224", true},
                                              {"eva02_base_patch14_224", true},
                                              {"xcit_small_12_p8_224", true}}) {
    INFO(architecture);
    for (const char* type : {"", "timm_wrapper"}) { // timm's own config.json has none
      const Model model(type, "timm", "causal=false eps=1e-06",
                        fmt::format("\"architecture\": \"{}\"", architecture));
      CanonicalLayer layer = canonical(model);
      Checkpoint file(model.json());
      add_layer(file, model, layer);
      if (refused)
        CHECK_THROWS_WITH(file.load(layer), Contains("architecture '" + std::string(architecture)));
      else
        CHECK(difference(file.load(layer, checked()).layer, layer) == "");
    }
  }
}
