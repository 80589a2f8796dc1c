#include "inventory.hpp"
#include <mha/render/grid.hpp>
#include <mha/render/numbers.hpp>

#include <algorithm>

namespace mha::app {

namespace {

using render::Grid;
using render::Look;
using render::visible;

std::string plural(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Which of the optional columns some tensor has something for.
struct Columns {
  bool range = false, nan = false, infinite = false;

  void see(const Inventory::Item& item) {
    if (!item.range) return;
    range = true;
    nan |= item.range->nan > 0;
    infinite |= item.range->infinite > 0;
  }
  std::vector<Grid::Column> titles() const {
    std::vector<Grid::Column> list{{"tensor", false, true}, {"dtype"}, {"shape"}};
    if (range) list.insert(list.end(), {{"min", true}, {"max", true}});
    if (nan) list.push_back({"NaN", true});
    if (infinite) list.push_back({"±inf", true});
    return list;
  }
  std::vector<std::string> cells(const Inventory::Item& item) const {
    std::vector<std::string> row{visible(item.name), std::string(name_of(item.dtype)),
                                 render::shape_text(item.shape)};
    const Summary summary = item.range.value_or(Summary{});
    const bool some = summary.finite > 0;
    const auto number = [&](double value) {
      if (!some) return std::string("–");
      return is_floating(item.dtype) ? render::rounded(value) : fmt::format("{:.0f}", value);
    };
    if (range) row.insert(row.end(), {number(summary.min), number(summary.max)});
    if (nan) row.push_back(summary.nan > 0 ? fmt::format("{}", summary.nan) : "");
    if (infinite) row.push_back(summary.infinite > 0 ? fmt::format("{}", summary.infinite) : "");
    return row;
  }
};

std::string file_text(const Inventory::File& file, const Look& look) {
  std::string out =
      look.bold(visible(file.name)) +
      look.dim(fmt::format(" · {} · {}", file.format, plural(file.tensors.size(), "tensor"))) +
      "\n";
  Columns columns;
  for (const Inventory::Item& item : file.tensors) columns.see(item);
  Grid grid(columns.titles());
  for (const Inventory::Item& item : file.tensors) grid.add(columns.cells(item));
  if (!grid.empty()) out += "\n" + grid.text(look);
  std::string rest;
  for (const auto& [name, value] : file.scalars)
    rest += fmt::format("{}{} = {}", rest.empty() ? "" : " · ", visible(name), visible(value));
  for (const auto& [name, count] : file.labels)
    rest +=
        fmt::format("{}{}: {}", rest.empty() ? "" : " · ", visible(name), plural(count, "label"));
  if (!rest.empty()) out += "\n";
  for (const std::string& line : render::wrapped(rest, look.width)) out += line + "\n";
  return out;
}

/// One line a layer, with its sizes where they are known.
std::string layers_text(const std::vector<Inventory::Line>& layers, const Look& look) {
  const bool sizes = std::any_of(layers.begin(), layers.end(),
                                 [](const Inventory::Line& line) { return line.dims.has_value(); });
  std::vector<Grid::Column> columns{{"layer"}, {"names"}};
  if (sizes)
    columns.insert(columns.end(),
                   {{"heads"}, {"key/value heads", true}, {"d_model", true}, {"dtype"}});
  columns.push_back({"where", false, true, true});
  Grid grid(std::move(columns));
  for (const auto& [listing, dims, dtype] : layers) {
    std::vector<std::string> row{visible(listing.id.empty() ? "–" : listing.id), listing.naming};
    if (sizes && dims)
      row.insert(row.end(), {fmt::format("{} × {}", dims->H, dims->d_k), std::to_string(dims->H_kv),
                             std::to_string(dims->d_out), std::string(name_of(dtype))});
    else if (sizes)
      row.insert(row.end(), 4, "–");
    row.push_back(visible(listing.prefix));
    grid.add(std::move(row));
  }
  return grid.text(look);
}

std::string layer_text(const Inventory& inventory, const Look& look) {
  std::string out = look.bold(inventory.headline) + "\n";
  if (!inventory.parts.empty()) {
    Columns columns;
    for (const Inventory::SourceTensor& part : inventory.parts) columns.see(part.item);
    std::vector<Grid::Column> titles = columns.titles();
    titles.push_back({"from", false, true, true});
    Grid grid(std::move(titles));
    for (const Inventory::SourceTensor& part : inventory.parts) {
      std::vector<std::string> row = columns.cells(part.item);
      row.push_back(visible(part.source));
      grid.add(std::move(row));
    }
    out += "\n" + grid.text(look);
  }

  Grid grid({{"setting"}, {"value"}, {"from", false, true, true}});
  std::vector<std::string> defaults;
  for (const Inventory::Setting& setting : inventory.settings) {
    if (!setting.origin.empty())
      grid.add({setting.name, setting.value, visible(setting.origin)});
    else
      defaults.push_back(fmt::format("{} {}", setting.name, setting.value));
  }
  if (!grid.empty()) out += "\n" + grid.text(look);
  out += "\n";
  for (const std::string& line : render::wrapped_list("by default", defaults, look.width))
    out += look.dim(line) + "\n";

  std::vector<std::string> names;
  for (const auto& [name, shape] : inventory.stages) names.push_back(name);
  if (names.empty()) names.emplace_back("none can be computed; give X, or a stage to start from");
  out += "\n";
  for (const std::string& line : render::wrapped_list("stages", names, look.width))
    out += line + "\n";
  return out;
}

std::string item_json(const Inventory::Item& item) {
  const render::NumberWriter numbers(render::Dialect::json, std::nullopt);
  std::string shape;
  for (std::size_t size : item.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", size);
  std::string out = fmt::format("\"name\": {}, \"dtype\": \"{}\", \"shape\": [{}]",
                                render::json_quoted(item.name), name_of(item.dtype), shape);
  if (!item.range) return out;
  out += ", \"min\": ";
  if (item.range->finite > 0) {
    numbers.append(out, item.range->min);
    out += ", \"max\": ";
    numbers.append(out, item.range->max);
  } else {
    out += "null, \"max\": null";
  }
  return out +
         fmt::format(", \"nan\": {}, \"infinite\": {}", item.range->nan, item.range->infinite);
}

/// A list with one element a line.
template <class List, class Text> std::string json_list(const List& list, const Text& text) {
  std::string out;
  for (const auto& element : list) out += (out.empty() ? "\n    " : ",\n    ") + text(element);
  return "[" + out + (out.empty() ? "]" : "\n  ]");
}

} // namespace

std::string inventory_text(const Inventory& inventory, const Look& look) {
  std::string out;
  const auto section = [&](const std::string& text) { out += (out.empty() ? "" : "\n") + text; };
  for (const Inventory::File& file : inventory.files) section(file_text(file, look));
  const bool lone = inventory.layers.size() == 1 && inventory.layers[0].listing.id.empty();
  if (!inventory.layers.empty() && !lone) section(layers_text(inventory.layers, look));
  if (!inventory.headline.empty())
    section(layer_text(inventory, look));
  else if (inventory.layers.empty() || lone)
    section("no layer could be made: " + inventory.reason + "\n");
  else
    section(inventory.reason + "\n");
  const auto list = [&](const std::string& title, const auto& items, const auto& text) {
    if (items.empty()) return;
    section(look.bold(title) + "\n");
    for (const auto& item : items) {
      const std::vector<std::string> lines = render::wrapped(visible(text(item)), look.width - 2);
      for (std::size_t i = 0; i < lines.size(); ++i)
        out += (i == 0 ? "· " : "  ") + lines[i] + "\n";
    }
  };
  list("notes", inventory.notes, [](const std::string& note) { return note; });
  list("worth a look", inventory.findings, [](const Finding& finding) { return finding.text; });
  return out;
}

std::string inventory_json(const Inventory& inventory) {
  using render::json_quoted;
  const auto scalars = [](const Inventory::File& file) {
    std::string out;
    for (const auto& [name, value] : file.scalars)
      out +=
          fmt::format("{}{}: {}", out.empty() ? "" : ", ", json_quoted(name), json_quoted(value));
    return out;
  };
  std::string out =
      "{\n  \"files\": " + json_list(inventory.files, [&](const Inventory::File& file) {
        std::string tensors;
        for (const Inventory::Item& item : file.tensors)
          tensors += fmt::format("{}      {{{}}}", tensors.empty() ? "\n" : ",\n", item_json(item));
        return fmt::format(
            "{{\"name\": {}, \"format\": {}, \"scalars\": {{{}}}, \"tensors\": [{}]}}",
            json_quoted(file.name), json_quoted(file.format), scalars(file), tensors);
      });
  out += ",\n  \"layers\": " + json_list(inventory.layers, [](const Inventory::Line& line) {
           std::string sizes;
           if (line.dims)
             sizes = fmt::format(", \"heads\": {}, \"kv_heads\": {}, \"d_k\": {}, \"d_v\": {}, "
                                 "\"d_model\": {}, \"dtype\": \"{}\"",
                                 line.dims->H, line.dims->H_kv, line.dims->d_k, line.dims->d_v,
                                 line.dims->d_out, name_of(line.dtype));
           return fmt::format("{{\"id\": {}, \"naming\": {}, \"prefix\": {}{}}}",
                              json_quoted(line.listing.id), json_quoted(line.listing.naming),
                              json_quoted(line.listing.prefix), sizes);
         });
  if (inventory.headline.empty()) {
    out += ",\n  \"layer\": null,\n  \"reason\": " + json_quoted(inventory.reason);
  } else {
    out += fmt::format(",\n  \"layer\": {{\"id\": {}, \"naming\": {}}}", json_quoted(inventory.id),
                       json_quoted(inventory.naming));
    out += ",\n  \"parts\": " + json_list(inventory.parts, [](const Inventory::SourceTensor& part) {
             return fmt::format("{{{}, \"from\": {}}}", item_json(part.item),
                                json_quoted(part.source));
           });
    out += ",\n  \"settings\": " +
           json_list(inventory.settings, [](const Inventory::Setting& setting) {
             return fmt::format("{{\"name\": {}, \"value\": {}, \"from\": {}}}",
                                json_quoted(setting.name), json_quoted(setting.value),
                                json_quoted(setting.origin.empty() ? "default" : setting.origin));
           });
    out +=
        ",\n  \"stages\": " + json_list(inventory.stages, [](const auto& stage) {
          std::string shape;
          for (std::size_t size : stage.second)
            shape += fmt::format("{}{}", shape.empty() ? "" : ", ", size);
          return fmt::format("{{\"name\": {}, \"shape\": [{}]}}", json_quoted(stage.first), shape);
        });
  }
  out += ",\n  \"notes\": " +
         json_list(inventory.notes, [](const std::string& note) { return json_quoted(note); });
  out += ",\n  \"checks\": " + json_list(inventory.findings, [](const Finding& finding) {
           return fmt::format("{{\"check\": {}, \"text\": {}}}", json_quoted(finding.check),
                              json_quoted(finding.text));
         });
  return out + "\n}\n";
}

} // namespace mha::app
