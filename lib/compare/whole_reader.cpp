#include <mha/compare/names.hpp>
#include <mha/compare/reader.hpp>
#include <mha/files/text.hpp>

#include <fmt/format.h>

#include <set>

namespace mha {

namespace {

/// The number of the layer that a name speaks of: "layers.3.attn", "Qcur-3".
std::optional<std::size_t> layer_of(std::string_view name) {
  if (const auto number = naming::layer_number(std::string(name))) return number;
  return without_layer_suffix(name).second;
}

} // namespace

bool Reader::is_elsewhere(const std::string& name) const {
  if (model_) return place_of(name) != id_;
  const std::optional<std::size_t> number = layer_of(name);
  return number && !id_.empty() && std::to_string(*number) != id_ &&
         !name.starts_with(fmt::format("layers.{}.", id_));
}

/// The layer that a name of a whole model speaks of; "": the model's ends.
std::string Reader::place_of(const std::string& name) const {
  const Capture capture = capture_of(name, around_);
  if (capture.of_last) return number_is_mine(model_->layers - 1 + first_number_) ? id_ : "another";
  if (capture.layer) return number_is_mine(*capture.layer) ? id_ : "another";
  return capture.anywhere && around_.one_layer ? id_ : "";
}

void Reader::bind(const io::Source& source, bool own) {
  say_own(own);
  if (model_ && is_elsewhere(source.name)) return;
  const io::Entry entry = io::bound_entry(source);
  const std::string where = io::shown(source.text);
  if (model_ && id_.empty())
    if (const Capture capture = capture_of(source.name, around_); capture.anywhere)
      fail("{}: of which layer? Say <layers.N.{}=…>, or choose one with <layer>", where,
           source.name);
  take({source.name, where, &entry, source.axes, true});
}

/// One tensor of a whole model's captures.
void Reader::take_capture(const io::Contents& contents, const io::Entry& entry,
                          const Capture& capture) {
  const std::string where = fmt::format("{}: {}", io::shown(contents.name), io::shown(entry.name));
  Named named{entry.name, where, &entry, "", false, {}};
  if (capture.anywhere && !around_.one_layer) {
    pass_over(named, fmt::format("of which layer? layers.N.{} is expected", entry.name), true);
    return;
  }
  if (capture.is_layer && capture.element == 0) { // vLLM's pair: the result apart from the residual
    std::string other = entry.name;
    other[other.rfind('0')] = '1';
    const io::Entry* residual = contents.find(other);
    if (residual && residual->shape == entry.shape) named.stage = Stage::mlp_out;
  }
  // Beside a fused projection, the activation's module multiplies by the other factor, too (vLLM).
  if (const std::size_t at = entry.name.rfind("act_fn"); at != std::string::npos)
    for (const char* fused : {"gate_up_proj", "gate_up"})
      if (contents.find(std::string(entry.name).replace(at, 6, fused)))
        named.stage = Stage::mlp_act;
  // SGLang's dump has what rotates queries and keys under the module that does.
  if (const std::size_t at = entry.name.rfind("rotary_emb."); at != std::string::npos)
    if (const io::Entry* queries = contents.find(entry.name.substr(0, at) + "rotary_emb.0");
        queries && !queries->shape.empty() && capture.element &&
        queries->shape.back() == width_side_by_side(layer_, {Stage::q_rope}))
      named.stage = *capture.element == 0 ? Stage::q_rope : Stage::k_rope;
  if (entry.name == "model" && contents.find("model.forward_batch_info.input_ids")) {
    pass_over(named, "SGLang writes it into the next pass's file: it is of another text", false);
    return;
  }
  const io::Entry vocabulary = first_columns(entry, layer_.dims.vocabulary);
  if (capture.stages == std::vector{Stage::logits} && entry.shape != vocabulary.shape) {
    named.entry = &vocabulary, named.stage = Stage::logits;
    reference_.notes.push_back(fmt::format("{} is {} wide: compared are the vocabulary's first {}",
                                           where, entry.shape.back(), layer_.dims.vocabulary));
  }
  if (capture.side_by_side.empty()) return take(named);
  const std::vector<StageColumns> parts =
      stages_side_by_side(layer_, capture.side_by_side, entry, capture.by_group);
  const std::size_t all = width_side_by_side(layer_, capture.side_by_side),
                    theirs = entry.shape.empty() ? 0 : entry.shape.back();
  if (parts.empty())
    pass_over(named,
              "several stages side by side, but not as wide as they are here" +
                  (theirs > 0 && theirs < all && all % theirs == 0
                       ? fmt::format(": the share of one rank of {}? Save what one rank computes "
                                     "alone, or join each stage's shares",
                                     all / theirs)
                       : std::string()),
              true);
  for (const StageColumns& part : parts)
    take({entry.name, where, &part.entry, "", false, part.stage});
}

void Reader::read(const ReferenceFile& file, bool own) {
  say_own(own);
  const io::Contents& contents = file.contents();
  if (!model_) {
    std::set<std::size_t> numbers; ///< of the layers that the file speaks of
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
      take({entry.name, where, &entry, "", false, {}});
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
      if (number >= model_->layers + first_number_) {
        reference_.misspelt.push_back(
            fmt::format("layers.{}: the model's layers are 0 to {}", number, model_->layers - 1));
        reference_.unread.push_back(reference_.misspelt.back());
        reference_.passed_over.push_back(reference_.misspelt.back());
      }
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
