#include <mha/load/as_naming.hpp>

#include <mha/layer/names.hpp>
#include <mha/load/described.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/load/named_layers.hpp>
#include <mha/load/whole_model.hpp>
#include <mha/system/one_of.hpp>

#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace mha {

namespace {

using Json = nlohmann::ordered_json;
using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::Found;
using naming::Group;
using naming::LayerReading;

class Writer : NamedAttention {
public:
  explicit Writer(const Sources& model) {
    if (model.found().empty())
      fail("{}: no layer is found in it: write a description", model.title());
    std::vector<Found> layers; // the text model's; of a file of another part alone, that part's
    for (const Found& layer : model.found())
      if (!layer.group.within({"vision", "visual", "audio"})) layers.push_back(layer);
    if (layers.empty()) layers = model.found();
    const Found& first = layers[0];
    family_ = first.family;
    if (naming::has_whole_model(*family_)) {
      whole_.emplace(model.found());
      description_ = naming::model_of(*family_, first.group);
      refuse_mixtures(model.title());
    }
    for (const Found& layer : layers)
      add_layer(layer, whole_ ? block_prefix(layer.group, *description_) : layer.group.prefix);
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
    top["block"] = whole ? shapes[static_cast<std::size_t>(description_->block)] : "attention_only";
    if (whole && description_->tensor("mlp.out")) top["activation"] = activation();
    if (const Json form = norm_form(); !form.is_null()) top["norm"] = form;
    if (whole)
      if (const double scale = description_->residual_scale.number(first()).value_or(1); scale != 1)
        top["residual_scale"] = scale;
    if (whole) top["embed"] = embed();
    top["tensors"] = tensors();
    if (whole) {
      if (whole_->last_norm().present()) top["final_norm"] = norm_of("final_norm");
      if (whole_->head().present()) top["head"] = head();
    }
    if (Json settings = settings_of_layers(); !settings.empty()) top["settings"] = settings;
    if (const auto list = unclaimed(); !list.empty()) top["ignore"] = list;
    return spread_description(top.dump());
  }

private:
  void refuse_mixtures(const std::string& title) const {
    for (std::size_t n = 0; n < whole_->layers().size(); ++n)
      if (whole_->block(n)->mixture)
        fail("{}: layer {} has a mixture of experts, whose description is not printed: write it by "
             "hand (docs/describing.md has Mixtral's)",
             title, whole_->layers()[n]);
  }

  const Group& first() const { return layers_[0].group; }
  DescribedFile file() const { return {*description_, first()}; }

  static void set_bias(Json& to, const std::optional<std::string>& bias) {
    if (bias) to["bias"] = bias->empty() ? Json(false) : Json(*bias);
  }

  /// A tensor's object, or its name alone where it has no other member.
  static Json shortest(const Json& tensor, const char* name = "name") {
    return tensor.size() == 1 && tensor.contains(name) ? tensor[name] : tensor;
  }

  Json linear(const char* key) {
    const DescribedTensor& described = *description_->tensor(key);
    const bool below = naming::is_of_layer(key),
               biased = file().biased(described) != naming::Bias::never;
    const io::Entry *const W = file().weight(described), *const b = biased ? file().bias(described)
                                                                           : nullptr;
    claim(*W);
    Json tensor;
    tensor["name"] = below ? below_block(*W) : name_in_file(*W);
    if (described.layout == "io") tensor["layout"] = "io";
    set_bias(tensor, named_bias(*W, b, below ? &layers_[0] : nullptr));
    return tensor;
  }

  Json activation() const {
    for (const std::string& key : description_->activation.keys)
      if (first().configured(key)) return fmt::format("config:{}", key);
    return description_->activation.constant.value_or("gelu");
  }

  // Norms.

  struct NormForm {
    std::string_view kind;
    double eps = 0;
    bool one_plus = false, bare = false;
    bool operator==(const NormForm&) const = default;
  };

