#include <mha/compare/reader.hpp>

#include <mha/compare/captures.hpp>
#include <mha/compare/names.hpp>
#include <mha/compare/other_readings.hpp>
#include <mha/compare/parts.hpp>
#include <mha/compare/precision.hpp>
#include <mha/compare/tolerances.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/source.hpp>
#include <mha/naming/infer_axes.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/not_saved.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mha {

namespace {

/// A message without the file of its tensor.
std::string without_place(const std::string& message, const std::string& where,
                          const std::string& name) {
  return message.starts_with(where) ? name + message.substr(where.size()) : message;
}

/// Whether −inf or a mask's constant is among the numbers: the scores are masked.
bool shows_masking(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return false;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (value_at(tensor, i) <= -5000) return true;
  return false;
}

bool is_zero(const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (value_at(tensor, i) != 0) return false;
  return tensor.count() > 0;
}

bool holds_not_saved(const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (is_not_saved(value_at(tensor, i))) return true;
  return false;
}

/// llama.cpp's queries and keys, by its names: "Qcur-3", "Kcur-0 (reshaped)".
bool is_llama_cpp_name(std::string_view name) {
  return last_part(name).starts_with("Qcur") || last_part(name).starts_with("Kcur");
}

/// Sets rows (B, T, …) after the end of a shorter text to 0, as in this program's stages.
void clear_padding(Tensor& rows, const std::vector<std::size_t>& lengths) {
  const std::size_t T = rows.shape()[1];
  if (std::ranges::all_of(lengths, [T](std::size_t n) { return n >= T; })) return;
  Tensor kept = Tensor::uninitialised(rows.dtype(), rows.shape()); // the file's tensor is shared
  std::memcpy(kept.raw_mutable(), rows.raw(), rows.bytes());
  const std::size_t row = rows.bytes() / (rows.shape()[0] * T);
  for (std::size_t b = 0; b < lengths.size(); ++b)
    std::memset(kept.raw_mutable() + (b * T + lengths[b]) * row, 0, (T - lengths[b]) * row);
  rows = std::move(kept);
}

} // namespace

/// Lists a tensor that is not read. `meant`: its name is a stage's, so it should have been
/// compared.
void Reader::skip(const Named& named, const std::string& why, bool meant) {
  if (named.bound) fail("{}: {}", named.where, why);
  if (meant)
    reference_.not_compared.push_back({named.name, why});
  else
    reference_.skipped.push_back(why.empty() ? named.name
                                             : fmt::format("{} ({})", named.name, why));
}

/// The input or output of a module, in a layer without its block.
Capture Reader::of_lone_layer(Capture capture) const {
  const auto lacks = [&](Stage stage) { return !contains(available_, stage); };
  if (std::ranges::all_of(capture.stages, lacks)) {
    capture.stages.clear();
    if (capture.why.empty()) capture.why = "no step of attention alone";
  }
  return capture;
}

/// The stages that a name may mean in this layer. Throws Error for a binding that means none.
std::vector<Stage> Reader::possible(const Named& named) {
  Capture capture;
  if (named.stage)
    capture.stages = {*named.stage};
  else if (model_)
    capture = capture_of(named.name, around_);
  else if (const auto side = side_of_module(named.name); side && !named.bound)
    capture = of_lone_layer(*side);
  else
    capture.stages = result_stages(named.name);
  std::vector<Stage>& stages = capture.stages;
  if (stages.empty() && !capture.why.empty()) {
    skip(named, capture.why, false);
    return {};
  }
  if (stages.empty()) {
    const std::vector<std::string_view> names = names_of_rows(mha::stages());
    if (named.bound)
      fail("{}: '{}' is not a stage{}", named.where, named.name, did_you_mean(named.name, names));
    // A weight or a setting is not a misspelt stage.
    const std::string_view word = last_part(named.name);
    const bool weight =
        find_tensor_name(word) || find_setting(word) || word == "weight" || word == "bias";
    const std::string meant = weight ? "" : closest(word, names);
    const bool step = model_ && !weight && looks_like_step(layer_.dims, *named.entry);
    skip(named,
         !meant.empty() ? fmt::format("is it {}?", meant)
         : step         ? "its name is not known, its shape is a step's"
                        : "",
         !meant.empty() || step);
    return {};
  }
  std::string why;
  StageSet lacking;
  std::erase_if(stages, [&](Stage stage) {
    if (contains(available_, stage)) return false;
    if (is_derived(stage)) {
      // A layer that begins with weights has no derived stages: its weights come from elsewhere.
      why = layer_.has_given(Stage::weights) ? "it is made of weights, which are given here"
                                             : why_not_derived(layer_, stage, available_);
      return !why.empty();
    }
    if (!has_step(layer_, stage)) lacking.add(stage);
    why = has_step(layer_, stage) ? fmt::format("{} cannot be computed here", name_of(stage))
                                  : fmt::format("this layer has no {}", name_of(stage));
    return true;
  });
  if (stages.empty()) {
    reference_.lacking |= lacking;
    skip(named, why, true);
    return {};
  }
  if (stages.size() == 1 || !named.axes.empty()) return stages;
  std::vector<Stage> fitting;
  for (Stage stage : stages)
    if (fits(layer_, stage, named.entry->shape)) fitting.push_back(stage);
  return fitting.empty() ? std::vector{stages.back()} : fitting; // any of them gives a message
}

