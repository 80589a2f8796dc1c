#include <mha/compare/names.hpp>
#include <mha/compare/other_readings.hpp>
#include <mha/compare/reader.hpp>
#include <mha/files/text.hpp>
#include <mha/naming/infer_axes.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mha {

namespace {

/// The layer number in a name: "layers.3.attn", "Qcur-3".
std::optional<std::size_t> layer_of(std::string_view name) {
  if (const auto number = naming::layer_number(std::string(name))) return number;
  return without_layer_suffix(name).second;
}

/// Whether the layer adds a bias to the product that makes a stage.
bool has_bias(const Layer& layer, Stage stage) {
  const FeedForward* mlp = layer.block ? &layer.block->mlp : nullptr;
  switch (stage) {
  case Stage::q:
    return !layer.b_q.empty();
  case Stage::k:
    return !layer.b_k.empty();
  case Stage::v:
    return !layer.b_v.empty();
  case Stage::output:
    return !layer.b_o.empty();
  case Stage::mlp_pre:
    return mlp && !mlp->in.b.empty();
  case Stage::mlp_up:
    return mlp && !mlp->up.b.empty();
  case Stage::mlp_out:
    return mlp && !mlp->out.b.empty();
  case Stage::logits:
    return layer.ends && !layer.ends->head.decoder.b.empty();
  default:
    return false;
  }
}

} // namespace

bool Reader::is_elsewhere(const std::string& name) const {
  if (model_) return place_of(name) != id_;
  const std::optional<std::size_t> number = layer_of(name);
  return number && !id_.empty() && std::to_string(*number) != id_ &&
         !name.starts_with(fmt::format("layers.{}.", id_));
}

/// The layer of a name in a whole model; "": the model's ends.
std::string Reader::place_of(const std::string& name) const {
  const Capture capture = capture_of(name, around_);
  if (capture.of_last) return number_is_mine(model_->layers - 1 + first_number_) ? id_ : "another";
  if (capture.layer) return number_is_mine(*capture.layer) ? id_ : "another";
  return capture.anywhere && around_.one_layer ? id_ : "";
}

void Reader::bind(const io::Source& source, bool own) {
  set_own(own);
  if (model_ && is_elsewhere(source.name)) return;
  const io::Entry entry = io::bound_entry(source);
  const std::string where = io::shown(source.text);
  if (model_ && id_.empty())
    if (const Capture capture = capture_of(source.name, around_); capture.anywhere)
      fail("{}: of which layer? Give <layers.N.{}=…>, or choose one with <layer>", where,
           source.name);
  const Named named{source.name,
                    where,
                    &entry,
                    source.axes,
                    true,
                    {},
                    fmt::format("{}: {}", source.path, entry.name)};
  const std::optional<Capture> result =
      source.axes.empty() ? result_of_module(source.name, around_) : std::nullopt;
  if (result)
    take_result(named, *result);
  else
    take(named);
}

/// The meaning of a name that depends on other tensors of its file, or on the layer.
std::optional<Stage> Reader::stage_beside(const io::Contents& contents, const io::Entry& entry,
                                          const Capture& capture) const {
  const std::string& name = entry.name;
  if (capture.cached && capture.stages == std::vector{Stage::k_rope})
    return has_step(layer_, Stage::k_rope)   ? Stage::k_rope
           : has_step(layer_, Stage::k_norm) ? Stage::k_norm
                                             : Stage::k;
  if (capture.is_layer && capture.element == 0) { // vLLM's pair: the result apart from the residual
    std::string other = name;
    other[other.rfind('0')] = '1';
    const io::Entry* residual = contents.find(other);
    if (residual && residual->shape == entry.shape) return Stage::mlp_out;
  }
  // If the projection is fused, the activation's module also multiplies by the other factor (vLLM).
  if (const std::size_t at = name.rfind("act_fn"); at != std::string::npos)
    for (const char* fused : {"gate_up_proj", "gate_up"})
      if (contents.find(std::string(name).replace(at, 6, fused))) return Stage::mlp_act;
  // SGLang dumps rotated queries and keys under the module that rotates them.
  if (const std::size_t at = name.rfind("rotary_emb."); at != std::string::npos)
    if (const io::Entry* queries = contents.find(name.substr(0, at) + "rotary_emb.0");
        queries && !queries->shape.empty() && capture.element &&
        queries->shape.back() == width_side_by_side(layer_, {Stage::q_rope}))
      return *capture.element == 0 ? Stage::q_rope : Stage::k_rope;
  return std::nullopt;
}

