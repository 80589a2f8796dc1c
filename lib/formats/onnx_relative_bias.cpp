// T5's position bias in a graph: rows of a table, gathered by buckets of distances that the graph
// computes itself.

#include <mha/formats/onnx_layers.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

constexpr double least_bias = -1000;     ///< masks are below it, biases above
constexpr std::int64_t far_enough = 300; ///< distances beyond the usual limit of T5, 128

/// A table of (rows, heads), and the fixed value that chooses its rows.
struct GatheredTable {
  int table = -1, rows = -1;
  std::int64_t count = 0, heads = 0;
};

/// The table of a Gather of whole rows, if table and rows are fixed.
std::optional<GatheredTable> gathered_table(const OnnxFlow& flow, const OnnxStep& step,
                                            std::int64_t T, std::int64_t S) {
  if (!step.is("Gather") || step.integer("axis", 0) != 0) return std::nullopt;
  const int table = step.input(0), rows = step.input(1);
  if (!flow.is_fixed(table) || !flow.is_fixed(rows) || !flow.has_tensor(table)) return std::nullopt;
  const auto &shape = flow.shape(table), &chosen = flow.shape(rows);
  if (!shape || shape->size() != 2 || !chosen || onnx_count(*chosen) != T * S) return std::nullopt;
  return GatheredTable{table, rows, (*shape)[0], (*shape)[1]};
}

/// The row for query t and key s.
std::optional<std::int64_t> row_of(const OnnxFlow& flow, const GatheredTable& found,
                                   std::int64_t flat) {
  const auto row = flow.number(found.rows, flat);
  if (!row || !(*row >= 0 && *row < static_cast<double>(found.count))) return std::nullopt;
  return static_cast<std::int64_t>(*row);
}

/// Whether the site adds the table's numbers to the scores of the short input.
bool adds_rows_of(const OnnxFlow& flow, const OnnxAttentionSite& site,
                  const std::vector<std::int64_t>& heads, const GatheredTable& found) {
  if (found.heads != static_cast<std::int64_t>(heads.size())) return false;
  for (std::int64_t t = 0; t < site.T; ++t)
    for (std::int64_t s = 0; s < site.S; ++s) {
      const auto row = row_of(flow, found, t * site.S + s);
      if (!row) return false;
      for (std::int64_t h = 0; h < found.heads; ++h) {
        const auto added = site.added(heads[static_cast<std::size_t>(h)], t, s);
        if (!added) return false;
        if (*added < least_bias) continue;
        const auto number = flow.number(found.table, *row * found.heads + h);
        if (!number || std::abs(*number - *added) > 1e-6 * (1 + std::abs(*added))) return false;
      }
    }
  return true;
}

/// The rows for distances 0, 1, 2 …, read along a row or a column of the map; "" if one is unknown.
std::string rows_by_distance(const OnnxFlow& far, const GatheredTable& found, std::int64_t first,
                             std::int64_t step, std::int64_t count) {
  std::string list;
  for (std::int64_t distance = 0; distance < count; ++distance) {
    const auto row = row_of(far, found, first + distance * step);
    if (!row) return "";
    list += fmt::format("{}{}", distance == 0 ? "" : ",", *row);
  }
  return list;
}

} // namespace

bool add_onnx_relative_bias(const std::shared_ptr<const OnnxFlow>& flow,
                            const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads,
                            OnnxLayer& layer) {
  if (!flow->of_length || site.T != flow->length || site.S != flow->length) return false;
  for (std::size_t i = 0; i < flow->steps.size(); ++i) {
    const auto found = gathered_table(*flow, flow->steps[i], site.T, site.S);
    if (!found || !adds_rows_of(*flow, site, heads, *found)) continue;
    const auto far = flow->of_length(far_enough, 1, false);
    const auto same = gathered_table(*far, far->steps[i], far_enough, far_enough);
    if (!same) continue;
    // The last query looks back, the first one forward.
    const std::int64_t last = far_enough * far_enough - 1;
    std::string before = rows_by_distance(*far, *same, last, -1, far_enough),
                after = rows_by_distance(*far, *same, 0, 1, far_enough);
    if (before.empty() || after.empty()) continue;
    Entry entry;
    entry.name = "relative_bias";
    entry.dtype = onnx_weight_dtype(*flow, found->table);
    entry.shape = {static_cast<std::size_t>(found->count), static_cast<std::size_t>(found->heads)};
    entry.read = [flow, table = found->table] { return flow->tensor(table); };
    layer.tensors.push_back(std::move(entry));
    layer.settings.emplace_back("buckets_before", std::move(before));
    layer.settings.emplace_back("buckets_after", std::move(after));
    return true;
  }
  return false;
}

} // namespace mha::io