/// The error of numbers that were typed with few decimals, with a note; 0 for other numbers.
double Reader::resolution_as_typed(const Named& named, const Tensor& tensor) {
  if (named.entry->steps && !named.entry->blocks) { // printed with a common last digit
    const double printed = value_at(named.entry->steps(), 0) / 2;
    std::size_t missing = 0;
    for (std::size_t i = 0; i < tensor.count(); ++i) missing += is_not_saved(value_at(tensor, i));
    add_once(reference_.notes,
             fmt::format("{} is printed in few digits: ±{} is allowed{}", named.where, printed,
                         missing == 0 ? ""
                                      : fmt::format("; {} of its {} numbers are compared",
                                                    tensor.count() - missing, tensor.count())));
    return printed;
  }
  const int decimals = typed_decimals(tensor);
  const double resolution = resolution_of(decimals);
  if (decimals > 0)
    add_once(reference_.notes,
             fmt::format("{} has {}: ±{} is allowed", named.where,
                         decimals == 1 ? "one decimal" : fmt::format("{} decimals", decimals),
                         resolution));
  return resolution;
}

ReferenceStage Reader::value_of(const Named& named, Stage stage, const Tensor& tensor) {
  ReferenceStage result;
  result.stage = stage;
  result.source = named.where;
  result.origin = named.origin.empty() ? named.where : named.origin;
  const bool floating = is_floating(tensor.dtype()) && !named.entry->weak_dtype;
  const DType in_file = floating ? tensor.dtype() : layer_.dtype;
  result.stored = floating ? precision_of(tensor, in_file) : in_file;
  if (named.entry->weak_dtype) result.resolution = resolution_as_typed(named, tensor);
  const std::vector<InferredAxes> ways =
      named.axes.empty()
          ? possible_axes(layer_, stage, tensor, named.where)
          : std::vector{infer_axes(layer_, stage, tensor, named.axes, layer_number(), named.where)};
  const InferredAxes& arranged = ways[0];
  const DType kept = in_file == DType::f64 ? DType::f64 : DType::f32;
  result.value = convert(arranged.value, kept);
  result.in_part = named.entry->weak_dtype && holds_not_saved(result.value);
  for (std::size_t i = 1; i < ways.size(); ++i)
    result.other_axes.emplace_back(ways[i].axes.empty() ? "" : "read as " + ways[i].axes,
                                   convert(ways[i].value, kept));
  if (is_llama_cpp_name(named.name) && layer_.settings.rope != Rope::none)
    for (const InferredAxes& way : ways)
      result.other_axes.emplace_back(
          fmt::format("{}{} of a head put as {}",
                      way.axes.empty() ? "" : "read as " + way.axes + ", ",
                      layer_.settings.rope == Rope::half ? "neighbours" : "halves",
                      layer_.settings.rope == Rope::half ? "halves" : "neighbours"),
          with_other_pairs(convert(way.value, kept), layer_.settings));
  if (layer_.dims.batched && !layer_.settings.columns && info_of(stage).letters.size() == 2 &&
      info_of(stage).kind == Kind::token)
    clear_padding(result.value, layer_.lengths);
  const std::string_view word = last_part(named.name); // Q, K and V are packed by definition
  const bool packed_name =
      (word == "Q" || word == "K" || word == "V") && arranged.axes.ends_with('C');
  if (!arranged.axes.empty() && !packed_name) result.rearranged = "read as " + arranged.axes;
  if (arranged.repeated)
    result.rearranged +=
        fmt::format("{}one of each {}", result.rearranged.empty() ? "" : ", ",
                    arranged.tiled ? "of the tiled key/value heads" : "group of key/value heads");
  result.doubtful = arranged.doubtful, result.tiled = arranged.tiled;
  if (named.factor != 1) multiply(result, named.factor, named.factor_name);
  return result;
}

