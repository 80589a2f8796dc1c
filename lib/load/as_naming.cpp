#include <mha/load/as_naming.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/as_naming_text.hpp>
#include <mha/load/described.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/families/family_text.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/load/named_layers.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace mha {

namespace {

using Json = nlohmann::ordered_json;
using naming::Found;
using naming::Group;
using naming::ModelRecord;
using naming::Translation;

class Writer : NamedLayers {
public:
  explicit Writer(const Sources& model) {
    if (model.found().empty())
      fail("{}: no layer is found in it: write a description", model.title());
    std::vector<Found> layers; // the text model's; of a lone other part, that one's
    for (const Found& layer : model.found())
      if (!layer.group.within({"vision", "visual", "audio"})) layers.push_back(layer);
    if (layers.empty()) layers = model.found();
    const Found& first = layers[0];
    family_ = first.family;
    if (naming::has_whole_model(*family_)) {
      whole_.emplace(model.found());
      record_ = naming::record_of(*family_, first.group);
    }
    for (const Found& layer : layers)
      add_layer(layer, whole_ ? block_prefix(layer.group, record_.layers) : layer.group.prefix);
  }

  std::string text() {
    Json top;
    top["title"] = family_->title;
    if (layers_.size() > 1 || layers_[0].group.number()) {
      const std::vector<std::string> patterns = layers_pattern();
      top["layers"] = patterns.size() == 1 ? Json(patterns[0]) : Json(patterns);
    } else
      top["layers"] = layers_[0].block_in_file;
    constexpr std::string_view shapes[]{"attention_only", "pre",  "parallel",
                                        "sandwich",       "post", "post_inside"};
    const bool whole = naming::has_whole_model(*family_);
    top["block"] = whole ? shapes[static_cast<std::size_t>(record_.shape)] : "attention_only";
    if (whole && !record_.mlp_out.empty()) top["activation"] = activation();
    if (const Json form = norm_form(); !form.is_null()) top["norm"] = form;
    if (whole && record_.residual_scale != 1) top["residual_scale"] = record_.residual_scale;
    if (whole) top["embed"] = embed();
    top["tensors"] = tensors();
    if (whole) {
      if (!record_.last_norm.empty() && whole_->last_norm().present())
        top["final_norm"] = norm_of(reader().model() + std::string(record_.last_norm), "");
      if (whole_->head().present()) top["head"] = head();
    }
    if (Json settings = settings_of_layers(); !settings.empty()) top["settings"] = settings;
    if (const auto list = unclaimed(); !list.empty()) top["ignore"] = list;
    return spread_description(top.dump());
  }

private:
  ModelReader reader(std::size_t layer = 0) const { return {layers_[layer].group, record_}; }

  /// Adds how the bias is found, where it is not the one beside the weight.
  void add_bias(Json& to, const io::Entry& weight, const io::Entry* bias, const ReadAs* of) {
    const std::string beside = bias_beside(name_in_file(weight));
    if (bias) claim(*bias);
    if (bias && name_in_file(*bias) != beside)
      to["bias"] = of ? below_block(*bias, *of) : name_in_file(*bias);
    else if (!bias && !beside.empty() && in_file(beside))
      to["bias"] = false;
  }

  /// A tensor's object, or its name alone where that says it.
  static Json shortest(const Json& tensor, const char* name = "name") {
    return tensor.size() == 1 && tensor.contains(name) ? tensor[name] : tensor;
  }

  Json linear(const std::string& name, bool out_in, naming::Bias biased, bool below) {
    const ModelReader read = reader();
    const auto [W, b] = read.linear_entries(name, biased);
    claim(*W);
    Json tensor;
    tensor["name"] = below ? below_block(*W) : name_in_file(*W);
    if (!out_in) tensor["layout"] = "io";
    add_bias(tensor, *W, b, below ? &layers_[0] : nullptr);
    return tensor;
  }

  Json activation() const {
    for (std::string_view key : words_of(record_.activation_keys))
      if (layers_[0].group.configured(key)) return fmt::format("config:{}", key);
    return record_.activation;
  }

