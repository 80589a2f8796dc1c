#include "console.hpp"
#include "describe.hpp"
#include "inventory.hpp"
#include <mha/render/json_text.hpp>
#include <mha/render/table.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace mha::app {

namespace {

using render::Cell;
using render::in_lines;
using render::JsonText;
using render::Table;
using render::TextStyle;
using render::visible;

/// The type of the blocks (Q4_K) if the file stores the tensor in blocks, otherwise its dtype.
std::string_view type_of(const Inventory::Item& item) {
  return item.type.empty() ? name_of(item.dtype) : std::string_view(item.type);
}

/// A tensor of a file, or a tensor of the chosen layer and its source.
struct TensorRow {
  const Inventory::Item* item = nullptr;
  std::string_view file, source;
};

std::vector<TensorRow> tensor_rows(const Inventory::File& file) {
  std::vector<TensorRow> rows;
  for (const Inventory::Item& item : file.tensors) rows.push_back({&item, file.name, ""});
  return rows;
}

std::vector<TensorRow> tensor_rows(const std::vector<Inventory::SourceTensor>& tensors) {
  std::vector<TensorRow> rows;
  for (const Inventory::SourceTensor& tensor : tensors)
    rows.push_back({&tensor.item, "", tensor.source});
  return rows;
}

/// One row for each tensor, with its file or its source. Only tables that programs read have
/// columns without content.
Table tensors_table(const std::vector<TensorRow>& rows, bool with_source) {
  using In = Table::In;
  const auto any_range = [&](const auto& matches) {
    return std::ranges::any_of(rows, [&](const TensorRow& row) {
      return row.item->range.has_value() && matches(*row.item->range);
    });
  };
  const bool has_ranges = any_range([](const Summary&) { return true; });
  const auto extreme_column = [&](const char* title, double Summary::*extreme) {
    return render::ColumnOf<TensorRow>{
        {.title = title, .right = true, .in = has_ranges ? In::all : In::none},
        [extreme](const TensorRow& row) {
          const Summary summary = row.item->range.value_or(Summary{});
          if (summary.finite == 0) return Cell::number({});
          const Cell cell = Cell::number(summary.*extreme);
          return is_floating(row.item->dtype)
                     ? cell
                     : cell.shown_as(fmt::format("{:.0f}", summary.*extreme));
        }};
  };
  const auto count_column = [&](const char* title, const char* field, std::size_t Summary::*count) {
    const bool shown = any_range([&](const Summary& summary) { return summary.*count > 0; });
    return render::ColumnOf<TensorRow>{{.title = title,
                                        .right = true,
                                        .in = shown        ? In::all
                                              : has_ranges ? In::fields
                                                           : In::none,
                                        .field = field},
                                       [count](const TensorRow& row) {
                                         if (!row.item->range) return Cell();
                                         const std::size_t number = (*row.item->range).*count;
                                         const Cell cell = Cell::count(number);
                                         return number > 0 ? cell : cell.shown_as("");
                                       }};
  };
  return table_of(
      rows,
      render::ColumnsOf<TensorRow>{
          {{.title = "file", .in = with_source ? In::none : In::fields},
           [](const TensorRow& row) { return Cell::words(row.file); }},
          {{.title = "tensor", .shrinks = true, .wraps = true, .names = true, .field = "name"},
           [](const TensorRow& row) { return Cell::words(row.item->name); }},
          {{.title = "dtype"}, [](const TensorRow& row) { return Cell(type_of(*row.item)); }},
          {{.title = "shape"}, [](const TensorRow& row) { return Cell::shape(row.item->shape); }},
          extreme_column("min", &Summary::min),
          extreme_column("max", &Summary::max),
          count_column("NaN", "nan", &Summary::nan),
          count_column("±inf", "infinite", &Summary::infinite),
          {{.title = "from",
            .shrinks = true,
            .dim = true,
            .wraps = true,
            .in = with_source ? In::all : In::none},
           [](const TensorRow& row) { return Cell::words(row.source); }}});
}

std::string file_text(const Inventory::File& file, const TextStyle& text_style) {
  const std::string title = visible(file.name),
                    facts = fmt::format(" · {} · {}", file.format,
                                        counted(file.tensors.size(), "tensors"));
  std::string out =
      text_style.bold(title) +
      text_style.dim(render::fitted_facts(facts, render::display_width(title), text_style.width)) +
      "\n";
  if (!file.tensors.empty()) out += "\n" + tensors_table(tensor_rows(file), false).text(text_style);
  std::string rest;
  for (const auto& [name, value] : file.scalars)
    rest += fmt::format("{}{} = {}", rest.empty() ? "" : " · ", visible(name), visible(value));
  for (const auto& [name, count] : file.labels)
    rest +=
        fmt::format("{}{}: {}", rest.empty() ? "" : " · ", visible(name), counted(count, "labels"));
  if (!rest.empty()) out += "\n";
  for (const std::string& line : render::wrapped(rest, text_style.width)) out += line + "\n";
  if (!file.notes.empty()) out += "\n";
  for (const std::string& note : file.notes)
    for (const std::string& line : render::wrapped(visible(note), text_style.width))
      out += line + "\n";
  return out;
}

/// One row for each layer, with its sizes if known.
Table layers_table(const std::vector<Inventory::LayerRow>& layers) {
  const bool has_sizes =
      std::any_of(layers.begin(), layers.end(),
                  [](const Inventory::LayerRow& row) { return row.dims.has_value(); });
  std::vector<Table::Column> columns{{.title = "layer", .names = true},
                                     {.title = "names", .shrinks = true, .wraps = true}};
  if (has_sizes)
    columns.insert(columns.end(),
                   {{"heads"}, {"key/value heads", true}, {"d_model", true}, {"dtype"}});
  columns.push_back({.title = "where", .shrinks = true, .dim = true, .wraps = true});
  Table grid(std::move(columns));
  for (const auto& [listing, dims, dtype] : layers) {
    std::vector<render::Cell> row{visible(listing.id.empty() ? "–" : listing.id), listing.naming};
    if (has_sizes && dims)
      row.insert(row.end(), {fmt::format("{} × {}", dims->H, dims->d_k), std::to_string(dims->H_kv),
                             std::to_string(dims->d_out), std::string(name_of(dtype))});
    else if (has_sizes)
      row.insert(row.end(), 4, "–");
    row.push_back(visible(listing.prefix));
    grid.add(std::move(row));
  }
  return grid;
}

/// A table of the settings that have an origin. The others, which have their default value, are
/// appended to `defaults`.
Table table_of_set_values(const Inventory& inventory, std::vector<std::string>& defaults) {
  Table grid({{"setting"},
              {.title = "value", .shrinks = true, .wraps = true},
              {.title = "from", .shrinks = true, .dim = true, .wraps = true}});
  for (const Inventory::Setting& setting : inventory.settings) {
    if (!setting.origin.empty())
      grid.add({setting.name, setting.value, visible(setting.origin)});
    else
      defaults.push_back(fmt::format("{} {}", setting.name, setting.value));
  }
  return grid;
}

std::string layer_text(const Inventory& inventory, const TextStyle& text_style) {
  std::string out =
      text_style.bold(render::fitted_facts(inventory.headline, 0, text_style.width)) + "\n";
  if (!inventory.tensors.empty())
    out += "\n" + tensors_table(tensor_rows(inventory.tensors), true).text(text_style);

  std::vector<std::string> defaults;
  const Table grid = table_of_set_values(inventory, defaults);
  if (!grid.empty()) out += "\n" + grid.text(text_style);
  if (!defaults.empty()) {
    out += "\n";
    for (const std::string& line : render::wrapped_list("by default", defaults, text_style.width))
      out += text_style.dim(line) + "\n";
  }

  std::vector<std::string> names;
  for (const auto& [name, shape] : inventory.stages) names.push_back(name);
  const std::string no_stages =
      !inventory.reason.empty()
          ? visible(inventory.reason)
          : fmt::format("stages: none can be computed{} a stage to start from",
                        inventory.missing_X.empty() ? "; give X, or"
                                                    : inventory.missing_X + "; or give");
  out += "\n";
  for (const std::string& line : names.empty()
                                     ? render::wrapped(no_stages, text_style.width)
                                     : render::wrapped_list("stages", names, text_style.width))
    out += line + "\n";
  return out;
}

void put_members(JsonText& json, const Inventory::Item& item) {
  json.member("name", item.name).member("dtype", type_of(item));
  json.key("shape").list(item.shape);
  if (!item.range) return;
  const bool has_finite = item.range->finite > 0;
  for (const auto& [name, number] : {std::pair("min", item.range->min), {"max", item.range->max}})
    json.key(name), has_finite ? json.value(number) : json.null();
  json.member("nan", item.range->nan).member("infinite", item.range->infinite);
}

void put_object(JsonText& json, const Inventory::File& file) {
  json.object([&] {
    json.member("name", file.name).member("format", file.format);
    json.key("scalars").object([&] {
      for (const auto& [name, value] : file.scalars) json.member(name, value);
    });
    const auto add = [&](const Inventory::Item& item) {
      json.object([&] { put_members(json, item); });
    };
    json.key("tensors").list(file.tensors, add, {"\n      ", "\n      ", ""});
    if (!file.notes.empty())
      json.key("notes").list(file.notes, [&](const std::string& note) { json.value(note); });
  });
}

void put_object(JsonText& json, const Inventory::LayerRow& row) {
  json.object([&] {
    json.key("id").layer(row.listing.id);
    json.member("naming", row.listing.naming).member("prefix", row.listing.prefix);
    if (row.dims)
      json.member("heads", row.dims->H)
          .member("kv_heads", row.dims->H_kv)
          .member("d_k", row.dims->d_k)
          .member("d_v", row.dims->d_v)
          .member("d_model", row.dims->d_out)
          .member("dtype", name_of(row.dtype));
  });
}

void put_object(JsonText& json, const Inventory::Setting& setting) {
  json.object([&] {
    json.member("name", setting.name)
        .member("value", setting.value)
        .member("from", setting.origin.empty() ? "default" : setting.origin);
  });
}

std::string as_table(const Inventory& inventory, const TextStyle& text_style) {
  std::string out;
  const auto section = [&](const std::string& text) { out += (out.empty() ? "" : "\n") + text; };
  for (const Inventory::File& file : inventory.files) section(file_text(file, text_style));
  const bool has_only_unnamed_layer =
      inventory.layers.size() == 1 && inventory.layers[0].listing.id.empty();
  if (!inventory.layers.empty() && !has_only_unnamed_layer)
    section(layers_table(inventory.layers).text(text_style));
  if (!inventory.headline.empty())
    section(layer_text(inventory, text_style));
  else if (inventory.layers.empty() || has_only_unnamed_layer)
    section(in_lines("no layer can be loaded: " + visible(inventory.reason), text_style.width) +
            "\n");
  else
    section(in_lines(visible(inventory.reason), text_style.width) + "\n");
  const auto list = [&](const std::string& title, const auto& items, const auto& text) {
    if (items.empty()) return;
    section(text_style.bold(title) + "\n");
    for (const auto& item : items) {
      const std::vector<std::string> lines =
          render::wrapped(visible(text(item)), text_style.width - 2);
      for (std::size_t i = 0; i < lines.size(); ++i)
        out += (i == 0 ? "· " : "  ") + lines[i] + "\n";
    }
  };
  list("notes", inventory.notes, [](const Note& note) {
    return (note.is_warning() ? "warning: " : "") + console_text(note);
  });
  list("worth a look", inventory.findings,
       [](const Suspicion& finding) { return console_text(finding.text); });
  return out;
}

std::string as_json(const Inventory& inventory) {
  JsonText json;
  // One element per line.
  const auto list = [&](std::string_view name, const auto& elements, const auto& add) {
    json.key(name).list(elements, add, {"\n    ", "\n    ", "\n  "});
  };
  const auto add = [&](const auto& element) { put_object(json, element); };
  json.object(
      [&] {
        list("files", inventory.files, add);
        list("layers", inventory.layers, add);
        if (inventory.headline.empty()) {
          json.key("layer").null();
          json.member("reason", inventory.reason);
        } else {
          json.key("layer").object([&] {
            json.key("id").layer(inventory.id);
            json.member("naming", inventory.naming);
          });
          if (!inventory.reason.empty()) json.member("reason", inventory.reason);
          list("parts", inventory.tensors, [&](const Inventory::SourceTensor& tensor) {
            json.object(
                [&] { put_members(json, tensor.item), json.member("from", tensor.source); });
          });
          list("settings", inventory.settings, add);
          list("stages", inventory.stages, [&](const auto& stage) {
            json.object([&] { json.member("name", stage.first).key("shape").list(stage.second); });
          });
        }
        list("notes", inventory.notes, [&](const Note& note) { json.value(console_text(note)); });
        list("checks", inventory.findings, [&](const Suspicion& finding) {
          json.object([&] {
            json.member("check", finding.check).member("text", console_text(finding.text));
          });
        });
      },
      render::indented);
  return json.take() + "\n";
}

/// The tables of the files, the layers and the chosen layer, followed by notes and findings.
std::string as_markdown(const Inventory& inventory) {
  using render::markdown_text;
  std::string out;
  const auto section = [&](const std::string& heading, const Table& table) {
    out += (out.empty() ? "" : "\n") + markdown_text(visible(heading)) + "\n";
    if (!table.empty()) out += "\n" + table.markdown();
  };
  for (const Inventory::File& file : inventory.files)
    section(fmt::format("{} · {} · {}", file.name, file.format,
                        counted(file.tensors.size(), "tensors")),
            tensors_table(tensor_rows(file), false));
  if (!inventory.layers.empty()) section("layers", layers_table(inventory.layers));
  if (inventory.headline.empty()) {
    section(inventory.reason, Table({}));
  } else {
    section(inventory.headline, tensors_table(tensor_rows(inventory.tensors), true));
    std::vector<std::string> defaults;
    section("settings", table_of_set_values(inventory, defaults));
    if (!defaults.empty())
      out += "\n" + markdown_text(fmt::format("by default: {}", fmt::join(defaults, ", "))) + "\n";
  }
  const auto item = [&](const std::string& text) {
    out += "\n- " + markdown_text(visible(text)) + "\n";
  };
  for (const Note& note : inventory.notes)
    item((note.is_warning() ? "warning: " : "") + console_text(note));
  for (const Suspicion& finding : inventory.findings) item(console_text(finding.text));
  return out;
}

} // namespace

std::string inventory_text(const Inventory& inventory, std::string_view form,
                           const TextStyle& text_style) {
  if (form == "json") return as_json(inventory);
  if (form == "table") return as_table(inventory, text_style);
  if (form == "markdown") return as_markdown(inventory);
  if (!inventory.headline.empty())
    return tensors_table(tensor_rows(inventory.tensors), true).as(form, text_style);
  std::vector<TensorRow> rows;
  for (const Inventory::File& file : inventory.files)
    std::ranges::move(tensor_rows(file), std::back_inserter(rows));
  return tensors_table(rows, false).as(form, text_style);
}

} // namespace mha::app
