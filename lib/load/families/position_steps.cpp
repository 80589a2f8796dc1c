// Rotations and windows in a family's file, and those of latent attention.

#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/maths/functions.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <cmath>

namespace mha::naming {

namespace {

/// Whether a layer of SmolLM 3 rotates: no_rope_layers has 1 for those that do (sic); without it,
/// every fourth does not.
std::optional<bool> is_listed(const Group& group) {
  const std::optional<std::size_t> layer = group.number();
  const std::size_t interval = group.configured_count({"no_rope_layer_interval"}, 1).value_or(4);
  if (!layer) return std::nullopt;
  if (const std::optional<std::string> list = group.configured("no_rope_layers"))
    if (const std::optional<std::string> value = element(*list, *layer)) return *value != "0";
  return (*layer + 1) % interval != 0;
}

struct NamedSlides {
  std::string_view name;
  Slides slides;
};
constexpr NamedSlides all_slides[]{
    {"each", nullptr}, // whatever layer_types has
    {"every", every_layer},
    {"even", even_layers},
    {"upper", upper_layers},
    {"last", last_layers},
    {"all_but_every_fourth", all_but_every_fourth},
    {"all_but_every_sixth", all_but_every_sixth},
    {"typed", [](const Group&, std::size_t) { return false; }}, // those of layer_types alone
    {"not_listed",
     [](const Group& group, std::size_t) { return !is_listed(group).value_or(true); }},
    {"all_but_first_of_four", [](const Group&, std::size_t layer) { return layer % 4 != 0; }},
};

std::vector<std::string_view> keys_in(const JsonTree& arguments, std::string_view name,
                                      std::vector<std::string_view> otherwise) {
  const JsonTree* const keys = arguments.find(name);
  return keys ? words_of(keys->as_text(name)) : otherwise;
}

/// The width of a head without the shared part, and that of the shared part, if known.
struct HeadWidths {
  std::optional<double> alone, shared;
};
HeadWidths widths_of_head(const Group& group, const LayerReading& to) {
  HeadWidths parts{to.number({"qk_nope_head_dim"}), to.number({"qk_rope_head_dim"})};
  const Shape down = group.shape("kv_a_proj_with_mqa.weight"),
              norm = group.shape("kv_a_layernorm.weight");
  if (!parts.shared && down.size() == 2 && norm.size() == 1 && norm[0] < down[0])
    parts.shared = static_cast<double>(down[0] - norm[0]);
  const std::optional<std::size_t> width = to.head_width();
  if (!parts.alone && parts.shared && width)
    parts.alone = static_cast<double>(*width) - *parts.shared;
  return parts;
}

/// The scale is 1/√d_k · g² with g = 0.1 mscale_all_dim ln factor + 1 if rope_scaling has both.
void set_scale(LayerReading& to, const HeadWidths& head) {
  const std::optional<double> mscale = rope_number(to, "mscale_all_dim"),
                              factor = rope_number(to, "factor");
  if (mscale.value_or(0) == 0 || factor.value_or(1) <= 1 || !head.alone || !head.shared) return;
  const double g = 0.1 * *mscale * maths::log(*factor) + 1;
  to.set("scale", fmt::format("{}", g * g / std::sqrt(*head.alone + *head.shared)),
         "config.json: mscale_all_dim");
}

} // namespace

/// "none", or {"style": "half", "part": 0.25, "base": 10000, "base_keys": "a b", "part_keys": "a
/// b", "dims_key": "rotary_dim", "layer_type": "", "scaled": true, "fixed": false}: see Rotary.
void step_rotary(LayerReading& to, const JsonTree& arguments) {
  if (arguments.is_text()) return set_no_rotary(to);
  Rotary rotary;
  const JsonTree* const style = arguments.find("style");
  if (!style) arguments.refuse("rotary has no style");
  rotary.style = style->as_text("style");
  rotary.part = number_in(arguments, "part").value_or(rotary.part);
  rotary.base = number_in(arguments, "base").value_or(rotary.base);
  rotary.base_keys = keys_in(arguments, "base_keys", rotary.base_keys);
  rotary.part_keys = keys_in(arguments, "part_keys", rotary.part_keys);
  const std::string dims = text_in(arguments, "dims_key").value_or(""),
                    type = text_in(arguments, "layer_type").value_or("");
  rotary.dims_key = dims, rotary.layer_type = type;
  rotary.scaled = flag_in(arguments, "scaled", true);
  rotary.fixed = flag_in(arguments, "fixed");
  set_rotary(to, rotary);
}

/// A rotation in two dimensions, of patches: of a head's d / 2 pairs the first half turns by the
/// row and the second by the column, pair i of each by base^(−4 i / d). Frequencies of one
/// dimension, base^(−2 p / d) of pair p, become these by longrope's divisors. {"base": NUMBER,
/// "base_key": KEY}
void step_patch_rotary(LayerReading& to, const JsonTree& arguments) {
  const std::string key = text_in(arguments, "base_key").value_or("");
  const std::optional<double> configured =
      key.empty() ? std::nullopt : to.positive_number({std::string_view(key)});
  const double base = configured.value_or(number_in(arguments, "base").value_or(10000));
  const std::optional<std::size_t> width = to.head_width();
  if (!width) return; // the number of heads is missing, which is an error of its own
  if (*width % 4 != 0)
    fail("{}: heads of {} numbers: a multiple of 4 expected for a rotation by rows and columns",
         to.group().contents->name, *width);
  const std::size_t quarter = *width / 4;
  const auto d = static_cast<double>(*width);
  Tensor divisors(DType::f64, {2 * quarter});
  for (std::size_t p = 0; p < 2 * quarter; ++p)
    divisors.as_mutable<double>()[p] =
        maths::pow(base, (4 * static_cast<double>(p % quarter) - 2 * static_cast<double>(p)) / d);
  for (const char* name : {"rope_short_factor", "rope_long_factor"})
    to.parts[name] = {divisors, "the rotation of patches"};
  to.set("rope", "half"), to.set("rope_base", fmt::format("{}", base));
  to.set("rope_scaling", "longrope");
  to.set("mrope_section", fmt::format("0,{},{}", quarter, quarter));
}

/// Some layers do not rotate (NoPE). {"style", "base", "layers"}: the layers that rotate are
/// "listed" in no_rope_layers, or are those with a window, named as in `layers` of a window.
void step_alternating_rotary(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const std::string layers = text_in(arguments, "layers").value_or("listed");
  const bool by_list = layers == "listed";
  const NamedSlides* const row = by_list ? nullptr : find_named(all_slides, layers);
  if (!by_list && !row) arguments.refuse(fmt::format("no layers are called '{}'", layers));
  const std::optional<bool> rotates = by_list ? is_listed(group) : is_sliding(group, row->slides);
  const std::string style = text_in(arguments, "style").value_or("half");
  if (rotates.value_or(true))
    set_rotary(to, {.style = style, .base = number_in(arguments, "base").value_or(10000)});
  else
    set_no_rotary(to), know_rotary(to);
  if (rotates) return;
  if (row && flag_in(arguments, "by_window"))
    to.warn(message(
        "layers of this model without a window do not rotate, and this layer's number is not "
        "known: taken as one that rotates; <rope> none chooses"));
  else
    to.warn(message(
        "some layers of this model do not rotate, and this layer's number is not known: taken "
        "as one that does; <rope> none chooses"));
}

/// Whether no_rope_layers has the layer among those that rotate.
bool layer_rotates(const Group& group) {
  return is_listed(group).value_or(true);
}

bool layer_has_window(const Group& group) {
  return is_sliding(group, all_but_every_fourth).value_or(false);
}

/// {"layers": NAME, "width": 4096, "by_itself": false}: the layers with a window, its width if
/// config.json has none, and whether it is used if config.json has no use_sliding_window.
void step_window(LayerReading& to, const JsonTree& arguments) {
  const std::string layers = text_in(arguments, "layers").value_or("every");
  const NamedSlides* const row = find_named(all_slides, layers);
  if (!row) arguments.refuse(fmt::format("no layers are called '{}'", layers));
  set_window(to, row->slides, static_cast<std::size_t>(number_in(arguments, "width").value_or(0)),
             flag_in(arguments, "by_itself", true));
}

/// The last qk_rope_head_dim dimensions of a head rotate, as pairs of neighbours unless
/// rope_interleave is false.
void step_latent_heads(LayerReading& to, const JsonTree&) {
  const HeadWidths head = widths_of_head(to.group(), to);
  set_rotary(to, {.style = to.is_true({"rope_interleave"}, true) ? "interleaved" : "half"});
  if (head.shared) to.set("rope_dims", fmt::format("{}", *head.shared));
  if (head.alone) to.set("rope_first", fmt::format("{}", *head.alone));
  set_scale(to, head);
}

} // namespace mha::naming
