#include <mha/render/circuits.hpp>

#include <mha/render/record.hpp>
#include <mha/render/table.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace mha::render {

namespace {

void put_circuits(Record& record, const HeadCircuits& one) {
  record.layer("layer", one.layer).count("head", one.head);
  for (const CircuitMeasure& measure : circuit_measures())
    record.number(measure.name, one.*measure.of);
  if (JsonText* const json = record.json()) {
    json->key("qk_singular_values").list(one.qk_singular_values);
    json->key("ov_singular_values").list(one.ov_singular_values);
    json->key("ov_eigenvalues").list(one.ov_eigenvalues, [&](std::complex<double> lambda) {
      json->list(std::array{lambda.real(), lambda.imag()});
    });
  }
}

void put_composition(Record& record, const Composition& one) {
  record.words("kind", name_of(one.kind)).layer("layer", one.layer).count("head", one.head);
  record.layer("to_layer", one.to_layer).count("to_head", one.to_head);
  record.number("composition", one.value).number("random", one.random);
}

} // namespace

std::string circuits_table(const std::vector<HeadCircuits>& heads, const TextStyle& text_style) {
  std::vector<Table::Column> titles{{.title = "layer", .right = true, .names = true},
                                        {.title = "head", .right = true, .names = true}};
  std::vector<const CircuitMeasure*> shown;
  for (const CircuitMeasure& measure : circuit_measures())
    if (std::ranges::any_of(heads, [&](const auto& one) { return (one.*measure.of).has_value(); }))
      shown.push_back(&measure), titles.push_back({std::string(measure.name), true});
  Table grid(std::move(titles));
  for (const HeadCircuits& one : heads) {
    std::vector<std::string> cells{visible(one.layer), fmt::format("{}", one.head)};
    for (const CircuitMeasure* measure : shown) {
      const std::optional<double>& number = one.*measure->of;
      cells.push_back(number ? fmt::format("{:.3f}", *number) : "–");
    }
    grid.add(std::move(cells));
  }
  return grid.text(text_style);
}

std::string circuits_text(const std::vector<HeadCircuits>& heads, std::string_view form,
                          Digits digits) {
  return text_of_rows(heads, form, digits, put_circuits, indented);
}

std::string spectra_text(const std::vector<HeadCircuits>& heads, std::string_view form,
                         Digits digits) {
  const char separator = separator_of(form);
  std::string lines =
      separated_line({"layer", "head", "value", "index", "real", "imaginary"}, separator);
  for (const HeadCircuits& one : heads) {
    const auto add = [&](const char* name, std::size_t index, std::complex<double> value) {
      lines += separated_line({one.layer, fmt::format("{}", one.head), name,
                               fmt::format("{}", index), exact(value.real(), Dialect::csv, digits),
                               exact(value.imag(), Dialect::csv, digits)},
                              separator);
    };
    for (std::size_t i = 0; i < one.qk_singular_values.size(); ++i)
      add("qk_singular_value", i, one.qk_singular_values[i]);
    for (std::size_t i = 0; i < one.ov_singular_values.size(); ++i)
      add("ov_singular_value", i, one.ov_singular_values[i]);
    for (std::size_t i = 0; i < one.ov_eigenvalues.size(); ++i)
      add("ov_eigenvalue", i, one.ov_eigenvalues[i]);
  }
  return lines;
}

std::string compositions_table(const std::vector<Composition>& pairs, const TextStyle& text_style) {
  Table grid({{"layer", true},
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
  return grid.text(text_style);
}

std::string compositions_text(const std::vector<Composition>& pairs, std::string_view form,
                              Digits digits) {
  return text_of_rows(pairs, form, digits, put_composition, indented);
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
