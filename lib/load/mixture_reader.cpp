// Reads a mixture of experts by its description: router, routing, experts one by one or stacked.

#include <mha/load/described_names.hpp>
#include <mha/load/families/config_keys.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parse.hpp>
#include <mha/tensor/blocks.hpp>
#include <mha/tensor/parts.hpp>

#include <cmath>

namespace mha {

using naming::DescribedTensor;
using naming::DescribedValue;

namespace {

/// A tensor that is read when it is needed: of many experts few are chosen.
Tensor read_later(const naming::Group& group, const io::Entry& entry) {
  group.use(entry);
  if (group.outline) return group.read(entry);
  return Tensor::read_later(entry.dtype, entry.shape, entry.read);
}

/// Every second column (or number of a vector), from `first` on.
Tensor every_second(const Tensor& from, std::size_t first) {
  const std::size_t width = from.shape().back();
  std::vector<std::size_t> columns;
  for (std::size_t i = first; i < width; i += 2) columns.push_back(i);
  return at_positions(from, from.rank() - 1, columns);
}

/// The gate or the other factor of a map that gives both: its first or second half, or every
/// second output.
LinearMap part_of(const LinearMap& both, bool second, bool alternate) {
  const std::size_t half = both.out() / 2, first = second ? half : 0;
  LinearMap part;
  if (alternate) {
    part.W = Tensor::read_later(both.W.dtype(), {both.in(), half},
                                [W = both.W, second] { return every_second(W, second ? 1 : 0); });
    if (!both.b.empty()) part.b = every_second(both.b, second ? 1 : 0);
    return part;
  }
  part.W = Tensor::read_later(both.W.dtype(), {both.in(), half}, [W = both.W, first, half] {
    return columns_when_read(W, first, half);
  });
  if (!both.b.empty()) part.b = part_of_axis(both.b, 0, first, half);
  return part;
}

template <class Enum> struct Word {
  std::string_view name;
  Enum value;
};
constexpr Word<RouterScore> scores[]{{"softmax", RouterScore::softmax},
                                     {"sigmoid", RouterScore::sigmoid},
                                     {"sqrt_softplus", RouterScore::sqrt_softplus},
                                     {"logits", RouterScore::logits}};
constexpr Word<GroupScore> group_scores[]{{"top_two", GroupScore::top_two},
                                          {"maximum", GroupScore::maximum}};
constexpr Word<bool> masks[]{{"zero", true}, {"minus_infinity", false}};
constexpr Word<ExpertWeight> weights[]{{"as_is", ExpertWeight::as_is},
                                       {"renormalised", ExpertWeight::renormalised},
                                       {"softmax_chosen", ExpertWeight::softmax_chosen}};

/// Reads the settings of a layer's mixture.
class RoutingReader {
public:
  RoutingReader(const naming::Group& group, const naming::Description& description)
      : group_(group), description_(description) {}

  Routing routing(std::size_t experts) const {
    Routing routing;
    routing.chosen = count("experts_per_token").value_or(0);
    if (routing.chosen < 1 || routing.chosen > experts)
      refuse("experts_per_token",
             fmt::format("1 to {} expected, as there are {} experts", experts, experts));
    take("router_score", scores, routing.score);
    routing.softcap = number("router_softcap").value_or(0);
    if (!(routing.softcap >= 0)) refuse("router_softcap", "a number from 0 on expected");
    take("router_weight", weights, routing.weight);
    take("group_score", group_scores, routing.group_score);
    take("masked_groups", masks, routing.masked_are_zero);
    routing.groups = count("router_groups").value_or(1);
    routing.kept_groups = count("router_kept_groups").value_or(routing.groups);
    if (routing.groups < 1 || experts % routing.groups != 0)
      refuse("router_groups", fmt::format("a divisor of {}, the experts, expected", experts));
    if (routing.kept_groups < 1 || routing.kept_groups > routing.groups ||
        (!routing.masked_are_zero &&
         routing.kept_groups * (experts / routing.groups) < routing.chosen))
      refuse("router_kept_groups", fmt::format("1 to {} groups expected, that have {} experts",
                                               routing.groups, routing.chosen));
    routing.factor = number("router_factor").value_or(1);
    routing.weighs_input = text("weigh_input").value_or("false") == "true";
    return routing;
  }

  ExpertForm form() const {
    ExpertForm form;
    const std::string name = text("experts_activation").value_or("silu");
    constexpr std::string_view of_gpt_oss = "swiglu_oai";
    const std::optional<Activation> known =
        name == of_gpt_oss ? Activation::gelu_quick : activation_named(name);
    if (!known)
      refuse("experts_activation",
             fmt::format("{} or {} expected", activation_names(), of_gpt_oss));
    form.activation = *known, form.up_plus_one = name == of_gpt_oss;
    form.clamp = clamp("experts_clamp");
    return form;
  }