  // Norms.

  struct Form {
    std::string_view kind;
    double eps = 0;
    bool one_plus = false, bare = false;
    bool operator==(const Form&) const = default;
  };

  static Form form_of(const Norm& norm) {
    return {norm.kind == InputNorm::rms ? "rms" : "layer", norm.eps, norm.one_plus,
            norm.weight.empty()};
  }
  static void add_form(Json& to, const Form& form) {
    to["kind"] = form.kind, to["eps"] = form.eps;
    if (form.one_plus) to["one_plus"] = true;
  }

  std::optional<Form> input_form() const {
    const Translation& read = *layer_with_norm().translation;
    const naming::InputNormalisation& norm = read.norm;
    if (norm.kind != naming::NormKind::layer && norm.kind != naming::NormKind::rms)
      return std::nullopt;
    if (!norm.weight && norm.needs_weight) return std::nullopt;
    Form form{norm.kind == naming::NormKind::rms ? "rms" : "layer", 1e-5, norm.one_plus,
              !norm.weight};
    for (const auto& setting : read.settings)
      if (setting.name == "input_norm_eps") form.eps = Json::parse(setting.value).get<double>();
    return form;
  }

  Json norm_form() {
    if (whole_ && record_.norm != InputNorm::none) {
      const Norm norm = reader().form();
      common_ = Form{norm.kind == InputNorm::rms ? "rms" : "layer", norm.eps, norm.one_plus, false};
    } else if (const auto form = input_form()) {
      common_ = *form, common_->bare = false;
    }
    if (!common_) return nullptr;
    Json to;
    add_form(to, *common_);
    return to;
  }

  /// `of`: the layer that it is of; null: a norm of the model's ends.
  Json norm_json(const Form& form, const io::Entry* weight, const io::Entry* bias,
                 const ReadAs* of) {
    Json to;
    Form shown = form;
    shown.bare = false;
    if (weight) {
      claim(*weight);
      to["weight"] = of ? below_block(*weight, *of) : name_in_file(*weight);
      if (form.kind == "layer") add_bias(to, *weight, bias, of);
    } else {
      to["affine"] = false;
    }
    if (!common_ || shown != *common_) add_form(to, shown);
    return shortest(to, "weight");
  }

  /// A norm of the record, by its whole name; `inner`: the one of solu_ln.
  Json norm_of(const std::string& name, std::string_view block, bool layer_norm = false) {
    const ModelReader read = reader();
    const auto [weight, bias] = read.norm_entries(name);
    Norm norm = read.form();
    if (layer_norm) norm.kind = InputNorm::layer;
    Form form = form_of(norm);
    form.bare = !weight;
    return norm_json(form, weight, form.kind == "layer" ? bias : nullptr,
                     block.empty() ? nullptr : &layers_[0]);
  }

  void add_norms(Json& to) {
    if (const auto form = input_form()) {
      const ReadAs& layer = layer_with_norm();
      const naming::InputNormalisation& norm = layer.translation->norm;
      Json said = norm_json(*form, norm.weight, norm.bias, &layer);
      if (&layer != &layers_[0]) {
        if (!said.is_object()) said = {{"weight", said}};
        said["optional"] = true;
      }
      to["norm"] = said;
    }
    if (!whole_) return;
    const auto add = [&](const char* key, std::string_view name) {
      if (name.empty() || record_.norm == InputNorm::none) return;
      to[key] = norm_of(layers_[0].block + std::string(name), layers_[0].block);
    };
    const bool post = record_.shape == BlockShape::post,
               inside = record_.shape == BlockShape::post_inside;
    add(inside ? "norm" : "post_norm", record_.post_attention_norm);
    add(post ? "norm" : "mlp.norm", record_.pre_mlp_norm);
    add(inside ? "mlp.norm" : "mlp.post_norm", record_.post_mlp_norm);
    add("mlp.norm", record_.post_block_norm);
    if (!record_.mlp_norm.empty())
      to["mlp.inner_norm"] =
          norm_of(layers_[0].block + std::string(record_.mlp_norm), layers_[0].block, true);
  }

