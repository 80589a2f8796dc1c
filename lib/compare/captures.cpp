#include <mha/compare/captures.hpp>

#include <mha/compare/capture_names.hpp>
#include <mha/compare/names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

namespace {

std::optional<Stage> own_name(std::string_view word) {
  const StageInfo* const info = find_named(stages(), word);
  return info ? std::optional(info->stage) : std::nullopt;
}

/// The end of a path after its module: input or output, and an element of a returned tuple.
struct Side {
  bool input = false;
  std::optional<std::size_t> element;
};

Side take_side(std::vector<std::string>& words) {
  Side side;
  while (!words.empty() && is_number(words.back())) {
    side.element = parse_number<std::size_t>(words.back());
    words.pop_back();
  }
  if (words.empty()) return side;
  if (has_word("input inputs args", words.back()))
    side.input = true;
  else if (!has_word("output outputs", words.back()))
    return side;
  words.pop_back();
  return side;
}

/// Reads the output of a module in the table.
void take_output(const CaptureMeaning& row, const Side& side, const Surroundings& model,
                 Capture& capture) {
  capture.stages = row.output, capture.why = row.why;
  const auto returns = [&](std::initializer_list<Stage> usual, std::optional<Stage> here) {
    if (here && capture.stages == std::vector(usual)) capture.stages.back() = *here;
  };
  using enum Stage;
  if (capture.layer && row.input.size() == 1) { // the module of a whole sublayer
    returns({weights, output}, model.attention_returns);
    returns({weights, mlp_x}, model.attention_returns);
    if (row.input[0] == mlp_x) returns({mlp_out}, model.mlp_returns);
    // A mixture's module returns its router's logits beside its result.
    const bool is_mixture = model.block && model.block->mixture;
    if (is_mixture && side.element == 1 && capture.stages == std::vector{mlp_out})
      capture.stages = {router};
  }
  if (side.element == 1 && capture.stages == std::vector{Stage::weights, Stage::output})
    capture.stages = {Stage::weights};
  if (!capture.layer && capture.stages == std::vector{Stage::final} && !model.last_norm)
    capture.stages = {Stage::resid_post}, capture.of_last = true;
}

/// Reads the result of a module of the layer's own file; returns whether it is one.
bool take_own(const std::vector<std::string>& words, const Surroundings& model, Capture& capture) {
  const auto own = std::ranges::find(model.results, words.back(), &ModuleResult::module);
  if (own == model.results.end()) return false;
  capture.stages.clear(), capture.side_by_side.clear();
  capture.factor = own->factor, capture.factor_name = own->factor_name;
  capture.groups = own->groups;
  (own->stages.size() == 1 ? capture.stages : capture.side_by_side) = own->stages;
  if (own->groups == 0 && model.qkv_order != "per_group") {
    capture.groups = 1, capture.side_by_side.clear();
    for (const char letter : model.qkv_order)
      capture.side_by_side.push_back(*own_name(std::string_view(&letter, 1)));
  }
  return true;
}

/// Reads a name that no row of the table has.
void take_name(const std::vector<std::string>& words, Capture& capture) {
  if (has_word("c_attn qkv_proj Wqkv wqkv qkv", words.back()))
    capture.side_by_side = {Stage::q, Stage::k, Stage::v};
  else if (words.back() == "query_key_value")
    capture.side_by_side = {Stage::q, Stage::k, Stage::v}, capture.groups = 0;
  else if (has_word("gate_up_proj gate_up", words.back()))
    capture.side_by_side = {Stage::mlp_pre, Stage::mlp_up};
  else if (const auto stage = own_name(words.back()))
    capture.stages = {*stage};
  else
    capture.stages = result_stages(tail_of(words, 1));
  capture.anywhere = !capture.layer && (!capture.stages.empty() || !capture.side_by_side.empty());
}

/// Reads a layer's cache: values, or keys as attention reads them.
bool take_cache(const std::vector<std::string>& words, Capture& capture) {
  const auto cache = std::ranges::find_if(words, is_cache);
  if (!capture.layer || cache == words.end()) return false;
  const auto is = [&](std::string_view part, std::string_view caches) {
    return has_word(part, words.back()) || has_word(caches, *cache);
  };
  capture.cached = true;
  if (is("key keys k 0", "key_cache k_cache past_key present_key cache_k cached_key"))
    capture.stages = {Stage::k_rope};
  else if (is("value values v 1", "value_cache v_cache past_value present_value cache_v "
                                  "cached_value"))
    capture.stages = {Stage::v};
  else
    capture.why = "of a cache, but neither its keys nor its values by name";
  return true;
}

/// The meaning of a path.
Capture meaning_of_path(const CapturePath& path, const Surroundings& model) {
  Capture capture;
  std::vector<std::string> words = path.words;
  capture.layer = path.layer;
  // A dump of our own: layers.3.output is attention's, not the layer's.
  if ((path.own_form || words.size() == 1) && !path.node.present())
    if (const auto stage = own_name(words.back());
        stage &&
        (path.own_form || *stage != Stage::output || (!capture.layer && model.one_layer))) {
      capture.stages = {*stage};
      capture.anywhere = !capture.layer && !is_of_model(*stage);
      return capture;
    }
  if (take_cache(words, capture)) return capture;
  if (capture.layer && !words.empty() && words[0].starts_with("final_norm"))
    capture.layer = {}; // ONNX Runtime GenAI counts the last norm as one more layer
  const std::vector<std::string> whole = words;
  const Side side = take_side(words);
  capture.element = side.element;
  if (words.empty() && !capture.layer) words = whole; // "output": the head of LLaMA's own code
  if (words.empty()) {
    capture.is_layer = true;
    capture.stages = {side.input          ? Stage::resid_pre
                      : side.element == 1 ? Stage::residual
                                          : Stage::resid_post};
    if (path.node.present()) take_node_of_layer(path.node, !whole.empty(), model, capture);
    return capture;
  }
  if (!capture.layer && words.size() == 1 &&
      has_word("model transformer gpt_neox bert roberta distilbert", words[0]))
    words[0] = "last_hidden_state"; // the output of the module of all layers
  const CaptureMeaning* row =
      meaning_of(capture.layer ? layer_meanings() : model_meanings(), words, model);
  // A norm that also adds the residual returns its input beside its result.
  const bool norms = row && is_norm(*row);
  if (side.input || (norms && (side.element == 1 || path.node.result == 3))) {
    if (row) capture.stages = row->input;
    capture.of_last = !capture.layer && capture.stages == std::vector{Stage::resid_post};
    if (capture.stages.empty()) capture.why = "the input of a module that is not known";
    return capture;
  }
  if (take_own(words, model, capture))
    capture.anywhere = !capture.layer;
  else if (row && (!row->output.empty() || !row->why.empty()))
    take_output(*row, side, model, capture);
  else
    take_name(words, capture);
  if (path.node.present()) take_node_of_module(path.node, row, whole, model, capture);
  return capture;
}

bool is_known(const Capture& capture) {
  return !capture.stages.empty() || !capture.side_by_side.empty() || !capture.why.empty();
}

} // namespace

