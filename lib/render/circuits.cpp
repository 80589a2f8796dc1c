#include <mha/render/circuits.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/text_table.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace mha::render {

namespace {

/// A layer's id as JSON: a number, or its name.
std::string layer_json(const std::string& layer) {
  if (layer.empty()) return "null";
  return parse_number<std::size_t>(layer) ? layer : json_string(layer);
}

std::string lines_of(const std::vector<std::vector<std::string>>& rows, char separator) {
  std::string out;
  for (const std::vector<std::string>& cells : rows) out += separated_line(cells, separator);
  return out;
}

std::string list_json(const std::vector<double>& numbers, Digits digits) {
  std::string text;
  for (const double number : numbers)
    text += (text.empty() ? "" : ", ") + exact(number, Dialect::json, digits);
  return "[" + text + "]";
}

} // namespace

std::string circuits_table(const std::vector<HeadCircuits>& heads, const TextStyle& look) {
  std::vector<TextTable::Column> titles{{.title = "layer", .right = true, .names = true},
                                        {.title = "head", .right = true, .names = true}};
  std::vector<const CircuitMeasure*> shown;
  for (const CircuitMeasure& measure : circuit_measures())
    if (std::ranges::any_of(heads, [&](const auto& one) { return (one.*measure.of).has_value(); }))
      shown.push_back(&measure), titles.push_back({std::string(measure.name), true});
  TextTable grid(std::move(titles));
  for (const HeadCircuits& one : heads) {
    std::vector<std::string> cells{visible(one.layer), fmt::format("{}", one.head)};
    for (const CircuitMeasure* measure : shown) {
      const std::optional<double>& number = one.*measure->of;
      cells.push_back(number ? fmt::format("{:.3f}", *number) : "–");
    }
    grid.add(std::move(cells));
  }
  return grid.text(look);
}

std::string circuits_csv(const std::vector<HeadCircuits>& heads, char separator, Digits digits) {
  std::vector<std::vector<std::string>> rows{{"layer", "head"}};
  for (const CircuitMeasure& measure : circuit_measures()) rows[0].emplace_back(measure.name);
  for (const HeadCircuits& one : heads) {
    std::vector<std::string>& cells = rows.emplace_back();
    cells = {one.layer, fmt::format("{}", one.head)};
    for (const CircuitMeasure& measure : circuit_measures())
      cells.push_back(exact(one.*measure.of, Dialect::csv, digits));
  }
  return lines_of(rows, separator);
}

std::string circuits_json(const std::vector<HeadCircuits>& heads, Digits digits) {
  std::string list;
  for (const HeadCircuits& one : heads) {
    list += fmt::format("{}  {{\"layer\": {}, \"head\": {}", list.empty() ? "\n" : ",\n",
                        layer_json(one.layer), one.head);
    for (const CircuitMeasure& measure : circuit_measures())
      list +=
          fmt::format(", \"{}\": {}", measure.name, exact(one.*measure.of, Dialect::json, digits));
    std::string eigenvalues;
    for (const std::complex<double>& lambda : one.ov_eigenvalues)
      eigenvalues +=
          (eigenvalues.empty() ? "" : ", ") + list_json({lambda.real(), lambda.imag()}, digits);
    list += fmt::format(", \"qk_singular_values\": {}, \"ov_singular_values\": {}, "
                        "\"ov_eigenvalues\": [{}]}}",
                        list_json(one.qk_singular_values, digits),
                        list_json(one.ov_singular_values, digits), eigenvalues);
  }
  return "[" + list + "\n]\n";
}

std::string spectra_csv(const std::vector<HeadCircuits>& heads, char separator, Digits digits) {
  std::vector<std::vector<std::string>> rows{
      {"layer", "head", "value", "index", "real", "imaginary"}};
  for (const HeadCircuits& one : heads) {
    const auto add = [&](const char* name, std::size_t index, std::complex<double> value) {
      rows.push_back({one.layer, fmt::format("{}", one.head), name, fmt::format("{}", index),
                      exact(value.real(), Dialect::csv, digits),
                      exact(value.imag(), Dialect::csv, digits)});
    };
    for (std::size_t i = 0; i < one.qk_singular_values.size(); ++i)
      add("qk_singular_value", i, one.qk_singular_values[i]);
    for (std::size_t i = 0; i < one.ov_singular_values.size(); ++i)
      add("ov_singular_value", i, one.ov_singular_values[i]);
    for (std::size_t i = 0; i < one.ov_eigenvalues.size(); ++i)
      add("ov_eigenvalue", i, one.ov_eigenvalues[i]);
  }
  return lines_of(rows, separator);
}