  // The layers.

  const io::Entry* entry_of(const NamedTensor& part) const {
    const std::string file = layers_[0].group.contents->name + ": ";
    if (!part.from.starts_with(file)) return nullptr;
    return in_file(part.from.substr(file.size()));
  }

  Json attention_tensor(const std::string& key, const NamedTensor& part) {
    const Group& group = layers_[0].group;
    const io::Entry* entry = entry_of(part);
    if (!entry && part.tensor.rank() == 1 && key.starts_with("rope_")) {
      Json values = Json::array();
      for (std::size_t i = 0; i < part.tensor.count(); ++i)
        values.push_back(value_at(part.tensor, i));
      return {{"values", values}};
    }
    if (!entry) cannot_say(group, fmt::format("{}, {}", key, part.source));
    if (Json stacked = tensor_of_heads(*entry, part); !stacked.is_null()) return stacked;
    Json tensor;
    tensor["name"] = name_of_part(key, *entry);
    if (!key.starts_with("W_")) {
      if (count_of(part.tensor.shape()) != count_of(entry->shape)) cannot_say(group, part.source);
      return tensor;
    }
    const StoredMatrix* stored = part.tensor.stored();
    const Shape reversed(entry->shape.rbegin(), entry->shape.rend());
    if (part.tensor.rank() == 3 && part.tensor.shape() == entry->shape)
      tensor["layout"] = "hio";
    else if (const Shape& s = part.tensor.shape();
             s.size() == 3 && entry->shape == Shape{s[1], s[0], s[2]})
      tensor["layout"] = "iho";
    else if (part.tensor.rank() != 2 ||
             part.tensor.shape() != (stored && stored->transposed ? reversed : entry->shape))
      cannot_say(group, fmt::format("how {} lies", name_in_file(*entry)));
    else if (!stored || !stored->transposed)
      tensor["layout"] = "io";
    const auto bias = layers_[0].translation->parts.find("b" + key.substr(1));
    const bool there = bias != layers_[0].translation->parts.end();
    add_bias(tensor, *entry, there ? entry_of(bias->second) : nullptr, &layers_[0]);
    return tensor;
  }

  /// A tensor of one layer that every layer reads (T5's distances) has that layer's name.
  std::string name_of_part(const std::string& key, const io::Entry& entry) {
    const std::string own = below_block(entry);
    if (key != "relative_bias" || layers_.size() == 1) return own;
    const Group& group = layers_[1].group;
    if (in_file(layers_[1].block_in_file + own)) return own;
    std::string whole = name_in_file(entry);
    const std::string number = fmt::format(".{}.", layers_[0].group.number().value_or(0));
    const std::size_t at = whole.find(number);
    if (number != ".0." || at == whole.npos) cannot_say(group, whole + ", of another layer");
    return whole.replace(at, number.size(), ".{0*layer}.");
  }

  /// Tensors of single heads that lie under each other: "norms.{head}.weight".
  Json tensor_of_heads(const io::Entry& first, const NamedTensor& part) {
    if (count_of(first.shape) == count_of(part.tensor.shape())) return nullptr;
    const std::string& own = name_in_file(first);
    for (const auto& [number, mark] :
         {std::pair<std::string_view, std::string_view>(".0.", ".{head}."),
          {"head_1", "head_{head+1}"}}) {
      const std::size_t at = own.rfind(number);
      if (at == own.npos || at < layers_[0].block_in_file.size()) continue;
      Json tensor;
      std::string name = below_block(first);
      name.replace(name.rfind(number), number.size(), mark);
      tensor["name"] = name;
      for (std::size_t head = 0;; ++head) {
        std::string whole = own;
        whole.replace(at, number.size(),
                      fmt::format(fmt::runtime(number == ".0." ? ".{}." : "head_{}"),
                                  number == ".0." ? head : head + 1));
        const io::Entry* const entry = in_file(whole);
        if (!entry) break;
        claim(*entry);
      }
      if (first.shape.size() == 2) tensor["layout"] = "io";
      return tensor;
    }
    return nullptr;
  }