  static NormForm form_of(const Norm& norm) {
    return {norm.kind == InputNorm::rms ? "rms" : "layer", norm.eps, norm.one_plus,
            norm.weight.empty()};
  }
  static void add_form(Json& to, const NormForm& form) {
    to["kind"] = form.kind, to["eps"] = form.eps;
    if (form.one_plus) to["one_plus"] = true;
  }

  std::optional<NormForm> input_form() const {
    const LayerReading& read = *layer_with_norm().read;
    const naming::InputNormalisation& norm = read.norm;
    if (norm.kind != naming::NormKind::layer && norm.kind != naming::NormKind::rms)
      return std::nullopt;
    if (!norm.weight && norm.needs_weight) return std::nullopt;
    NormForm form{norm.kind == naming::NormKind::rms ? "rms" : "layer", 1e-5, norm.one_plus,
                  !norm.weight};
    for (const auto& setting : read.settings)
      if (setting.name == "input_norm_eps") form.eps = Json::parse(setting.value).get<double>();
    return form;
  }

  Json norm_form() {
    common_ = whole_ ? common_form() : std::nullopt;
    if (!common_) common_ = input_form();
    if (common_) common_->bare = false;
    if (!common_) return nullptr;
    Json to;
    add_form(to, *common_);
    return to;
  }

  /// `of` is the norm's layer; null: a norm of the model's ends.
  Json norm_json(const NormForm& form, const io::Entry* weight, const io::Entry* bias,
                 const ReadAs* of) {
    Json to;
    NormForm shown = form;
    shown.bare = false;
    if (weight) {
      claim(*weight);
      to["weight"] = of ? below_block(*weight, *of) : name_in_file(*weight);
      if (form.kind == "layer") set_bias(to, named_bias(*weight, bias, of));
    } else {
      to["affine"] = false;
    }
    if (!common_ || shown != *common_) add_form(to, shown);
    return shortest(to, "weight");
  }

  /// The default of the whole model's norms; nothing where it has none.
  std::optional<NormForm> common_form() const {
    const DescribedNorm& described = description_->norm_form;
    if (described.kind == "none") return std::nullopt;
    return NormForm{described.kind == "rms" ? "rms" : "layer",
                    naming::epsilon_of(described, first()), described.one_plus, false};
  }

  Json norm_of(const char* key) {
    const DescribedNorm& described = *description_->norm(key);
    const io::Entry *const weight = file().weight(described), *const bias = file().bias(described);
    NormForm form = form_of(ModelReader(first(), *description_).form(described));
    form.bare = !weight;
    return norm_json(form, weight, form.kind == "layer" ? bias : nullptr,
                     naming::is_of_layer(key) ? &layers_[0] : nullptr);
  }

  void add_norms(Json& to) {
    if (const auto form = input_form()) {
      const ReadAs& layer = layer_with_norm();
      const naming::InputNormalisation& norm = layer.read->norm;
      const auto entry = [](const std::optional<io::Entry>& of) { return of ? &*of : nullptr; };
      Json object = norm_json(*form, entry(norm.weight), entry(norm.bias), &layer);
      if (&layer != &layers_[0]) {
        if (!object.is_object()) object = {{"weight", object}};
        object["optional"] = true;
      }
      to["norm"] = object;
    }
    if (!whole_) return;
    const bool sandwich = description_->block == BlockShape::sandwich;
    for (const char* key : {"post_norm", "norm", "mlp.norm", "mlp.post_norm", "mlp.inner_norm"}) {
      const std::string_view name = key;
      if (name == "norm" && description_->normalises_before()) continue; // above
      if (name.ends_with("post_norm") && !sandwich) continue;
      if (description_->norm(key)) to[key] = norm_of(key);
    }
  }

  // The layers.

  static Json tensor_json(const naming::DescribedTensor& described) {
    if (!described.values.empty()) return {{"values", described.values}};
    Json tensor{{"name", described.name}};
    if (!described.layout.empty()) tensor["layout"] = described.layout;
    set_bias(tensor, described.bias);
    if (!described.split.empty())
      tensor["split"] = fmt::format("{}", fmt::join(described.split, ","));
    if (described.by_head) tensor["by"] = "head";
    if (described.groups > 0) tensor["groups"] = described.groups;
    return shortest(tensor);
  }