/// Why a tensor with a step's name is not that step, by other tensors of its file or by the layer;
/// "" if it is.
std::string Reader::why_not_a_step(const io::Contents& contents, const io::Entry& entry,
                                   const Capture& capture) const {
  if (entry.name == "model" && contents.find("model.forward_batch_info.input_ids"))
    return "SGLang writes it into the next pass's file: it is of another text";
  const bool empty = is_one_of(0, entry.shape);
  if (capture.cached && empty) return "an empty cache";
  // llama.cpp names the product and, where a bias is added, the sum.
  static constexpr std::pair<const char*, const char*> sums[]{
      {"ffn_up-", "ffn_up_b-"}, {"ffn_gate-", "ffn_gate_b-"}, {"ffn_down-", "ffn_out-"}};
  const bool product =
      capture.product || std::ranges::any_of(sums, [&](const auto& sum) {
        const std::string& name = entry.name;
        const std::string from = sum.first;
        return name.starts_with(from) && contents.find(sum.second + name.substr(from.size()));
      });
  std::vector<Stage> stages = capture.stages;
  stages.insert(stages.end(), capture.side_by_side.begin(), capture.side_by_side.end());
  if (product && std::ranges::any_of(stages, [&](Stage stage) { return has_bias(layer_, stage); }))
    return "the product before its bias is added";
  const auto fitting = [&](Stage stage) {
    return contains(available_, stage) && fits(layer_, stage, entry.shape);
  };
  if (capture.of_node && capture.stages.size() > 0 && capture.layer &&
      std::ranges::none_of(capture.stages, fitting))
    return "a node of another shape than its module's result";
  return "";
}

/// One tensor of a whole model's captures, or a result of a module of the layer's file.
void Reader::take_capture(const io::Contents& contents, const io::Entry& entry,
                          const Capture& capture) {
  const std::string where = fmt::format("{}: {}", io::shown(contents.name), io::shown(entry.name));
  Named named{entry.name, where, &entry, "", false, {}};
  if (model_ && capture.anywhere && !around_.one_layer) {
    skip(named, fmt::format("of which layer? layers.N.{} is expected", entry.name), true);
    return;
  }
  named.stage = stage_beside(contents, entry, capture);
  if (const std::string why = why_not_a_step(contents, entry, capture); !why.empty()) {
    skip(named, why, false);
    return;
  }
  const io::Entry vocabulary = first_columns(entry, layer_.dims.vocabulary);
  if (capture.stages == std::vector{Stage::logits} && entry.shape != vocabulary.shape) {
    named.entry = &vocabulary, named.stage = Stage::logits;
    reference_.notes.push_back(fmt::format("{} is {} wide: compared are the vocabulary's first {}",
                                           where, entry.shape.back(), layer_.dims.vocabulary));
  }
  take_result(std::move(named), capture);
}

/// A module's result: a stage, perhaps before a factor, or several stages side by side.
void Reader::take_result(Named named, const Capture& capture) {
  if ((!model_ || named.bound) && capture.stages.size() == 1) named.stage = capture.stages[0];
  named.factor = capture.factor, named.factor_name = capture.factor_name;
  if (capture.side_by_side.empty()) return take(named);
  const io::Entry& entry = *named.entry;
  const std::vector<StageColumns> parts =
      stages_side_by_side(layer_, capture.side_by_side, entry, capture.groups);
  const std::size_t all = width_side_by_side(layer_, capture.side_by_side),
                    theirs = entry.shape.empty() ? 0 : entry.shape.back();
  // A port may have split it already: q_proj holds queries alone.
  const std::vector<Stage> plain = result_stages(last_part(named.name));
  if (parts.empty() && plain.size() == 1 && fits(layer_, plain[0], entry.shape)) {
    named.stage = plain[0];
    return take(named);
  }
  if (parts.empty())
    skip(named,
         "several stages side by side, but of another width than here" +
             (theirs > 0 && theirs < all && all % theirs == 0
                  ? fmt::format(": the share of one rank of {}? Save what one rank computes "
                                "alone, or join each stage's shares",
                                all / theirs)
                  : std::string()),
         true);
  for (const StageColumns& part : parts) {
    Named one = named;
    one.entry = &part.entry, one.stage = part.stage;
    take(one);
  }
}

