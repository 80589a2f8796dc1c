// Layers in an ONNX graph. The reader has already found their parts, which are named PREFIXW_q …,
// and their settings among the scalars, named PREFIXscale ….

#include <mha/layer/settings.hpp>
#include <mha/load/buckets.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/maths/functions.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <cmath>

namespace mha::naming {

namespace {

/// Takes W without a copy, because the graph stores it (in, out).
void take_onnx(const Group& group, LayerReading& to, std::string_view name) {
  const io::Entry* entry = group.find(name);
  if (!entry) return;
  mha::NamedTensor part{group.read(*entry), to.source_of(name)};
  if (!entry->own_name.empty())
    part.from = fmt::format("{}: {}", group.contents->name, entry->own_name);
  to.parts[std::string(name)] = std::move(part);
}

/// The bucket of each distance in a graph's list, "0,1,2,3,3".
std::vector<std::size_t> buckets_in_graph(const Group& group, std::string_view name) {
  std::vector<std::size_t> list;
  for (const auto& [key, value] : group.contents->scalars) {
    if (key != group.prefix + std::string(name)) continue;
    for (std::string_view rest = value; !rest.empty();
         rest.remove_prefix(std::min<std::size_t>(1, rest.size()))) {
      const auto bucket = take_number<std::size_t>(rest);
      if (!bucket) return {};
      list.push_back(*bucket);
    }
  }
  return list;
}

/// Whether T5's formula puts a distance into this bucket. A distance on the border of two buckets,
/// where rounding of the logarithms decides, may be in either.
bool may_be_bucket(std::size_t bucket, std::size_t distance, std::size_t buckets,
                   std::size_t farthest) {
  if (bucket == relative_bucket(distance, buckets, farthest)) return true;
  const std::size_t exact = buckets / 2;
  if (distance < exact || distance >= farthest) return false;
  const auto times = [&](std::size_t number) {
    return maths::log(static_cast<double>(number) / static_cast<double>(exact));
  };
  const double position = times(distance) / times(farthest) * static_cast<double>(buckets - exact),
               border = std::round(position);
  constexpr double rounding = 1e-5;
  const double found = static_cast<double>(bucket) - static_cast<double>(exact);
  return std::abs(position - border) < rounding && (found == border || found == border - 1);
}

/// Finds the settings with which T5's formula gives the graph's buckets.
void set_relative_bias(const Group& group, LayerReading& to) {
  const io::Entry* table = group.find("relative_bias");
  if (!table) return;
  const std::vector<std::size_t> before = buckets_in_graph(group, "buckets_before"),
                                 after = buckets_in_graph(group, "buckets_after");
  const std::size_t rows = table->shape.empty() ? 0 : table->shape[0];
  const auto gives = [&](const std::vector<std::size_t>& list, std::size_t offset,
                         std::size_t buckets, std::size_t farthest) {
    for (std::size_t distance = 1; distance < list.size(); ++distance)
      if (list[distance] < offset ||
          !may_be_bucket(list[distance] - offset, distance, buckets, farthest))
        return false;
    return list.size() > 1;
  };
  for (const bool both : {true, false}) {
    const std::size_t buckets = both ? rows / 2 : rows;
    if (buckets < 2) continue;
    constexpr std::size_t usual = 128;
    std::vector<std::size_t> tried{usual};
    for (std::size_t farthest = buckets / 2 + 1; farthest < 2 * before.size(); ++farthest)
      tried.push_back(farthest);
    for (const std::size_t farthest : tried) {
      if (farthest <= buckets / 2 || !gives(before, 0, buckets, farthest)) continue;
      if (both && !gives(after, buckets, buckets, farthest)) continue;
      to.set("relative_bidirectional", both ? "true" : "false", "the graph");
      to.set("relative_max_distance", std::to_string(farthest), "the graph");
      take_onnx(group, to, "relative_bias");
      return;
    }
  }
  to.warn(message(
      "a bias by distance is added to the scores, whose buckets are not T5's: give <bias=FILE>, "
      "with (H, T, S) numbers for your T and S"));
}

} // namespace

/// Whether the layer is in a graph, or in a file that a graph was converted to.
bool is_of_graph(const Group& group) {
  const auto is_node = [&](const auto& scalar) { return scalar.first == group.prefix + "node"; };
  return group.contents->format == "onnx" || std::ranges::any_of(group.contents->scalars, is_node);
}

void step_graph(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  for (const char* name : {"W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o", "q_norm.weight",
                           "q_norm.bias", "k_norm.weight", "k_norm.bias", "bias", "mask", "sinks",
                           "k_extra", "v_extra", "rope_short_factor", "rope_long_factor"})
    take_onnx(group, to, name);
  for (const auto& [name, value] : group.contents->scalars) {
    if (!name.starts_with(group.prefix)) continue;
    const std::string_view setting = std::string_view(name).substr(group.prefix.size());
    if (setting.starts_with("note"))
      to.warn(group.contents->remarks.contains(name) ? group.contents->remarks.at(name) : value);
    else if (setting == "norm")
      to.norm.kind = value == "rms" ? NormKind::rms : NormKind::layer;
    else if (setting != "node" && setting != "needs" && find_setting(setting))
      to.set(setting, value, setting == "input_norm_eps" ? "" : "the graph");
  }
  set_relative_bias(group, to);
  to.norm.file = group.contents->name;
  to.norm.module = group.prefix + "norm";
  to.take_norm(group.find("norm.weight"), group.find("norm.bias"));
  if (to.norm.kind == NormKind::unknown) to.norm.kind = NormKind::none;
}

} // namespace mha::naming