/// Whether a file has the same stage by two names ("q", "q_proj"). The stage's own name wins; of
/// other names the first, if the numbers are the same.
bool Reader::is_duplicate(ReferenceStage& first, ReferenceStage& second, const std::string& name) {
  const std::string file = first.source.substr(0, first.source.rfind(": ") + 2);
  if (!second.source.starts_with(file)) return false;
  const std::string other = first.source.substr(file.size());
  // A module's result times its factor is rounded otherwise than the port's own product.
  const DType coarser = coarser_of(first.stored, second.stored);
  const double share = !first.multiplied && !second.multiplied ? 0
                       : coarser == DType::bf16                ? 0x1p-7
                       : coarser == DType::f16                 ? 0x1p-10
                                                               : 0x1p-21;
  const bool same = same_numbers(first.value, second.value, share);
  if (is_stage_name(name) == is_stage_name(other) && !same) return false;
  const bool replaces = is_stage_name(name) && !is_stage_name(other);
  const std::string left = replaces ? other : io::shown(name);
  if (model_ && same)
    twice_.push_back(left);
  else if (same)
    reference_.skipped.push_back(
        fmt::format("{} ({} is there by another name)", left, name_of(first.stage)));
  else
    reference_.not_compared.push_back(
        {left,
         fmt::format("{} is there by its own name, with other numbers", name_of(first.stage))});
  if (replaces) first = std::move(second);
  return true;
}

void Reader::add(ReferenceStage stage, const std::string& name, bool bound) {
  const auto at =
      std::find_if(reference_.stages.begin(), reference_.stages.end(),
                   [&](const ReferenceStage& other) { return other.stage == stage.stage; });
  // The same stage as a hidden state and by its name: the name wins.
  if (at != reference_.stages.end() && model_ && !bound &&
      at->source.find("hidden_states") != std::string::npos) {
    *at = std::move(stage);
    return;
  }
  if (at == reference_.stages.end()) {
    if (bound) bound_.add(stage.stage);
    if (!stage.rearranged.empty()) add_once(rearranged_[stage.rearranged], io::shown(name));
    reference_.stages.push_back(std::move(stage));
    return;
  }
  if (!bound && contains(bound_, stage.stage)) return; // a binding wins
  if (!bound && is_duplicate(*at, stage, name)) return;
  fail("{} and {} both are {}; bind the one that is meant: <against> <{}=FILE:TENSOR>", at->source,
       stage.source, name_of(stage.stage), name_of(stage.stage));
}

/// Records a stage of another shape, which is a difference and does not end the run.
void Reader::misfit(const Named& named, Stage stage, const Tensor& tensor) {
  reference_.not_compared.push_back(
      {named.name,
       fmt::format("is {}: {} is {} in this layer{}", to_string(tensor.shape()), name_of(stage),
                   to_string(layer_.shape_of(stage)),
                   what_it_may_be(layer_, stage, tensor.shape())),
       stage, tensor.shape(), layer_.shape_of(stage)});
}

/// A stage in its whole shape, from a tensor that holds a part of it.
std::optional<ReferenceStage> Reader::part_of(const Named& named, Stage stage) {
  if (!model_ || named.bound) return std::nullopt;
  const std::optional<PartOfStage> part = part_of_stage(layer_, stage, *named.entry);
  if (!part) return std::nullopt;
  Named whole = named;
  whole.entry = &part->entry;
  ReferenceStage result = value_of(whole, stage, part->entry.read());
  result.in_part = part->entry.shape != named.entry->shape && holds_not_saved(result.value);
  if (result.in_part) result.stored = precision_of(named.entry->read(), named.entry->dtype);
  reference_.notes.push_back(fmt::format("{}: {}", named.where, part->how));
  return result;
}