  /// The limits of experts, or of shared ones and dense feed-forwards.
  Clamp clamp(std::string_view name) const {
    const Clamp clamp{number(name).value_or(0), text("clamp_activated") == "true"};
    if (!(clamp.limit >= 0)) refuse(name, "a number from 0 on expected");
    return clamp;
  }

private:
  const DescribedValue* value(std::string_view name) const {
    const auto at = description_.settings.find(std::string(name));
    return at == description_.settings.end() ? nullptr : &at->second;
  }
  /// The value for the layer; config.json may have a list of one a layer.
  std::optional<std::string> text(std::string_view name) const {
    const DescribedValue* const described = value(name);
    const std::size_t layer = group_.number().value_or(0);
    if (!described) return std::nullopt;
    const std::optional<std::string> found = described->value(group_, layer);
    const bool is_list = found && (found->starts_with('[') || found->find(',') != found->npos);
    const std::optional<std::string> own = is_list ? naming::element(*found, layer) : found;
    return own == "null" ? std::nullopt : own;
  }
  std::optional<double> number(std::string_view name) const {
    const std::optional<std::string> found = text(name);
    if (!found) return std::nullopt;
    const std::optional<double> number = parse_number<double>(*found);
    if (!number || !std::isfinite(*number)) refuse(name, "a number expected");
    return number;
  }
  std::optional<std::size_t> count(std::string_view name) const {
    const std::optional<double> found = number(name);
    if (!found) return std::nullopt;
    if (!(*found >= 0 && *found <= 1e6) || *found != std::floor(*found))
      refuse(name, "a whole number expected");
    return static_cast<std::size_t>(*found);
  }
  template <class Words, class Enum>
  void take(std::string_view name, const Words& words, Enum& to) const {
    const std::optional<std::string> given = text(name);
    if (!given) return;
    if (const auto* const row = find_named(words, *given)) {
      to = row->value;
      return;
    }
    refuse(name, choices_for(*given, names_of_rows(words)));
  }
  [[noreturn]] void refuse(std::string_view name, const std::string& expected) const {
    fail("{}: {} is {}: {}", group_.contents->name, name,
         value(name) ? text(name).value_or("missing") : "missing", expected);
  }

