#include "flow_text.hpp"

#include <mha/render/json_text.hpp>
#include <mha/render/label.hpp>
#include <mha/render/numbers.hpp>

#include <algorithm>

namespace mha::app {

namespace {

/// Nested lists of a tensor's numbers.
void put_nested(render::JsonText& json, const Tensor& value, std::size_t axis, std::size_t& next) {
  if (axis == value.rank()) return json.value(value.as<double>()[next++]);
  json.open_list();
  for (std::size_t i = 0; i < value.shape()[axis]; ++i) put_nested(json, value, axis + 1, next);
  json.close();
}

/// The tokens of an axis, a list for each batch item; nothing where there are none.
void put_tokens(render::JsonText& json, std::string_view name,
                const std::vector<std::vector<std::string>>& items, bool batched) {
  if (items.empty() || items[0].empty()) return;
  json.key(name);
  if (batched)
    json.list(items, [&](const std::vector<std::string>& item) { json.list(item); });
  else
    json.list(items[0]);
}

/// One map: rows with their labels, columns in groups that fit the width.
std::string matrix_text(const FlowMatrix& one, const render::TextStyle& text_style) {
  const auto labels = [](const std::vector<std::size_t>& positions,
                         const std::vector<std::string>& all) {
    std::vector<std::string> list;
    for (const std::string& label : labels_at(positions, all))
      list.push_back(render::shortened(render::readable(label), 12));
    return list;
  };
  const std::vector<std::string> down = labels(one.rows, one.row_labels),
                                 across = labels(one.cols, one.col_labels);
  const render::ColumnFormat format(one.values, 4);
  std::size_t left = 0;
  for (const std::string& label : down) left = std::max(left, render::display_width(label));
  const double* const values = one.values.as<double>().data();
  std::string out;
  for (std::size_t first = 0, end; first < across.size(); first = end) {
    std::string heading(left, ' ');
    std::vector<std::size_t> widths;
    std::size_t used = left;
    for (end = first; end < across.size(); ++end) {
      const std::size_t width = std::max(format.width(), render::display_width(across[end]));
      if (end > first && used + 2 + width > text_style.width) break;
      used += 2 + width, widths.push_back(width);
      heading += "  " + render::pad_left(across[end], width);
    }
    out += (first > 0 ? "\n" : "") + heading + "\n";
    for (std::size_t r = 0; r < down.size(); ++r) {
      out += render::pad_left(down[r], left);
      for (std::size_t c = first; c < end; ++c) {
        out += "  ";
        format.append(out, values[r * across.size() + c], widths[c - first]);
      }
      out += "\n";
    }
  }
  return out;
}

} // namespace

std::vector<std::string> labels_at(const std::vector<std::size_t>& positions,
                                   const std::vector<std::string>& labels) {
  std::vector<std::string> at;
  for (const std::size_t position : positions)
    at.push_back(labels.empty() ? std::to_string(position) : labels[position]);
  return at;
}

std::string item_name(const FlowOfLayer& layer, const FlowInfo& kind, bool several) {
  return several ? fmt::format("layers.{}.{}", layer.layer, kind.name) : std::string(kind.name);
}

std::string flow_csv(const std::vector<FlowOfLayer>& layers, const FlowInfo& kind,
                     std::string_view form, const std::optional<std::size_t>& precision) {
  const bool labelled = std::ranges::any_of(
      layers, [](const FlowOfLayer& layer) { return !layer.matrices[0].col_labels.empty(); });
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    out += render::separated_line(cells, render::separator_of(form));
  };
  std::vector<std::string> titles{"layer", "stage", "batch", "head", "row", "col", "value"};
  if (labelled) titles.insert(titles.end(), {"row_token", "col_token"});
  line(titles);
  const auto index = [](const std::optional<std::size_t>& number) {
    return number ? std::to_string(*number) : std::string();
  };
  for (const FlowOfLayer& layer : layers)
    for (const FlowMatrix& one : layer.matrices) {
      const double* value = one.values.as<double>().data();
      for (const std::size_t r : one.rows)
        for (const std::size_t c : one.cols) {
          std::string number;
          render::NumberWriter(render::Dialect::csv, precision).append(number, *value++);
          std::vector<std::string> cells{layer.layer,     std::string(kind.name), index(one.batch),
                                         index(one.head), std::to_string(r),      std::to_string(c),
                                         number};
          if (labelled) {
            cells.push_back(one.row_labels.empty() ? "" : one.row_labels[r]);
            cells.push_back(one.col_labels.empty() ? "" : one.col_labels[c]);
          }
          line(cells);
        }
    }
  return out;
}

std::string flow_json(const std::vector<FlowOfLayer>& layers, const FlowInfo& kind,
                      const std::optional<std::size_t>& precision) {
  render::JsonText json(precision);
  json.open_object(render::indented);
  for (const FlowOfLayer& layer : layers)
    json.key(item_name(layer, kind, layers.size() > 1)).object([&] {
      json.key("shape").list(layer.value.shape());
      json.member("dtype", "float64");
      put_tokens(json, "row_tokens", layer.row_tokens, layer.batched);
      put_tokens(json, "col_tokens", layer.col_tokens, layer.batched);
      json.key("data");
      std::size_t next = 0;
      put_nested(json, layer.value, 0, next);
    });
  json.close();
  json.end_line();
  return json.take();
}

std::string flow_table(const std::vector<FlowOfLayer>& layers, const FlowInfo& kind,
                       const std::string& title, const render::TextStyle& text_style) {
  const std::string heading = fmt::format("{} · {}", title, kind.formula);
  std::string out = (render::display_width(heading) <= text_style.width
                         ? text_style.bold(title) + heading.substr(title.size())
                         : text_style.bold(render::in_lines(heading, text_style.width))) +
                    "\n";
  for (const FlowOfLayer& layer : layers)
    for (const FlowMatrix& one : layer.matrices) {
      std::string name;
      if (layers.size() > 1) name += " layer " + render::visible(layer.layer);
      if (one.batch) name += fmt::format(" batch {}", *one.batch);
      if (one.head) name += fmt::format(" head {}", *one.head);
      out += "\n" + (name.empty() ? "" : text_style.bold(name.substr(1)) + "\n") +
             matrix_text(one, text_style);
    }
  return out;
}

} // namespace mha::app