/// An element of an unnamed pair, as modules and kernels return it: the output, and weights or
/// log-sum-exps.
std::optional<Stage> Reader::element_of_pair(const io::Contents& contents,
                                             const io::Entry& entry) const {
  if (contents.tensors.size() != 2 || !contents.find("0") || !contents.find("1"))
    return std::nullopt;
  const auto is = [&](const io::Entry& one, Stage stage) {
    return contains(available_, stage) &&
           (fits(layer_, stage, one.shape) || other_reading(layer_, stage, one));
  };
  if (!is(*contents.find("0"), Stage::output)) return std::nullopt;
  if (entry.name == "0") return Stage::output;
  for (const Stage stage : {Stage::weights, Stage::logsumexp})
    if (is(entry, stage)) return stage;
  return std::nullopt;
}

void Reader::read(const ReferenceFile& file, bool own) {
  set_own(own);
  const io::Contents& contents = file.contents();
  if (!model_) {
    std::set<std::size_t> numbers; ///< of the layers in the file
    for (const io::Entry& entry : contents.tensors)
      if (const auto number = layer_of(entry.name))
        if (!result_stages(entry.name).empty()) numbers.insert(*number);
    if (id_.empty() && numbers.size() > 1)
      fail("{} holds stages of layers {}; name the ones that are meant: <against> "
           "<STAGE=FILE:TENSOR>",
           io::shown(contents.name), fmt::join(numbers, ", "));
    for (const io::Entry& entry : contents.tensors) {
      if (is_elsewhere(entry.name) || is_of_text(entry.name)) continue;
      const std::string where =
          fmt::format("{}: {}", io::shown(contents.name), io::shown(entry.name));
      if (const auto result = result_of_module(entry.name, around_)) {
        take_capture(contents, entry, *result);
        continue;
      }
      const std::optional<Stage> returned = element_of_pair(contents, entry);
      if (returned)
        reference_.notes.push_back(fmt::format("{} is taken as {}", where, name_of(*returned)));
      take({entry.name, where, &entry, "", false, returned});
    }
    return;
  }
  const bool from_one = !file.layers().empty() && file.layers().begin()->first == 1 &&
                        file.layers().rbegin()->first == model_->layers;
  first_number_ = from_one ? 1 : 0;
  if (id_.empty() && from_one)
    reference_.notes.push_back(fmt::format(
        "{}: its layers count from 1: the first one is layer 0 here", io::shown(contents.name)));
  if (id_.empty())
    for (const auto& [number, entries] : file.layers())
      if (number >= model_->layers + first_number_)
        reference_.not_compared.push_back(
            {fmt::format("layers.{}", number),
             fmt::format("the model's layers are 0 to {}", model_->layers - 1)});
  for (const HiddenState& state : hidden_states_of(file.stacks(), layer_, *model_, id_)) {
    const std::string where =
        fmt::format("{}: {}", io::shown(contents.name), io::shown(state.entry.name));
    if (contains(available_, state.stage))
      take({state.entry.name, where, &state.entry, "", false, state.stage});
  }
  const auto take_all = [&](const std::vector<const io::Entry*>& entries) {
    for (const io::Entry* entry : entries)
      if (place_of(entry->name) == id_ && !is_of_text(entry->name))
        take_capture(contents, *entry, capture_of(entry->name, around_));
  };
  take_all(file.without_layer());
  if (!id_.empty())
    if (const auto mine = file.layers().find(layer_number() + first_number_);
        mine != file.layers().end())
      take_all(mine->second);
}

} // namespace mha