  Json tensors() {
    Json to;
    for (const auto& [key, described] : attention()) to[key] = tensor_json(described);
    if (whole_ && description_->tensor("mlp.out")) add_feed_forward(to);
    add_norms(to);
    return to;
  }

  void add_feed_forward(Json& to) {
    for (const char* key : {"mlp.in_up", "mlp.in", "mlp.product_bias", "mlp.up", "mlp.out"}) {
      const DescribedTensor* const described = description_->tensor(key);
      if (!described) continue;
      const io::Entry* const entry = file().weight(*described);
      if (described->key != "mlp.product_bias")
        to[key] = shortest(linear(key));
      else if (entry)
        to[key] = below_block(*entry);
    }
  }

  Json settings_of_layers() const {
    std::vector<std::string> names;
    for (const ReadAs& layer : layers_)
      for (const auto& setting : layer.read->settings)
        if (setting.name != "qkv_order" && !setting.name.starts_with("input_norm"))
          add_once(names, setting.name);
    std::ranges::sort(names, {}, [](std::string_view name) { return find_setting(name); });
    Json to;
    for (const std::string& name : names) {
      std::vector<Json> values;
      std::set<std::string> keys;
      for (const ReadAs& layer : layers_) {
        std::string value = find_setting(name)->get(Settings()), key;
        for (const auto& setting : layer.read->settings)
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

  Json table(const char* key, const char* by) {
    const io::Entry* entry = file().table(*description_->tensor(key));
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
      Json step = linear("embed.linear");
      step["linear"] = step["name"], step.erase("name");
      steps.push_back(step);
    };
    steps.push_back(table("embed.token", nullptr));
    if (e.scale != 1) steps[0]["scale"] = e.scale;
    if (e.mask_token) steps[0]["drops_mask"] = true;
    project(ProjectionPlace::tokens);
    if (!e.positions.empty()) {
      steps.push_back(table("embed.position", "position"));
      if (e.pad) steps.back()["first"] = "pad";
      if (e.first_position > 0) steps.back()["first"] = e.first_position;
    }
    if (!e.types.empty()) steps.push_back(table("embed.type", "type"));
    project(ProjectionPlace::sum);
    if (e.norm.present()) steps.push_back({{"norm", norm_of("embed.norm")}});
    project(ProjectionPlace::normed);
    return steps;
  }

  Json head() {
    const ModelHead& head = whole_->head();
    const StoredMatrix* stored = head.decoder.W.stored();
    Json to;
    const auto own = [&](const io::Entry* entry) {
      claim(*entry);
      return name_in_file(*entry);
    };
    const bool tied = stored && stored->matrix.raw() == whole_->embedding().tokens.raw();
    const io::Entry* const bias = ModelReader(first(), *description_).head_bias(tied);
    if (tied) {
      to["tied"] = true;
      if (bias) to["bias"] = own(bias);
    } else {
      Json map = linear("head");
      if (bias) map["bias"] = own(bias);
      to = map;
    }
    if (head.dense.present()) {
      to["dense"] = shortest(linear("head.dense"));
      if (description_->head_activation.is_given())
        to["activation"] = *description_->head_activation.constant;
      if (head.norm.present()) to["norm"] = norm_of("head.norm");
    }
    if (head.softcap != 0) to["softcap"] = head.softcap;
    if (head.scale != 1) to["scale"] = head.scale;
    return to;
  }

  std::shared_ptr<const naming::Description> description_;
  std::optional<WholeModel> whole_;
  std::optional<NormForm> common_;
};

} // namespace

std::string as_naming(const Sources& model) {
  if (!model.found().empty() && model.found()[0].group.description)
    return spread_description(model.found()[0].group.description->text);
  return Writer(model).text();
}

} // namespace mha
