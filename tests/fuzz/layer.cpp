// A layer assembled of any tensors by their names, any shapes, any settings: refused in one line,
// or every stage that it has is computed.

#include "fuzz/expect.hpp"
#include <mha/layer/graph.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/assemble.hpp>
#include <mha/observe/trace.hpp>

#include <fuzzer/FuzzedDataProvider.h>

#include <cmath>
#include <limits>

namespace {

using namespace mha;

/// Sizes meet often enough for layers to be whole.
std::size_t size_from(FuzzedDataProvider& data) {
  constexpr std::size_t sizes[] = {1, 2, 2, 3, 4, 4, 6, 8, 0};
  return data.PickValueInArray(sizes);
}

double value_from(FuzzedDataProvider& data) {
  constexpr double values[] = {0,
                               1,
                               -1,
                               0.5,
                               -2.25,
                               3,
                               7,
                               100,
                               -1e30,
                               1e300,
                               1e-300,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
  return data.PickValueInArray(values);
}

Tensor tensor_from(FuzzedDataProvider& data) {
  Shape shape;
  const std::size_t rank = data.ConsumeIntegralInRange<std::size_t>(0, 4);
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(size_from(data));
  Tensor tensor(DType::f64, shape);
  const double first = value_from(data), step = value_from(data);
  double value = first;
  for (double& element : tensor.as_mutable<double>()) {
    element = value;
    value = std::isfinite(value + step / 7) ? value + step / 7 : first;
  }
  constexpr DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::boolean, DType::i64};
  return convert(tensor, data.PickValueInArray(dtypes));
}

std::string name_from(FuzzedDataProvider& data) {
  const std::size_t tensors = tensor_names().size();
  const auto i = data.ConsumeIntegralInRange<std::size_t>(0, tensors + stages().size() - 1);
  return std::string(i < tensors ? tensor_names()[i].name : stages()[i - tensors].name);
}

void setting_from(FuzzedDataProvider& data, Settings& settings) {
  const auto i = data.ConsumeIntegralInRange<std::size_t>(0, settings_table().size() - 1);
  const SettingInfo& info = settings_table()[i];
  constexpr const char* values[] = {"1",    "2",     "0",   "4",    "-1",
                                    "true", "false", "0.5", "1e15", "9223372036854775807"};
  std::string value = data.PickValueInArray(values);
  if (info.kind == SettingKind::choice && !info.values.empty()) {
    auto skip = data.ConsumeIntegralInRange<std::size_t>(0, 5);
    std::string_view left = info.values;
    while (skip-- > 0 && left.find('|') != left.npos) left.remove_prefix(left.find('|') + 1);
    value = left.substr(0, left.find('|'));
  }
  set(settings, info.name, value, "--option");
}

void show(const NamedTensors& parts, const Settings& settings) {
  for (const auto& [name, part] : parts)
    std::fprintf(stderr, "%s %s%s%s%s\n", name.c_str(), to_string(part.tensor.shape()).c_str(),
                 part.bound ? " bound" : "", part.weak ? " weak" : "", part.rows ? " rows" : "");
  for (const auto& [name, origin] : settings.origins)
    std::fprintf(stderr, "%s = %s\n", name.c_str(), find_setting(name)->get(settings).c_str());
}

void compute_all(const Layer& layer) {
  const Dims& dims = layer.dims;
  // Assembled of small tensors, a layer is small: all its stages together are a few megabytes.
  const double pairs = static_cast<double>(dims.B * dims.H) * static_cast<double>(dims.T) *
                       static_cast<double>(dims.S_all);
  fuzz::require(pairs < 1e7, "a layer no larger than its tensors allow");
  const StageSet available = available_stages(layer);
  std::vector<Stage> wanted;
  for (const StageInfo& info : stages())
    if (contains(available, info.stage)) wanted.push_back(info.stage);
  if (wanted.empty()) return;
  const Trace kept = trace(layer, wanted, {}, 1);
  for (Stage stage : wanted)
    fuzz::require(kept.value(stage).shape() == kept.placement(stage).shape(), "shapes hold");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  fuzz::expect_error_or_success([&] {
    Settings settings;
    if (data.ConsumeBool()) set(settings, "num_heads", data.ConsumeBool() ? "2" : "1", "file");
    NamedTensors parts;
    Labels labels;
    if (data.ConsumeBool()) parts["X"] = {tensor_from(data), "file: X", false, false, false};
    for (auto left = data.ConsumeIntegralInRange<int>(0, 12); left > 0; --left) {
      const std::string name = name_from(data);
      const bool bound = data.ConsumeBool(), weak = data.ConsumeBool();
      parts[name] = {tensor_from(data), "file: " + name, bound, weak, data.ConsumeBool()};
    }
    for (auto left = data.ConsumeIntegralInRange<int>(0, 5); left > 0; --left)
      setting_from(data, settings);
    if (std::getenv("FUZZ_SHOW")) show(parts, settings); // to see what a find is made of
    labels.tokens.resize(data.ConsumeIntegralInRange<std::size_t>(0, 3), "word");
    std::vector<Note> notes;
    const Layer layer =
        make_layer(std::move(parts), std::move(settings),
                   data.ConsumeBool() ? std::optional(DType::f32) : std::nullopt, labels, &notes);
    for (const std::string& note : notes) fuzz::require_message(note);
    compute_all(layer);
  });
  return 0;
}
