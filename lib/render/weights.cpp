#include <mha/render/weights.hpp>

#include <mha/render/record.hpp>
#include <mha/render/table.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::render {

namespace {

constexpr std::array all_statuses{
    WeightStatus::equal,    WeightStatus::close,  WeightStatus::tied,   WeightStatus::buffer,
    WeightStatus::permuted, WeightStatus::offset, WeightStatus::scaled, WeightStatus::differs,
    WeightStatus::shape,    WeightStatus::only_a, WeightStatus::only_b};

const std::string& shown_name(const WeightDiff& one) {
  return one.name.empty() ? one.other : one.name;
}

/// "float32 · Q8_0", or one type alone.
std::string types_of(const WeightDiff& one) {
  if (one.type_a.empty() || one.type_b.empty() || one.type_a == one.type_b)
    return one.type_a.empty() ? one.type_b : one.type_a;
  return fmt::format("{} · {}", one.type_a, one.type_b);
}

std::string status_text(const WeightDiff& one) {
  return one.status == WeightStatus::shape ? "another shape" : std::string(name_of(one.status));
}

/// What is known beyond the status: order, factor, shapes, how far.
std::string detail_of(const WeightDiff& one) {
  std::string text = one.detail;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : " · ") + more; };
  if (one.status == WeightStatus::shape)
    add(fmt::format("{} and {}", to_string(one.shape_a), to_string(one.shape_b)));
  if (one.status == WeightStatus::differs)
    add(fmt::format("|a − b| up to {:.3g}, {:.3g} of |a|", one.largest, one.relative));
  return text;
}

std::string summary(const WeightsDiff& diff) {
  std::string text = counted(diff.tensors.size(), "tensors");
  const char* between = ": ";
  for (const WeightStatus status : all_statuses) {
    const auto count = std::ranges::count(diff.tensors, status, &WeightDiff::status);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", between, count,
                        status == WeightStatus::shape ? "of another shape" : name_of(status));
    between = ", ";
  }
  return text;
}

std::string number_text(double number) {
  return std::isnan(number) ? "NaN" : std::isinf(number) ? "Infinity" : fmt::format("{}", number);
}

} // namespace

std::string weights_table(const WeightsDiff& diff, const TextStyle& text_style) {
  std::string out =
      text_style.bold(fmt::format("{} and {}", visible(diff.a), visible(diff.b))) + "\n";
  for (const std::string& line : wrapped(summary(diff), text_style.width)) out += line + "\n";
  if (diff.by_role)
    out += text_style.dim(
               in_lines("paired as families read them: their names differ", text_style.width)) +
           "\n";
  const bool steps = std::ranges::any_of(
      diff.tensors, [](const WeightDiff& one) { return one.steps.has_value(); });
  std::vector<Table::Column> columns{
      {.title = "tensor", .shrinks = true, .wraps = true, .names = true},
      {.title = "types", .shrinks = true, .wraps = true},
      {"is"}};
  if (steps)
    columns.insert(columns.end(), {{"median", true}, {"99 %", true}, {"> ½", true}, {"> 1", true}});
  columns.push_back({"", false, true, true, true});
  Table grid(std::move(columns));
  for (const WeightDiff& one : diff.tensors) {
    std::vector<std::string> row{visible(shown_name(one)), types_of(one), status_text(one)};
    if (steps && one.steps)
      row.insert(row.end(),
                 {fmt::format("{:.2f}", one.steps->median), fmt::format("{:.2f}", one.steps->p99),
                  fmt::format("{:.1f} %", 100 * one.steps->above_half),
                  fmt::format("{:.1f} %", 100 * one.steps->above_one)});
    else if (steps)
      row.insert(row.end(), 4, "");
    row.push_back(visible(detail_of(one)));
    grid.add(std::move(row));
  }
  out += "\n" + grid.text(text_style);
  if (steps)
    for (const std::string& line :
         wrapped("in steps, the distance of a block's neighbouring levels; close: median up to "
                 "0.3, 99 % up to 1",
                 text_style.width))
      out += text_style.dim(line) + "\n";
  return out;
}

std::string weights_json(const WeightsDiff& diff) {
  JsonText json;
  json.open_object(on_lines);
  json.member("a", diff.a).member("b", diff.b);
  json.member("equal", diff.same());
  json.member("paired_by", diff.by_role ? "role" : "name");
  json.key("tensors").list(
      diff.tensors,
      [&](const WeightDiff& one) {
        json.object([&] {
          json.key("a").words_or_null(one.name);
          json.key("b").words_or_null(one.other);
          json.member("status", name_of(one.status));
          json.key("detail").words_or_null(one.detail);
          json.key("types").list(std::array{one.type_a, one.type_b},
                                 [&](const std::string& type) { json.words_or_null(type); });
          json.key("shapes").list(std::array{&one.shape_a, &one.shape_b}, [&](const Shape* shape) {
            const bool there = !(shape == &one.shape_a ? one.type_a : one.type_b).empty();
            there ? json.list(*shape) : json.null();
          });
          json.member("largest", one.largest).member("relative", one.relative);
          if (one.steps)
            json.key("steps").object([&] {
              json.member("median", one.steps->median).member("p99", one.steps->p99);
              json.member("above_half", one.steps->above_half);
              json.member("above_one", one.steps->above_one);
            });
          else
            json.key("steps").null();
        });
      },
      on_lines);
  json.close();
  json.end_line();
  return json.take();
}

std::string weights_csv(const WeightsDiff& diff) {
  return lines_of_rows(diff.tensors, "csv", {}, [](Record& record, const WeightDiff& one) {
    const auto add_step = [&](std::string_view name, double StepDistances::*number) {
      record.as_it_is(name, one.steps ? number_text(*one.steps.*number) : "");
    };
    record.words("a", one.name).words("b", one.other);
    record.words("status", name_of(one.status)).words("detail", one.detail);
    record.words("type_a", one.type_a).words("type_b", one.type_b);
    record.shape("shape_a", one.shape_a).shape("shape_b", one.shape_b);
    record.as_it_is("largest", number_text(one.largest));
    record.as_it_is("relative", number_text(one.relative));
    add_step("median", &StepDistances::median), add_step("p99", &StepDistances::p99);
    add_step("above_half", &StepDistances::above_half),
        add_step("above_one", &StepDistances::above_one);
  });
}

} // namespace mha::render
