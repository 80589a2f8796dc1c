// Layers that an ONNX graph holds: the reader has found their parts, PREFIXW_q …, and PREFIXscale …
// among the scalars.

#include <mha/layer/settings.hpp>
#include <mha/load/families/namings.hpp>

#include <algorithm>

namespace mha::naming {

namespace {

/// Of a graph, or of the file that one was converted to.
bool is_of_graph(const Group& group) {
  const auto is_node = [&](const auto& scalar) { return scalar.first == group.prefix + "node"; };
  return group.contents->format == "onnx" ||
         std::ranges::any_of(group.contents->scalars, is_node);
}

/// W as the file has it, in, out: no copy.
void take_onnx(const Group& group, Translation& to, std::string_view name) {
  const io::Entry* entry = group.find(name);
  if (!entry) return;
  mha::NamedTensor part{group.read(*entry), to.source_of(name)};
  if (!entry->own_name.empty())
    part.from = fmt::format("{}: {}", group.contents->name, entry->own_name);
  to.parts[std::string(name)] = std::move(part);
}

void translate_onnx(const Group& group, Translation& to) {
  for (const char* name : {"W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o", "q_norm.weight",
                           "q_norm.bias", "k_norm.weight", "k_norm.bias", "bias", "mask", "sinks",
                           "rope_short_factor", "rope_long_factor"})
    take_onnx(group, to, name);
  for (const auto& [name, value] : group.contents->scalars) {
    if (!name.starts_with(group.prefix)) continue;
    const std::string_view setting = std::string_view(name).substr(group.prefix.size());
    if (setting.starts_with("note"))
      to.warn(value);
    else if (setting == "norm")
      to.norm.kind = value == "rms" ? NormKind::rms : NormKind::layer;
    else if (setting != "node" && find_setting(setting))
      to.set(setting, value, setting == "input_norm_eps" ? "" : "the graph");
  }
  to.norm.file = group.contents->name;
  to.norm.module = group.prefix + "norm";
  to.norm.weight = group.find("norm.weight"), to.norm.bias = group.find("norm.bias");
  for (const io::Entry* entry : {to.norm.weight, to.norm.bias})
    if (entry) group.use(*entry);
  if (to.norm.kind == NormKind::unknown) to.norm.kind = NormKind::none;
}

} // namespace

const Family onnx{
    "onnx",
    "ONNX graph",
    "W_q W_k W_v",
    "W_o b_q b_k b_v b_o q_norm.weight q_norm.bias k_norm.weight k_norm.bias bias mask "
    "sinks rope_short_factor rope_long_factor norm.weight norm.bias",
    is_of_graph,
    translate_onnx};

} // namespace mha::naming
