#include <mha/render/circuits.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace mha::render {

namespace {

/// A singular value of QK or OV, or an eigenvalue of OV.
struct SpectrumLine {
  const HeadCircuits* head = nullptr;
  const char* name = "";
  std::size_t index = 0;
  std::complex<double> value;
};

template <class Number> Cell list_of(const std::vector<Number>& numbers) {
  return Cell::json([&numbers](JsonText& json) { json.list(numbers); });
}

} // namespace

Table circuits_table(const std::vector<HeadCircuits>& heads) {
  using In = Table::In;
  ColumnsOf<HeadCircuits> columns{{{.title = "layer", .right = true, .names = true},
                                   [](const HeadCircuits& one) { return Cell::layer(one.layer); }},
                                  {{.title = "head", .right = true, .names = true},
                                   [](const HeadCircuits& one) { return Cell::count(one.head); }}};
  for (const CircuitMeasure& measure : circuit_measures()) {
    const bool some =
        std::ranges::any_of(heads, [&](const auto& one) { return (one.*measure.of).has_value(); });
    columns.push_back(
        {{.title = std::string(measure.name),
          .right = true,
          .in = some ? In::all : In::fields,
          .eyes = [](double number) { return fmt::format("{:.3f}", number); }},
         [&measure](const HeadCircuits& one) { return Cell::number(one.*measure.of); }});
  }
  columns.push_back({{.title = "qk_singular_values", .in = In::json},
                     [](const HeadCircuits& one) { return list_of(one.qk_singular_values); }});
  columns.push_back({{.title = "ov_singular_values", .in = In::json},
                     [](const HeadCircuits& one) { return list_of(one.ov_singular_values); }});
  columns.push_back({{.title = "ov_eigenvalues", .in = In::json}, [](const HeadCircuits& one) {
                       return Cell::json([&one](JsonText& json) {
                         json.list(one.ov_eigenvalues, [&](std::complex<double> lambda) {
                           json.list(std::array{lambda.real(), lambda.imag()});
                         });
                       });
                     }});
  Table table = table_of(heads, columns);
  const auto some = [&](std::optional<double> HeadCircuits::*of) {
    return std::ranges::any_of(heads, [&](const auto& one) { return (one.*of).has_value(); });
  };
  std::string note = "rank: effective rank; max: largest singular value";
  if (some(&HeadCircuits::ov_positive))
    note += "; ov_positive: 1 where the head copies what it reads, -1 its opposite";
  if (some(&HeadCircuits::copying)) note += "; copying: the same from a token to its own logit";
  table.note(note);
  return table;
}

Table spectra_table(const std::vector<HeadCircuits>& heads) {
  std::vector<SpectrumLine> lines;
  for (const HeadCircuits& one : heads) {
    const auto add = [&](const char* name, const auto& values) {
      for (std::size_t i = 0; i < values.size(); ++i) lines.push_back({&one, name, i, values[i]});
    };
    add("qk_singular_value", one.qk_singular_values);
    add("ov_singular_value", one.ov_singular_values);
    add("ov_eigenvalue", one.ov_eigenvalues);
  }
  using Line = SpectrumLine;
  return table_of(
      lines, ColumnsOf<Line>{{{.title = "layer", .right = true, .names = true},
                              [](const Line& line) { return Cell::layer(line.head->layer); }},
                             {{.title = "head", .right = true, .names = true},
                              [](const Line& line) { return Cell::count(line.head->head); }},
                             {{.title = "value"}, [](const Line& line) { return Cell(line.name); }},
                             {{.title = "index", .right = true},
                              [](const Line& line) { return Cell::count(line.index); }},
                             {{.title = "real", .right = true},
                              [](const Line& line) { return Cell::number(line.value.real()); }},
                             {{.title = "imaginary", .right = true},
                              [](const Line& line) { return Cell::number(line.value.imag()); }}});
}

Table compositions_table(const std::vector<Composition>& pairs) {
  using In = Table::In;
  using Pair = Composition;
  const auto four_decimals = [](double number) { return fmt::format("{:.4f}", number); };
  const auto kind = [](const Pair& one) { return Cell(name_of(one.kind)); };
  return table_of(pairs,
                  ColumnsOf<Pair>{{{.title = "kind", .in = In::fields}, kind},
                                  {{.title = "layer", .right = true},
                                   [](const Pair& one) { return Cell::layer(one.layer); }},
                                  {{.title = "head", .right = true},
                                   [](const Pair& one) { return Cell::count(one.head); }},
                                  {{.title = "to_layer", .right = true},
                                   [](const Pair& one) { return Cell::layer(one.to_layer); }},
                                  {{.title = "to_head", .right = true},
                                   [](const Pair& one) { return Cell::count(one.to_head); }},
                                  {{.title = "kind", .in = In::eyes}, kind},
                                  {{.title = "composition", .right = true, .eyes = four_decimals},
                                   [](const Pair& one) { return Cell::number(one.value); }},
                                  {{.title = "random", .right = true, .eyes = four_decimals},
                                   [](const Pair& one) { return Cell::number(one.random); }}});
}

std::vector<MapPanel> compositions_grid(const std::vector<Composition>& pairs, bool beyond_random) {
  std::vector<MapPanel> panels;
  for (const CompositionKind kind : {CompositionKind::q, CompositionKind::k, CompositionKind::v}) {
    GridAxis down{"earlier head", {}}, across{"later head", {}};
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
        const std::size_t row = place(rows, down, one.layer, one.head);
        places.emplace_back(row, place(cols, across, one.to_layer, one.to_head));
      }
    if (places.empty()) continue;
    std::vector<double> values(rows.size() * cols.size(), std::numeric_limits<double>::quiet_NaN());
    std::size_t next = 0;
    for (const Composition& one : pairs)
      if (one.kind == kind) {
        const auto [row, col] = places[next++];
        values[row * cols.size() + col] = one.value - (beyond_random ? one.random : 0);
      }
    const char* const letter = kind == CompositionKind::q   ? "Q"
                               : kind == CompositionKind::k ? "K"
                                                            : "V";
    panels.push_back(
        panel_of(fmt::format("{}-composition", letter), down, across, std::move(values)));
  }
  return panels;
}

} // namespace mha::render