std::string compositions_table(const std::vector<Composition>& pairs, const TextStyle& look) {
  TextTable grid({{"layer", true},
                  {"head", true},
                  {"to_layer", true},
                  {"to_head", true},
                  {"kind"},
                  {"composition", true},
                  {"random", true}});
  for (const Composition& one : pairs)
    grid.add({visible(one.layer), fmt::format("{}", one.head), visible(one.to_layer),
              fmt::format("{}", one.to_head), std::string(name_of(one.kind)),
              fmt::format("{:.4f}", one.value), fmt::format("{:.4f}", one.random)});
  return grid.text(look);
}

std::string compositions_csv(const std::vector<Composition>& pairs, char separator, Digits digits) {
  std::vector<std::vector<std::string>> rows{
      {"kind", "layer", "head", "to_layer", "to_head", "composition", "random"}};
  for (const Composition& one : pairs)
    rows.push_back({std::string(name_of(one.kind)), one.layer, fmt::format("{}", one.head),
                    one.to_layer, fmt::format("{}", one.to_head),
                    exact(one.value, Dialect::csv, digits),
                    exact(one.random, Dialect::csv, digits)});
  return lines_of(rows, separator);
}

std::string compositions_json(const std::vector<Composition>& pairs, Digits digits) {
  std::string list;
  for (const Composition& one : pairs)
    list +=
        fmt::format("{}  {{\"kind\": \"{}\", \"layer\": {}, \"head\": {}, \"to_layer\": {}, "
                    "\"to_head\": {}, \"composition\": {}, \"random\": {}}}",
                    list.empty() ? "\n" : ",\n", name_of(one.kind), layer_json(one.layer), one.head,
                    layer_json(one.to_layer), one.to_head, exact(one.value, Dialect::json, digits),
                    exact(one.random, Dialect::json, digits));
  return "[" + list + "\n]\n";
}

std::vector<GridPanel> compositions_grid(const std::vector<Composition>& pairs,
                                         bool beyond_random) {
  std::vector<GridPanel> panels;
  for (const CompositionKind kind : {CompositionKind::q, CompositionKind::k, CompositionKind::v}) {
    GridPanel panel;
    panel.rows.name = "earlier head", panel.cols.name = "later head";
    std::map<std::string, std::size_t> rows, cols;
    const auto place = [](std::map<std::string, std::size_t>& places, GridAxis& axis,
                          const std::string& layer, std::size_t head) {
      const std::string label = fmt::format("{}.{}", layer, head);
      const auto [at, is_new] = places.try_emplace(label, axis.labels.size());
      if (is_new && head == 0) axis.marks.emplace_back(axis.labels.size(), label);
      if (is_new) axis.labels.push_back(label);
      return at->second;
    };
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (const Composition& one : pairs)
      if (one.kind == kind) {
        const std::size_t row = place(rows, panel.rows, one.layer, one.head);
        places.emplace_back(row, place(cols, panel.cols, one.to_layer, one.to_head));
      }
    if (places.empty()) continue;
    panel.values.assign(rows.size() * cols.size(), std::numeric_limits<double>::quiet_NaN());
    std::size_t next = 0;
    for (const Composition& one : pairs)
      if (one.kind == kind) {
        const auto [row, col] = places[next++];
        panel.values[row * cols.size() + col] = one.value - (beyond_random ? one.random : 0);
      }
    panel.title = fmt::format("{}-composition", kind == CompositionKind::q   ? "Q"
                                                : kind == CompositionKind::k ? "K"
                                                                             : "V");
    panels.push_back(std::move(panel));
  }
  return panels;
}

} // namespace mha::render
