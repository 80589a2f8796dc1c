#include <mha/compare/reference.hpp>

#include <mha/compare/names.hpp>
#include <mha/compare/precision.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/layer/graph.hpp>
#include <mha/layer/infer_axes.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/source.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mha {

namespace {

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

/// −inf or a mask's constant is among the numbers: scores behind the mask.
bool shows_masking(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return false;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (value_at(tensor, i) <= -5000) return true;
  return false;
}

bool same_numbers(const ReferenceStage& a, const ReferenceStage& b) {
  if (a.value.count() != b.value.count()) return false;
  for (std::size_t i = 0; i < a.value.count(); ++i)
    if (value_at(a.value, i) != value_at(b.value, i)) return false;
  return true;
}

/// The number of the layer that a name speaks of: "layers.3.attn", "Qcur-3".
std::optional<std::size_t> layer_of(std::string_view name) {
  if (const auto number = naming::layer_number(std::string(name))) return number;
  return without_layer_suffix(name).second;
}

class Reader {
public:
  Reader(const Layer& layer, std::string layer_id, const WholeModelOfLayer* model)
      : layer_(layer),
        model_(model),
        id_(std::move(layer_id)),
        available_(available_stages(layer)) {}

  void bind(const io::Source& source);
  void read(const io::Contents& contents);
  Reference finish(const std::vector<std::string>& sources);

private:
  struct Named {
    std::string name;
    std::string where; ///< "z=out.npy" or "ref.npz: attn.hook_z", with the file as it was typed
    const io::Entry* entry = nullptr;
    std::string axes;
    bool bound = false;
  };
  void take(const Named& named);
  void misfit(const Named& named, Stage stage, const Tensor& tensor);
  bool is_same_again(ReferenceStage& there, ReferenceStage& again, const std::string& name);
  void add(ReferenceStage stage, const std::string& name, bool bound);
  std::vector<Stage> possible(const Named& named);
  ReferenceStage value_of(const Named& named, Stage stage, const Tensor& tensor);
  std::size_t layer_number() const { return naming::layer_number(id_).value_or(0); }

  /// Whether a name is another layer's, or the model's where a layer is read.
  bool is_elsewhere(const std::string& name) const;