  const naming::Group& group_;
  const naming::Description& description_;
};

/// Throws Error where a layer without a router has a tensor of a mixture.
void require_no_experts(const DescribedFile& file, const naming::Description& description,
                        const naming::Group& group) {
  const DescribedTensor* const router = description.tensor("W_router");
  if (!router) return;
  const std::string_view name = std::string_view(router->name).substr(0, router->name.find('|'));
  for (const auto& [key, tensor] : description.tensors)
    if (naming::is_of_mixture(key))
      if (const io::Entry* const part = file.weight(tensor))
        fail("{}: {} is of a mixture of experts, and its router, {}, is missing",
             group.contents->name, part->name, file.whole_name("W_router", name));
}

} // namespace

/// The maps of a mixture's experts, one a tensor.
std::vector<LinearMap> ModelReader::one_by_one(const DescribedTensor& tensor) const {
  std::vector<LinearMap> maps;
  for (const DescribedFile::Map& map : file_.maps_of_experts(tensor)) {
    LinearMap& one = maps.emplace_back();
    one.W = read_later(group_, map.W);
    if (map.b) one.b = group_.read(*map.b);
  }
  return maps;
}

/// The maps of a mixture's experts that are stacked in one tensor.
std::vector<LinearMap> ModelReader::stacked(const DescribedTensor& tensor) const {
  const io::Entry& entry = *file_.weight(tensor);
  const bool outputs_first = tensor.layout == "hoi";
  if (tensor.layout.size() != 3 || tensor.layout[0] != 'h' || entry.shape.size() != 3)
    fail("{}: {} is {}: experts, inputs and outputs expected", group_.contents->name, entry.name,
         to_string(entry.shape));
  if (!is_floating(entry.dtype))
    fail("{}: {} is {}: quantised weights are not read here; dequantise them first",
         group_.contents->name, entry.name, name_of(entry.dtype));
  const Tensor all = group_.read(entry);
  const io::Entry* const bias = file_.bias(tensor);
  const Tensor b = bias ? group_.read(*bias) : Tensor();
  const std::size_t out = entry.shape[outputs_first ? 1 : 2];
  if (bias && b.shape() != Shape{entry.shape[0], out})
    fail("{}: {} is {}: {} expected", group_.contents->name, bias->name, to_string(b.shape()),
         to_string(Shape{entry.shape[0], out}));
  std::vector<LinearMap> maps(entry.shape[0]);
  for (std::size_t e = 0; e < maps.size(); ++e) {
    maps[e].W = outputs_first ? transposed_when_read(all.at(e)) : all.at(e);
    if (!b.empty()) maps[e].b = b.at(e);
  }
  return maps;
}

/// The maps of a mixture's experts that are stacked as blocks of MXFP4, gate and other factor, or
/// outputs, first: "mlp.experts.down_proj_blocks" (E, out, in / 32, 16).
std::vector<LinearMap> ModelReader::in_blocks(const DescribedTensor& tensor) const {
  const io::Entry &blocks = *beside(tensor, "_blocks"), *const scales = beside(tensor, "_scales");
  if (!scales)
    fail("{}: {} has no scales: {}_scales expected beside it", group_.contents->name, blocks.name,
         file_.whole_name(tensor.key, tensor.name));
  Shape of_scales = blocks.shape;
  const bool is_of_bytes = !of_scales.empty() && of_scales.back() == 16;
  if (is_of_bytes) of_scales.pop_back();
  if (!is_of_bytes || of_scales.size() != 3 || scales->shape != of_scales ||
      blocks.dtype != DType::u8 || scales->dtype != DType::u8)
    fail("{}: {} is {} {} and {} {} {}: uint8 of (E, out, in / 32, 16) and (E, out, in / 32) "
         "expected",
         group_.contents->name, blocks.name, name_of(blocks.dtype), to_string(blocks.shape),
         scales->name, name_of(scales->dtype), to_string(scales->shape));
  const Tensor all = group_.read(blocks), exponents = group_.read(*scales);
  const io::Entry* const bias = file_.bias(tensor);
  const Tensor b = bias ? group_.read(*bias) : Tensor();
  constexpr std::size_t numbers = 32;
  const std::size_t out = of_scales[1], in = of_scales[2] * numbers;
  if (bias && b.shape() != Shape{of_scales[0], out})
    fail("{}: {} is {}: {} expected", group_.contents->name, bias->name, to_string(b.shape()),
         to_string(Shape{of_scales[0], out}));
  std::vector<LinearMap> maps(of_scales[0]);
  for (std::size_t e = 0; e < maps.size(); ++e) {
    const Tensor rows =
        Tensor::read_later(DType::bf16, {out, in}, [codes = all.at(e), scale = exponents.at(e)] {
          return mxfp4_with_scales(codes, scale);
        });
    maps[e].W =
        Tensor::read_later(DType::bf16, {in, out}, [rows] { return transposed_when_read(rows); });
    if (!b.empty()) maps[e].b = b.at(e);
  }
  return maps;
}

/// The tensor whose name ends otherwise.
const io::Entry* ModelReader::beside(const DescribedTensor& tensor, std::string_view ending) const {
  return group_.elsewhere(file_.whole_name(tensor.key, tensor.name) + std::string(ending));
}

/// The description of a tensor that the file has, or has to have.
const DescribedTensor* ModelReader::present(const char* key) const {
  const DescribedTensor* const tensor = description_.tensor(key);
  if (!tensor) return nullptr;
  const bool is_required = !tensor->optional && description_.is_users(*tensor);
  return is_required || file_.weight(*tensor) || beside(*tensor, "_blocks") ? tensor : nullptr;
}

std::vector<LinearMap> ModelReader::experts(const char* key, std::size_t in,
                                            std::size_t out) const {
  const DescribedTensor* const tensor = present(key);
  if (!tensor) return {};
  std::vector<LinearMap> maps = head_mark_in(tensor->name) != std::string::npos
                                    ? one_by_one(*tensor)
                                : file_.weight(*tensor) ? stacked(*tensor)
                                                        : in_blocks(*tensor);
  for (std::size_t e = 0; e < maps.size(); ++e) {
    const LinearMap& map = maps[e];
    if (map.in() != in || (out > 0 && map.out() != out))
      fail("{}: {} of expert {} takes {} and gives {}, but {}{} expected", group_.contents->name,
           key, e, map.in(), map.out(), in,
           out > 0 ? fmt::format(" and {} are", out) : " taken are");
    if (!map.b.empty() && map.b.count() != map.out())
      fail("{}: the bias of {} of expert {} is {}: {} expected", group_.contents->name, key, e,
           to_string(map.b.shape()), counted(map.out(), "numbers"));
  }
  return maps;
}

/// Throws Error where the description has the other factor that the file lacks.
void ModelReader::require_no_factor(const char* key, const char* whose) const {
  if (const DescribedTensor* const up = description_.tensor(key))
    fail("{}: {} is missing, the {} other factor; {}", group_.contents->name,
         file_.whole_name(up->key, with_head(up->name, 0)), whose, give_X_instead);
}

/// Reads the first maps: apart, or gate and other factor in one.
void ModelReader::read_first_maps(std::size_t width, Mixture& mixture) const {
  mixture.in = experts("experts.in", width);
  if (!mixture.in.empty()) {
    mixture.up = experts("experts.up", width, mixture.in[0].out());
    if (mixture.up.empty()) require_no_factor("experts.up", "experts'");
    return;
  }
  const std::vector<LinearMap> both = experts("experts.in_up", width);
  if (both.empty())
    fail("{}: {} has a router, but no experts: {} is missing; {}", group_.contents->name,
         file_.block(), description_.tensor("experts.in") ? "experts.in" : "experts.in_up",
         give_X_instead);
  const DescribedTensor& tensor = *description_.tensor("experts.in_up");
  for (const LinearMap& map : both) {
    if (map.out() % 2 != 0)
      fail("{}: {} gives {} numbers: a gate and as many of the other factor expected",
           group_.contents->name, tensor.name, map.out());
    const bool gate_first = tensor.split.empty() || tensor.split[0] == "in";
    mixture.in.push_back(part_of(map, !gate_first, tensor.by_row));
    mixture.up.push_back(part_of(map, gate_first, tensor.by_row));
  }
}

Clamp ModelReader::clamp() const {
  return RoutingReader(group_, description_).clamp("mlp_clamp");
}

/// A vector with a number for each expert; none where the model has none.
Tensor ModelReader::one_each(const char* key, std::size_t experts) const {
  const DescribedTensor* const tensor = description_.tensor(key);
  if (!tensor) return {};
  if (!present(key)) return require_as_beside(*tensor), Tensor();
  Tensor numbers = group_.read(file_.as_stored(*tensor));
  if (numbers.count() != experts)
    fail("{}: {} is {}: {} expected, one for each expert", group_.contents->name, tensor->name,
         to_string(numbers.shape()), counted(experts, "numbers"));
  return numbers;
}

std::shared_ptr<const Mixture> ModelReader::mixture(std::size_t width) const {
  if (!present("W_router")) {
    require_no_experts(file_, description_, group_);
    return nullptr;
  }
  auto mixture = std::make_shared<Mixture>();
  mixture->router = linear("W_router", width);
  const std::size_t count = mixture->router.out();
  const RoutingReader settings(group_, description_);
  mixture->routing = settings.routing(count);
  mixture->form = settings.form();
  mixture->routing.bias = one_each("router_bias", count);
  mixture->routing.factors = one_each("expert_factors", count);
  mixture->router_norm = norm("router.norm", width);
  mixture->experts_norm = norm("experts.norm", width);
  mixture->norm_of_sum = norm("experts.post_norm", width);
  mixture->norm_of_shared = norm("shared.post_norm", width);
  read_first_maps(width, *mixture);
  const std::size_t inner = mixture->in[0].out();
  mixture->out = experts("experts.out", inner, width);
  if (mixture->out.empty()) mixture->out = experts("experts.out_stacked", inner, width);
  for (const auto& [key, maps] : {std::pair("experts.in", &mixture->in),
                                  {"experts.up", &mixture->up},
                                  {"experts.out", &mixture->out}})
    if (maps->size() != count && !(maps == &mixture->up && maps->empty()))
      fail("{}: {}: {} of {} experts, but its router chooses among {}", group_.contents->name,
           file_.block(), key, maps->size(), count);
  if (present("shared.out")) {
    FeedForward& shared = mixture->shared;
    shared.activation = mixture->form.activation;
    shared.clamp = settings.clamp("mlp_clamp");
    if (const DescribedTensor* const both = present("shared.in_up")) {
      const LinearMap map = linear("shared.in_up", width);
      const bool gate_first = both->split.empty() || both->split[0] == "in";
      shared.in = part_of(map, !gate_first, false), shared.up = part_of(map, gate_first, false);
    } else {
      shared.in = linear("shared.in", width);
      if (present("shared.up"))
        shared.up = linear("shared.up", width, shared.in.out());
      else
        require_no_factor("shared.up", "shared experts'");
    }
    shared.out = linear("shared.out", shared.in.out(), width);
    if (present("W_shared_gate")) mixture->shared_gate = linear("W_shared_gate", width, 1);
  }
  return mixture;
}

} // namespace mha
