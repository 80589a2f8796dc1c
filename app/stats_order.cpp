#include "stats_order.hpp"

#include "cli.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace mha::app {

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