  /// Several projections that are parts of one tensor, under the key of them together.
  void add_fused(Json& to, const std::vector<std::string>& letters) {
    const auto& parts = layers_[0].translation->parts;
    const io::Entry* entry = nullptr;
    for (const std::string& letter : letters) {
      const auto part = parts.find("W_" + letter);
      const io::Entry* const of = part == parts.end() ? nullptr : entry_of(part->second);
      if (!of || (entry && entry != of)) return;
      entry = of;
    }
    const Tensor& first = parts.at("W_" + letters[0]).tensor;
    if (count_of(entry->shape) != letters.size() * first.count()) return;
    Json tensor;
    tensor["name"] = below_block(*entry);
    if (entry->shape[0] == first.shape()[0] && entry->shape[1] != first.shape()[0])
      tensor["layout"] = "io";
    std::string key = "W_";
    for (const std::string& letter : letters) key += letter;
    const naming::Description& said = naming::said_of(*family_, layers_[0].group, false);
    if (const auto own = said.tensors.find(key);
        own != said.tensors.end() && own->second.groups > 0)
      tensor["split"] = fmt::format("{}", fmt::join(own->second.split, ",")),
      tensor["groups"] = own->second.groups;
    const auto bias = parts.find("b_" + letters[0]);
    add_bias(tensor, *entry, bias == parts.end() ? nullptr : entry_of(bias->second), &layers_[0]);
    to[key] = shortest(tensor);
    for (const std::string& letter : letters) fused_.insert({"W_" + letter, "b_" + letter});
  }

  Json tensors() {
    Json to;
    const Translation& read = *layers_[0].translation;
    add_fused(to, {"q", "k", "v"});
    if (fused_.empty()) add_fused(to, {"k", "v"});
    for (const auto& [key, part] : read.parts) {
      if (key.starts_with("norm.") || fused_.contains(key)) continue;
      if (key.starts_with("b_") && read.parts.contains("W" + key.substr(1))) continue;
      Json tensor = attention_tensor(key, part);
      for (const auto& setting : read.settings) {
        if (key != "W_qkv" || setting.name != "qkv_order") continue;
        const std::string& order = setting.value;
        if (order == "per_group")
          tensor["by"] = "head";
        else if (order != "qkv")
          tensor["split"] = fmt::format("{},{},{}", order[0], order[1], order[2]);
      }
      to[key] = shortest(tensor);
    }
    if (whole_ && !record_.mlp_out.empty()) add_feed_forward(to);
    add_norms(to);
    return to;
  }

  void add_feed_forward(Json& to) {
    const auto map = [&](std::string_view name) {
      return linear(layers_[0].block + std::string(name), !record_.in_out, record_.mlp_bias, true);
    };
    if (!record_.mlp_gate_up.empty()) {
      to["mlp.in_up"] = shortest(map(record_.mlp_gate_up));
    } else {
      to["mlp.in"] = shortest(map(record_.mlp_in));
      if (!record_.mlp_up.empty()) {
        Json up = map(record_.mlp_up);
        const io::Entry* bias =
            reader()
                .linear_entries(layers_[0].block + std::string(record_.mlp_up), record_.mlp_bias)
                .second;
        if (record_.bias_of_product && bias) {
          to["mlp.product_bias"] = below_block(*bias);
          up.erase("bias");
          if (bias_beside(up["name"]) == below_block(*bias)) up["bias"] = false;
        }
        to["mlp.up"] = shortest(up);
      }
    }
    to["mlp.out"] = shortest(map(record_.mlp_out));
  }