Capture capture_of(std::string_view name, const Surroundings& model) {
  Capture capture = meaning_of_path(path_of(name), model);
  if (is_known(capture)) return capture;
  for (const CapturePath& path : flat_paths_of(name)) {
    Capture flat = meaning_of_path(path, model);
    if (is_known(flat)) return flat;
    if (!capture.layer) capture.layer = flat.layer;
  }
  return capture;
}

std::optional<Capture> result_of_module(std::string_view name, const Surroundings& model) {
  CapturePath path = path_of(name);
  const bool is_input = take_side(path.words).input;
  if (is_input || path.words.empty() || path.node.present()) return std::nullopt;
  Capture capture;
  capture.layer = path.layer;
  if (!take_own(path.words, model, capture)) return std::nullopt;
  return capture;
}

std::optional<Capture> side_of_module(std::string_view name) {
  std::vector<std::string> words = path_of(name).words;
  const std::size_t before = words.size();
  const Side side = take_side(words);
  if (words.empty() || words.size() == before || side.element.value_or(0) > 0) return std::nullopt;
  const CaptureMeaning* const row = meaning_of(layer_meanings(), words, {});
  if (!row) return std::nullopt;
  Capture capture;
  capture.why = row->why;
  if (side.input)
    capture.stages = row->input;
  else
    capture.stages = row->output.empty() ? result_stages(words.back()) : row->output;
  return capture;
}

std::vector<Stage> stages_below_module(std::string_view name) {
  const std::vector<std::string> words = path_of(without_layer_suffix(name).first).words;
  const CaptureMeaning* row = meaning_of(layer_meanings(), words, {}, 2);
  return row ? row->output : std::vector<Stage>{};
}

std::vector<CaptureRow> capture_rows() {
  std::vector<CaptureRow> rows;
  for (const CaptureMeaning& row : layer_meanings())
    rows.push_back({row.words, row.output, row.input, false});
  for (const CaptureMeaning& row : model_meanings())
    rows.push_back({row.words, row.output, row.input, true});
  return rows;
}

} // namespace mha
