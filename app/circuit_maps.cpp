#include "circuit_maps.hpp"
#include "describe.hpp"

#include "figures.hpp"
#include "map_difference.hpp"
#include "weights_only.hpp"
#include <mha/circuits/vocabulary.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/system/parse.hpp>

namespace mha::app {

namespace {

render::MapPanel circuit_panel(const std::string& title, const std::vector<std::string>& labels,
                               DenseMatrix values, bool ov) {
  return render::panel_of(title, {ov ? "attended token" : "query", labels, true, {}},
                          {ov ? "token of the logit" : "key", labels, true, {}},
                          std::move(values.numbers));
}

/// Writes the maps as an array: layers and heads (if several), tokens, tokens.
void write_array(const CircuitMaps& maps, const std::vector<render::MapPanel>& panels,
                 std::size_t layers, bool one_head) {
  std::vector<double> numbers;
  for (const render::MapPanel& panel : panels)
    numbers.insert(numbers.end(), panel.map.values.begin(), panel.map.values.end());
  write_map_array(maps.output.path, numbers,
                  {layers, panels.size() / layers, maps.words.size(), maps.words.size()}, one_head);
}

} // namespace

void draw_circuits(const RunRequest& request, const CircuitMaps& maps, const std::string& form,
                   Common& common) {
  const char* const name = maps.ov ? "ov" : "qk";
  for (const std::string_view placeholder : all_placeholders)
    if (mentions(maps.output.path, placeholder))
      throw UsageError(fmt::format("{}: -s {} draws one picture of all heads; leave out {}",
                                   maps.output.path, name, placeholder));
  if (maps.words.empty())
    throw UsageError(fmt::format("-s {} needs tokens: --vocab 'the, king, queen'", name));
  OpenedWeights opened(request, fmt::format("map -s {}", name), common);
  if (!opened.model()) fail("-s {} needs an embedding: {}", name, opened.why_no_model());
  std::vector<int> tokens;
  std::vector<std::string> labels;
  for (const std::string& word : maps.words) {
    tokens.push_back(opened.token_of(word, "--vocab"));
    labels.push_back(opened.label(tokens.back()));
  }
  const WholeModel& model = *opened.model();
  const TokenCircuits circuits(model.embedding(), model.last_norm(), model.head(), tokens, maps.ov);
  const std::vector<std::string>& ids = opened.layers().chosen();
  std::string title = fmt::format("{} · {}", maps.product(), title_of(opened.layers()));
  if (ids.size() == 1) title += " layer " + render::visible(ids[0]);
  std::vector<render::MapPanel> panels;
  std::size_t columns = 0;
  bool is_rotary = false, one_head = false;
  for (const std::string& id : ids) {
    const LoadedLayer loaded = load_layer(opened.layers(), id, common, true);
    const Stopwatch watch(common.compute_s);
    const LayerProjections layer = projections_of(loaded.layer, id, maps.offset);
    is_rotary = is_rotary || layer.is_rotary;
    require_rotary(layer.is_rotary, maps.offset);
    const Pick picked = resolved(maps.selection.head, layer.heads, "heads");
    const std::vector<std::size_t>& heads = picked.indices;
    one_head = picked.drops_axis;
    columns = std::max(columns, heads.size());
    for (const std::size_t head : heads) {
      DenseMatrix circuit = circuits.of(layer, head);
      report_warnings(
          {{id, not_finite_result(fmt::format("{} of head {}", maps.product(), head),
                                  Tensor::of({circuit.rows, circuit.cols},
                                             std::span<const double>(circuit.numbers)))}},
          common);
      panels.push_back(circuit_panel(ids.size() == 1
                                         ? fmt::format("head {}", head)
                                         : fmt::format("L{} H{}", render::visible(id), head),
                                     labels, std::move(circuit), maps.ov));
    }
  }
  if (is_rotary && !maps.ov) title += fmt::format(" · offset {}", maps.offset);
  const Stopwatch watch(common.write_s);
  if (form == "npy") return write_array(maps, panels, ids.size(), one_head);
  write_grid(
      {maps.output.path, form, maps.figure, common.color}, title, panels,
      {.none = "none",
       .columns = ids.size() > 1 ? columns : render::grid_columns(panels.size(), panels.size()),
       .colors = maps.colors});
}

void require_rotary(bool is_rotary, std::int64_t offset) {
  if (!is_rotary && offset != 0)
    fail("--distance {}: the layer has no rotary embedding, so QK is one matrix at every distance; "
         "leave --distance out",
         offset);
}

void add_offset(Cli& cli, std::optional<std::int64_t>& offset) {
  Option option;
  option.name = "--distance";
  option.value_name = "N";
  option.help =
      "with rotary embedding: show QK between a query and the key N tokens before it; default: 0";
  option.set = [&offset](const std::string& text) {
    offset = parse_number<std::int64_t>(text);
    if (!offset) throw UsageError(fmt::format("--distance is '{}': a whole number expected", text));
  };
  cli.add(std::move(option)).formerly("--offset");
}

} // namespace mha::app