  Json settings_of_layers() const {
    std::vector<std::string> names;
    for (const ReadAs& layer : layers_)
      for (const auto& setting : layer.translation->settings)
        if (setting.name != "qkv_order" && !setting.name.starts_with("input_norm"))
          add_once(names, setting.name);
    std::ranges::sort(names, {}, [](std::string_view name) { return find_setting(name); });
    Json to;
    for (const std::string& name : names) {
      std::vector<Json> values;
      std::set<std::string> keys;
      for (const ReadAs& layer : layers_) {
        std::string value = find_setting(name)->get(Settings()), key;
        for (const auto& setting : layer.translation->settings)
          if (setting.name == name) value = setting.value, key = setting.key;
        values.push_back(Json::parse(typed_value(name, value))), keys.insert(key);
      }
      const bool same = std::ranges::all_of(values, [&](const Json& v) { return v == values[0]; });
      if (same && keys.size() == 1 && !keys.begin()->empty())
        to[name] = "config:" + *keys.begin();
      else if (same)
        to[name] = values[0];
      else
        to[name] = values;
    }
    return to;
  }

  // The ends.

  Json table(std::string_view name, const char* by) {
    const io::Entry* entry = reader().table_entry(name);
    claim(*entry);
    Json step{{"table", name_in_file(*entry)}};
    if (by) step["by"] = by;
    return step;
  }

  Json embed() {
    const Embedding& e = whole_->embedding();
    Json steps = Json::array();
    const auto project = [&](ProjectionPlace place) {
      if (!e.projection.present() || e.projection_place != place) return;
      Json step = linear(reader().model() + std::string(record_.embedding_linear), true,
                         naming::Bias::if_there, false);
      step["linear"] = step["name"], step.erase("name");
      steps.push_back(step);
    };
    steps.push_back(table(record_.tokens, nullptr));
    if (e.scale != 1) steps[0]["scale"] = e.scale;
    if (e.mask_token) steps[0]["drops_mask"] = true;
    project(ProjectionPlace::tokens);
    if (!e.positions.empty()) {
      steps.push_back(table(record_.positions, "position"));
      if (e.pad) steps.back()["first"] = "pad";
      if (e.first_position > 0) steps.back()["first"] = e.first_position;
    }
    if (!e.types.empty()) steps.push_back(table(record_.types, "type"));
    project(ProjectionPlace::sum);
    if (e.norm.present())
      steps.push_back(
          {{"norm", norm_of(reader().model() + std::string(record_.embedding_norm), "")}});
    project(ProjectionPlace::normed);
    return steps;
  }

  Json head() {
    const ModelHead& head = whole_->head();
    const ModelReader read = reader();
    const StoredMatrix* stored = head.decoder.W.stored();
    Json to;
    const auto own = [&](const io::Entry* entry) {
      claim(*entry);
      return name_in_file(*entry);
    };
    const bool tied = stored && stored->matrix.raw() == whole_->embedding().tokens.raw();
    const io::Entry* const bias = read.find(read.head_bias(tied));
    if (tied) {
      to["tied"] = true;
      if (bias) to["bias"] = own(bias);
    } else {
      const std::string name = read.head_name(record_.head);
      Json map = linear(name, ModelReader::has_endings(name), record_.head_has_bias, false);
      if (bias) map["bias"] = own(bias);
      to = map;
    }
    if (head.dense.present()) {
      to["dense"] = shortest(
          linear(read.head_name(record_.head_dense), true, record_.head_dense_bias, false));
      if (!record_.head_activation.empty()) to["activation"] = record_.head_activation;
      if (head.norm.present()) to["norm"] = norm_of(read.head_name(record_.head_norm), "");
    }
    if (head.softcap != 0) to["softcap"] = head.softcap;
    if (head.scale != 1) to["scale"] = head.scale;
    return to;
  }

  ModelRecord record_;
  std::optional<WholeModel> whole_;
  std::set<std::string> fused_; ///< parts that are said together
  std::optional<Form> common_;
};

} // namespace

std::string as_naming(const Sources& model) {
  if (!model.found().empty() && model.found()[0].group.description)
    return spread_description(model.found()[0].group.description->text);
  return Writer(model).text();
}

} // namespace mha