/// A tensor with another shape than its stage's, read as something that people save by that name.
std::optional<ReferenceStage> Reader::read_otherwise(const Named& named, Stage stage) {
  if (!named.axes.empty()) return std::nullopt;
  const std::optional<OtherReading> reading = other_reading(layer_, stage, *named.entry);
  if (!reading || !contains(available_, reading->stage)) return std::nullopt;
  Named other = named;
  other.entry = &reading->entry;
  ReferenceStage result = value_of(other, reading->stage, reading->entry.read());
  result.mean_of_heads = reading->mean_of_heads, result.one_of_heads = reading->one_of_heads;
  result.in_part = reading->one_of_heads;
  if (!reading->how.empty())
    reference_.notes.push_back(fmt::format("{}: {}", named.where, reading->how));
  return result;
}

/// The stage by the axes of a binding: an output with axes of heads and head width is head_out, not
/// the result of W_o.
Stage Reader::stage_of_axes(const Named& named, Stage stage) const {
  const auto names = [&](char axis) { return named.axes.find(axis) != std::string::npos; };
  return stage == Stage::output && !layer_.W_o.empty() && names('H') && names('D') ? Stage::head_out
                                                                                   : stage;
}

void Reader::take(const Named& named) {
  std::vector<Stage> stages = possible(named);
  if (stages.empty()) return;
  if (stages.size() == 1 && stages[0] == Stage::x && find_tensor_name(last_part(named.name)) &&
      !side_of_module(named.name) && layer_.settings.input_norm != InputNorm::none) {
    reference_.skipped.push_back(fmt::format("{} (x is the normalised input here)", named.name));
    return;
  }
  const Tensor tensor = named.entry->read();
  if (model_ && !named.bound && tensor.count() > 1 && is_zero(tensor)) {
    skip(named, "all zeros: it was not computed, or not copied", true);
    return;
  }
  if (stages.size() > 1 && shows_masking(tensor)) {
    std::ranges::replace(stages, Stage::scaled, Stage::masked); // "attn_weights", after the mask
    if (std::ranges::count(stages, Stage::masked) > 0) stages = {Stage::masked};
  }
  if (stages.size() == 1 && !fits(layer_, stages[0], tensor.shape()))
    if (std::optional<ReferenceStage> other = read_otherwise(named, stages[0]))
      return add(std::move(*other), named.name, named.bound);
  if (stages.size() == 1) stages[0] = stage_of_axes(named, stages[0]);
  AmbiguousStage ambiguous{named.name, {}};
  for (Stage stage : stages)
    if (named.bound || fits(layer_, stage, tensor.shape())) try {
        ambiguous.readings.push_back(value_of(named, stage, tensor));
      } catch (const Error& error) {
        if (named.bound || !model_) throw; // in a whole model, one tensor does not end the run
        const std::string text = without_place(error.what(), named.where, named.name);
        reference_.not_compared.push_back({named.name, text.starts_with(named.name + ": ")
                                                           ? text.substr(named.name.size() + 2)
                                                           : text});
      }
    else if (std::optional<ReferenceStage> part = part_of(named, stage))
      ambiguous.readings.push_back(std::move(*part));
    else
      misfit(named, stage, tensor);
  if (ambiguous.readings.size() == 1)
    add(std::move(ambiguous.readings[0]), named.name, named.bound);
  else if (!ambiguous.readings.empty())
    reference_.ambiguous.push_back(std::move(ambiguous));
}

Reference Reader::finish(const std::vector<std::string>& sources) {
  if (reference_.stages.empty() && reference_.ambiguous.empty() && !model_ &&
      !reference_.has_misshapen()) {
    std::vector<std::string> names;
    for (const NotCompared& one : reference_.not_compared) names.push_back(one.text());
    names.insert(names.end(), reference_.skipped.begin(), reference_.skipped.end());
    std::string contents;
    for (const std::string& name : names)
      if (contents.size() < 200) contents += (contents.empty() ? "" : ", ") + io::shown(name);
    fail("<against> {}: no stage of this layer is in it{}; its stages are {}: bind one, "
         "<against> <STAGE=FILE:TENSOR>",
         fmt::join(sources, " "), contents.empty() ? "" : ", but " + contents,
         joined_names(available_));
  }
  std::sort(reference_.stages.begin(), reference_.stages.end(),
            [&](const auto& a, const auto& b) { return comes_before(layer_, a.stage, b.stage); });
  for (const auto& [how, names] : rearranged_)
    reference_.notes.push_back(fmt::format("{}: {}", how, fmt::join(names, ", ")));
  if (!twice_.empty())
    reference_.notes.push_back(
        fmt::format("the same numbers by another name: {}", fmt::join(twice_, ", ")));
  return std::move(reference_);
}

} // namespace mha