  const Layer& layer_;
  const WholeModelOfLayer* model_;
  std::string id_;
  StageSet available_, bound_;
  std::map<std::string, std::vector<std::string>> rearranged_; ///< names by how they are read
  Reference reference_;
};

/// What a name may mean in this layer. Bindings must mean something.
std::vector<Stage> Reader::possible(const Named& named) {
  std::vector<Stage> stages = result_stages(named.name);
  const auto pass_over = [&](const std::string& why) {
    if (named.bound) fail("{}: {}", named.where, why);
    reference_.passed_over.push_back(fmt::format("{} ({})", named.name, why));
  };
  if (stages.empty()) {
    std::vector<std::string_view> names;
    for (const StageInfo& info : mha::stages()) names.push_back(info.name);
    if (named.bound)
      fail("{}: '{}' is no stage{}", named.where, named.name, did_you_mean(named.name, names));
    // A weight of that name is no misspelt stage.
    const std::string_view word = last_part(named.name);
    const bool weight = find_tensor_name(word) || word == "weight" || word == "bias";
    const std::string meant = weight ? "" : closest(word, names);
    reference_.passed_over.push_back(
        meant.empty() ? named.name : fmt::format("{} (is it {}?)", named.name, meant));
    if (!meant.empty()) reference_.misspelt.push_back(reference_.passed_over.back());
    return {};
  }
  std::string why;
  StageSet lacking;
  std::erase_if(stages, [&](Stage stage) {
    if (contains(available_, stage)) return false;
    if (!has_step(layer_, stage)) lacking.set(index_of(stage));
    why = has_step(layer_, stage) ? fmt::format("{} cannot be computed here", name_of(stage))
                                  : fmt::format("this layer has no {}", name_of(stage));
    return true;
  });
  if (stages.empty()) {
    reference_.lacking |= lacking;
    pass_over(why);
    return {};
  }
  if (stages.size() == 1 || !named.axes.empty()) return stages;
  std::vector<Stage> fitting;
  for (Stage stage : stages)
    if (fits(layer_, stage, named.entry->shape)) fitting.push_back(stage);
  return fitting.empty() ? std::vector{stages.back()} : fitting; // whose message is as good as any
}

ReferenceStage Reader::value_of(const Named& named, Stage stage, const Tensor& tensor) {
  ReferenceStage result;
  result.stage = stage;
  result.source = named.where;
  const bool floating = is_floating(tensor.dtype()) && !named.entry->weak_dtype;
  const DType in_file = floating ? tensor.dtype() : layer_.dtype;
  result.stored = floating ? precision_of(tensor, in_file) : in_file;
  const std::vector<InferredAxes> ways =
      named.axes.empty()
          ? possible_axes(layer_, stage, tensor, named.where)
          : std::vector{infer_axes(layer_, stage, tensor, named.axes, layer_number(), named.where)};
  const InferredAxes& arranged = ways[0];
  const DType kept = in_file == DType::f64 ? DType::f64 : DType::f32;
  result.value = convert(arranged.value, kept);
  for (std::size_t i = 1; i < ways.size(); ++i)
    result.other_axes.emplace_back(ways[i].axes.empty() ? "" : "read as " + ways[i].axes,
                                   convert(ways[i].value, kept));
  const std::string_view word = last_part(named.name); // Q, K and V are packed by their names
  const bool packed_name =
      (word == "Q" || word == "K" || word == "V") && arranged.axes.ends_with('C');
  if (!arranged.axes.empty() && !packed_name) result.rearranged = "read as " + arranged.axes;
  if (arranged.repeated)
    result.rearranged += fmt::format("{}one of each group of key/value heads",
                                     result.rearranged.empty() ? "" : ", ");
  result.doubtful = arranged.doubtful;
  return result;
}

/// Whether a stage is in the same file by another name ("q", "q_proj"): its own name wins, and of
/// others the first, if the numbers are the same.
bool Reader::is_same_again(ReferenceStage& there, ReferenceStage& again, const std::string& name) {
  const std::string file = there.source.substr(0, there.source.rfind(": ") + 2);
  if (!again.source.starts_with(file)) return false;
  const std::string other = there.source.substr(file.size());
  if (is_stage_name(name) == is_stage_name(other) && !same_numbers(there, again)) return false;
  const bool replaces = is_stage_name(name) && !is_stage_name(other);
  reference_.passed_over.push_back(fmt::format("{} ({} is there by another name)",
                                               replaces ? other : io::shown(name),
                                               name_of(there.stage)));
  if (replaces) there = std::move(again);
  return true;
}

void Reader::add(ReferenceStage stage, const std::string& name, bool bound) {
  const auto at =
      std::find_if(reference_.stages.begin(), reference_.stages.end(),
                   [&](const ReferenceStage& other) { return other.stage == stage.stage; });
  // A hidden state and the same stage by its name: the name wins.
  if (at != reference_.stages.end() && model_ && !bound &&
      at->source.find("hidden_states") != std::string::npos) {
    *at = std::move(stage);
    return;
  }
  if (at == reference_.stages.end()) {
    if (bound) bound_.set(index_of(stage.stage));
    if (!stage.rearranged.empty()) rearranged_[stage.rearranged].push_back(io::shown(name));
    reference_.stages.push_back(std::move(stage));
    return;
  }
  if (!bound && contains(bound_, stage.stage)) return; // a binding wins
  if (!bound && is_same_again(*at, stage, name)) return;
  fail("{} and {} both are {}; bind the one that is meant: --against {}=FILE:TENSOR", at->source,
       stage.source, name_of(stage.stage), name_of(stage.stage));
}

/// A stage of another shape ends no run: a note says what was expected.
void Reader::misfit(const Named& named, Stage stage, const Tensor& tensor) {
  reference_.passed_over.push_back(fmt::format("{} is {}: {} is {} in this layer", named.name,
                                               to_string(tensor.shape()), name_of(stage),
                                               to_string(layer_.shape_of(stage))));
  if (is_stage_name(last_part(named.name)))
    reference_.misshapen.push_back(reference_.passed_over.back());
}

void Reader::take(const Named& named) {
  std::vector<Stage> stages = possible(named);
  if (stages.empty()) return;
  if (stages.size() == 1 && stages[0] == Stage::x && find_tensor_name(last_part(named.name)) &&
      layer_.settings.input_norm != InputNorm::none) {
    reference_.passed_over.push_back(
        fmt::format("{} (x is the normalised input here)", named.name));
    return;
  }
  const Tensor tensor = named.entry->read();
  if (stages.size() > 1 && shows_masking(tensor)) {
    std::ranges::replace(stages, Stage::scaled, Stage::masked); // "attn_weights", after the mask
    if (std::ranges::count(stages, Stage::masked) > 0) stages = {Stage::masked};
  }
  AmbiguousStage ambiguous{named.name, {}};
  for (Stage stage : stages)
    if (named.bound || fits(layer_, stage, tensor.shape()))
      ambiguous.readings.push_back(value_of(named, stage, tensor));
    else
      misfit(named, stage, tensor);
  if (ambiguous.readings.size() == 1)
    add(std::move(ambiguous.readings[0]), named.name, named.bound);
  else if (!ambiguous.readings.empty())
    reference_.ambiguous.push_back(std::move(ambiguous));
}

bool Reader::is_elsewhere(const std::string& name) const {
  const std::optional<std::size_t> number = layer_of(name);
  if (model_ && (!number || id_.empty())) {
    const std::optional<Stage> stage = find_stage(name);
    const bool ends = stage && is_of_model(*stage);
    return number ? id_.empty() : ends != id_.empty();
  }
  return number && !id_.empty() && std::to_string(*number) != id_ &&
         !name.starts_with(fmt::format("layers.{}.", id_));
}

void Reader::bind(const io::Source& source) {
  if (model_ && is_elsewhere(source.name)) return;
  const io::Entry entry = io::bound_entry(source);
  take({source.name, io::shown(source.text), &entry, source.axes, true});
}

void Reader::read(const io::Contents& contents) {
  std::set<std::size_t> numbers; ///< of the layers that the file speaks of
  for (const io::Entry& entry : contents.tensors)
    if (const auto number = layer_of(entry.name))
      if (!result_stages(entry.name).empty()) numbers.insert(*number);
  if (id_.empty() && numbers.size() > 1 && !model_)
    fail("{} holds stages of layers {}; name the ones that are meant: --against STAGE=FILE:TENSOR",
         io::shown(contents.name), fmt::join(numbers, ", "));
  if (model_ && id_.empty())
    for (std::size_t number : numbers)
      if (number >= model_->layers)
        reference_.misspelt.push_back(
            fmt::format("layers.{}: the model's layers are 0 to {}", number, model_->layers - 1));
  if (model_)
    for (const HiddenState& state : hidden_states_of(contents, *model_, id_)) {
      const std::string name(name_of(state.stage));
      if (contains(available_, state.stage))
        take({name, fmt::format("{}: {}", io::shown(contents.name), io::shown(state.entry.name)),
              &state.entry, "", false});
    }
  for (const io::Entry& entry : contents.tensors) {
    if (is_elsewhere(entry.name) || entry.name == "lengths") continue;
    if (model_ && holds_hidden_states(entry.name)) continue;
    take({entry.name, fmt::format("{}: {}", io::shown(contents.name), io::shown(entry.name)),
          &entry, "", false});
  }
}

Reference Reader::finish(const std::vector<std::string>& sources) {
  if (reference_.stages.empty() && reference_.ambiguous.empty() && !model_) {
    std::string there;
    for (const std::string& name : reference_.passed_over)
      if (there.size() < 200) there += (there.empty() ? "" : ", ") + io::shown(name);
    fail("--against {}: no stage of this layer is in it{}; its stages are {}: bind one, "
         "--against STAGE=FILE:TENSOR",
         fmt::join(sources, " "), there.empty() ? "" : ", but " + there, list_of(available_));
  }
  std::sort(reference_.stages.begin(), reference_.stages.end(),
            [](const auto& a, const auto& b) { return a.stage < b.stage; });
  for (const auto& [how, names] : rearranged_)
    reference_.notes.push_back(fmt::format("{}: {}", how, fmt::join(names, ", ")));
  return std::move(reference_);
}

} // namespace

const ReferenceStage* Reference::find(Stage stage) const {
  const auto at = std::find_if(stages.begin(), stages.end(),
                               [&](const ReferenceStage& one) { return one.stage == stage; });
  return at == stages.end() ? nullptr : &*at;
}

Reference read_reference(const Layer& layer, const std::vector<std::string>& sources,
                         const std::string& layer_id, const WholeModelOfLayer* model) {
  if (sources.empty()) fail("no reference is given: --against FILE, or STAGE=FILE for one stage");
  Reader reader(layer, layer_id, model);
  std::vector<io::Source> files;
  for (const std::string& text : sources) {
    const io::Source source = io::parse_source(text);
    if (layer_id.empty() && io::mentions_layer(source))
      fail("--against {}: {{layer}} stands for a number, and this layer has none", io::shown(text));
    if (source.name.empty())
      files.push_back(io::with_layer(source, layer_id));
    else
      reader.bind(io::with_layer(source, layer_id));
  }
  for (const io::Source& file : files) reader.read(io::open(file.path));
  return reader.finish(sources);
}

} // namespace mha
