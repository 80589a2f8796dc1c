#include <mha/load/as_naming.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/as_naming_text.hpp>
#include <mha/load/described.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/load/named_attention.hpp>
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

class Writer : NamedAttention {
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

  static void set_bias(Json& to, const std::optional<std::string>& bias) {
    if (bias) to["bias"] = bias->empty() ? Json(false) : Json(*bias);
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
    set_bias(tensor, bias_said(*W, b, below ? &layers_[0] : nullptr));
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
      if (form.kind == "layer") set_bias(to, bias_said(*weight, bias, of));
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

  static Json tensor_json(const naming::DescribedTensor& said) {
    if (!said.values.empty()) return {{"values", said.values}};
    Json tensor{{"name", said.name}};
    if (!said.layout.empty()) tensor["layout"] = said.layout;
    set_bias(tensor, said.bias);
    if (!said.split.empty()) tensor["split"] = fmt::format("{}", fmt::join(said.split, ","));
    if (said.by_head) tensor["by"] = "head";
    if (said.groups > 0) tensor["groups"] = said.groups;
    return shortest(tensor);
  }

  Json tensors() {
    Json to;
    for (const auto& [key, said] : attention()) to[key] = tensor_json(said);
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
  std::optional<Form> common_;
};

} // namespace

std::string as_naming(const Sources& model) {
  if (!model.found().empty() && model.found()[0].group.description)
    return spread_description(model.found()[0].group.description->text);
  return Writer(model).text();
}

} // namespace mha
