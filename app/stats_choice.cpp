#include "stats_choice.hpp"

#include "cli.hpp"
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace mha::app {

void StatsChoice::check_columns() const {
  const bool of_vectors = texts.top_texts.has_value();
  if (!of_vectors && grid.empty()) return;
  const std::string_view shown = of_vectors ? "--top-texts" : "--grid";
  for (const auto& [given, option] : {std::pair(!measures.empty(), "--measures"),
                                      {all, "--measures all"},
                                      {of_vectors && subtract_uniform, "--above-uniform"},
                                      {!sort.empty() && (of_vectors || !top), "--sort"},
                                      {of_vectors && top.has_value(), "--top"}})
    if (given)
      throw UsageError(fmt::format("{} has no effect on {}, which {}; leave it out", option, shown,
                                   of_vectors ? "lists the longest vectors" : "shows one measure"));
}

void StatsChoice::take_all() {
  if (!is_one_of(std::string("all"), measures)) return;
  if (std::ranges::any_of(measures, [](const std::string& name) { return name != "all"; }))
    throw UsageError("--measures all includes every measure; leave out the other names");
  all = true, measures.clear();
}

bool StatsChoice::shows(std::string_view name) const {
  const bool has_kinds =
      grid.empty() && !texts.top_texts && texts.by != "position" && texts.by != "token";
  const auto is_of = [&](const std::string& measure) { return measure.starts_with(name); };
  return has_kinds || !kinds.empty() || is_of(grid) || is_of(sort) ||
         std::ranges::any_of(measures, is_of);
}

std::vector<const Measure*> StatsChoice::columns_asked() const {
  std::vector<const Measure*> columns;
  for (const std::string& name : measures)
    if (name != "kind") columns.push_back(&measure_named(name)); // each row has its kind already
  return subtract_uniform ? all_above_uniform(columns) : each_once(columns);
}

StatsOrder stats_order_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon),
                    direction = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (!direction.empty() && direction != "asc" && direction != "desc")
    throw UsageError(fmt::format("--sort {}: '{}' is neither asc nor desc", text, direction));
  StatsOrder order;
  if (name != "kind") order.measure = &measure_named(name);
  order.ascending = direction.empty() ? name == "kind" : direction == "asc";
  return order;
}

void sort_rows(std::vector<render::StatsRow>& rows, const StatsOrder& order) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const render::StatsRow& left, const render::StatsRow& right) {
                     const render::StatsRow &a = order.ascending ? left : right,
                                            &b = order.ascending ? right : left;
                     if (order.measure == nullptr) return a.head.kind < b.head.kind;
                     const auto known = [&](const render::StatsRow& row) {
                       const std::optional<double> value = order.measure->of(row.head);
                       return value && !std::isnan(*value) ? value : std::nullopt;
                     };
                     if (known(left) && known(right)) return *known(a) < *known(b);
                     return known(left).has_value() && !known(right);
                   });
}

} // namespace mha::app
