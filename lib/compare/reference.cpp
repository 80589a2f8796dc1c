#include <mha/compare/reference.hpp>

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

/// The stages that a tensor's name may mean; none: it is no stage.
std::vector<Stage> meanings_of(std::string_view name) {
  const std::string_view word = last_part(name);
  // Words that may be the input or a projection are projections among results.
  for (const auto& [text, stage, rotated] : {std::tuple("query", Stage::q, Stage::q_rope),
                                             {"key", Stage::k, Stage::k_rope},
                                             {"value", Stage::v, Stage::v},
                                             {"Q", Stage::q, Stage::q},
                                             {"K", Stage::k, Stage::k},
                                             {"V", Stage::v, Stage::v}})
    if (word == text) return stage == rotated ? std::vector{stage} : std::vector{stage, rotated};
  if (std::vector<Stage> readings = readings_of(name); !readings.empty()) return readings;
  if (const TensorInfo* info = find_tensor_name(word))
    return info->name == "X" ? std::vector{Stage::x} : std::vector<Stage>{};
  if (find_tensor_name(name)) return {};
  if (const std::optional<Stage> stage = find_stage(name)) return {*stage};
  return {};
}

class Reader {
public:
  Reader(const Layer& layer, std::string layer_id)
      : layer_(layer), id_(std::move(layer_id)), available_(available_stages(layer)) {}

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
  void add(ReferenceStage stage, const std::string& name, bool bound);
  std::vector<Stage> possible(const Named& named);
  ReferenceStage value_of(const Named& named, Stage stage, const Tensor& tensor);
  std::size_t layer_number() const { return naming::layer_number(id_).value_or(0); }

  const Layer& layer_;
  std::string id_;
  StageSet available_, bound_;
  std::map<std::string, std::vector<std::string>> rearranged_; ///< names by how they are read
  Reference reference_;
};

/// What a name may mean in this layer. Bindings must mean something.
std::vector<Stage> Reader::possible(const Named& named) {
  std::vector<Stage> stages = meanings_of(named.name);
  const auto pass_over = [&](const std::string& why) {
    if (named.bound) fail("{}: {}", named.where, why);
    reference_.passed_over.push_back(fmt::format("{} ({})", named.name, why));
  };
  if (stages.empty()) {
    std::vector<std::string_view> names;
    for (const StageInfo& info : mha::stages()) names.push_back(info.name);
    if (named.bound)
      fail("{}: '{}' is no stage{}", named.where, named.name, did_you_mean(named.name, names));
    const std::string meant = closest(named.name, names);
    reference_.passed_over.push_back(
        meant.empty() ? named.name : fmt::format("{} (is it {}?)", named.name, meant));
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
  const InferredAxes arranged = named.axes.empty() ? infer_axes(layer_, stage, tensor, named.where)
                                                   : infer_axes(layer_, stage, tensor, named.axes,
                                                                layer_number(), named.where);
  result.value = convert(arranged.value, in_file == DType::f64 ? DType::f64 : DType::f32);
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

void Reader::add(ReferenceStage stage, const std::string& name, bool bound) {
  const auto at =
      std::find_if(reference_.stages.begin(), reference_.stages.end(),
                   [&](const ReferenceStage& other) { return other.stage == stage.stage; });
  if (at == reference_.stages.end()) {
    if (bound) bound_.set(index_of(stage.stage));
    if (!stage.rearranged.empty()) rearranged_[stage.rearranged].push_back(io::shown(name));
    reference_.stages.push_back(std::move(stage));
    return;
  }
  if (!bound && contains(bound_, stage.stage)) return; // a binding wins
  fail("{} and {} both are {}; bind the one that is meant: --against {}=FILE:TENSOR", at->source,
       stage.source, name_of(stage.stage), name_of(stage.stage));
}

void Reader::take(const Named& named) {
  const std::vector<Stage> stages = possible(named);
  if (stages.empty()) return;
  if (stages.size() == 1 && stages[0] == Stage::x && last_part(named.name) != "x" &&
      layer_.settings.input_norm != InputNorm::none) {
    reference_.passed_over.push_back(
        fmt::format("{} (x is the normalised input here)", named.name));
    return;
  }
  const Tensor tensor = named.entry->read();
  if (stages.size() == 1) {
    add(value_of(named, stages[0], tensor), named.name, named.bound);
    return;
  }
  AmbiguousStage ambiguous{named.name, {}};
  for (Stage stage : stages) ambiguous.readings.push_back(value_of(named, stage, tensor));
  reference_.ambiguous.push_back(std::move(ambiguous));
}

void Reader::bind(const io::Source& source) {
  const io::Entry entry = io::bound_entry(source);
  take({source.name, io::shown(source.text), &entry, source.axes, true});
}

void Reader::read(const io::Contents& contents) {
  std::set<std::size_t> numbers; ///< of the layers that the file speaks of
  for (const io::Entry& entry : contents.tensors)
    if (const auto number = naming::layer_number(entry.name))
      if (!meanings_of(entry.name).empty()) numbers.insert(*number);
  if (id_.empty() && numbers.size() > 1)
    fail("{} holds stages of layers {}; name the ones that are meant: --against STAGE=FILE:TENSOR",
         io::shown(contents.name), fmt::join(numbers, ", "));
  for (const io::Entry& entry : contents.tensors) {
    const std::optional<std::size_t> number = naming::layer_number(entry.name);
    if (number && !id_.empty() && std::to_string(*number) != id_ &&
        !entry.name.starts_with(fmt::format("layers.{}.", id_)))
      continue; // another layer's
    take({entry.name, fmt::format("{}: {}", io::shown(contents.name), io::shown(entry.name)),
          &entry, "", false});
  }
}

Reference Reader::finish(const std::vector<std::string>& sources) {
  if (reference_.stages.empty() && reference_.ambiguous.empty()) {
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
                         const std::string& layer_id) {
  if (sources.empty()) fail("no reference is given: --against FILE, or STAGE=FILE for one stage");
  Reader reader(layer, layer_id);
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
