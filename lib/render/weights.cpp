#include <mha/render/diff.hpp>

#include <mha/render/table.hpp>

#include <algorithm>
#include <array>

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

/// Details beyond the status: order, factor, shapes, distance.
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

/// One line per tensor: for readers its name, what it is and how far; for programs both sides.
Table weights_lines(const WeightsDiff& diff) {
  using In = Table::In;
  using One = WeightDiff;
  const auto words = [&](std::string title, std::string One::*of) {
    return ColumnOf<One>{field_column(std::move(title)),
                         [of](const One& one) { return Cell::words(one.*of); }};
  };
  const auto shape = [&](std::string title, Shape One::*of) {
    return ColumnOf<One>{field_column(std::move(title)),
                         [of](const One& one) { return Cell::shape(one.*of); }};
  };
  const auto number = [&](std::string title, double One::*of) {
    return ColumnOf<One>{field_column(std::move(title)),
                         [of](const One& one) { return Cell::number(one.*of); }};
  };
  const bool steps =
      std::ranges::any_of(diff.tensors, [](const One& one) { return one.steps.has_value(); });
  const auto step = [&](std::string title, std::string field, double StepDistances::*of,
                        std::function<std::string(double)> eyes) {
    return ColumnOf<One>{
        {.title = std::move(title),
         .right = true,
         .in = steps ? In::all : In::fields,
         .field = std::move(field),
         .eyes = std::move(eyes)},
        [of](const One& one) { return one.steps ? Cell::number(*one.steps.*of) : Cell(); }};
  };
  const auto distance = [](double steps_away) { return fmt::format("{:.2f}", steps_away); };
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  return table_of(
      diff.tensors,
      ColumnsOf<One>{
          words("a", &One::name),
          words("b", &One::other),
          {{.title = "tensor", .shrinks = true, .wraps = true, .names = true, .in = In::eyes},
           [](const One& one) { return Cell(visible(shown_name(one))); }},
          {{.title = "types", .shrinks = true, .wraps = true, .in = In::eyes},
           [](const One& one) { return Cell(types_of(one)); }},
          {{.title = "is", .field = "status"},
           [](const One& one) { return Cell(name_of(one.status)).shown_as(status_text(one)); }},
          words("detail", &One::detail),
          words("type_a", &One::type_a),
          words("type_b", &One::type_b),
          shape("shape_a", &One::shape_a),
          shape("shape_b", &One::shape_b),
          number("largest", &One::largest),
          number("relative", &One::relative),
          step("median", "median", &StepDistances::median, distance),
          step("99 %", "p99", &StepDistances::p99, distance),
          step("> ½", "above_half", &StepDistances::above_half, percent),
          step("> 1", "above_one", &StepDistances::above_one, percent),
          {{.title = "", .shrinks = true, .dim = true, .wraps = true, .in = In::eyes},
           [](const One& one) { return Cell(visible(detail_of(one))); }}});
}

std::string weights_report(const WeightsDiff& diff, const TextStyle& text_style) {
  std::string out =
      text_style.bold(fmt::format("{} and {}", visible(diff.a), visible(diff.b))) + "\n";
  for (const std::string& line : wrapped(summary(diff), text_style.width)) out += line + "\n";
  if (diff.by_role)
    out += text_style.dim(
               in_lines("paired as families read them: their names differ", text_style.width)) +
           "\n";
  const bool steps = std::ranges::any_of(
      diff.tensors, [](const WeightDiff& one) { return one.steps.has_value(); });
  out += "\n" + weights_lines(diff).text(text_style);
  if (steps)
    for (const std::string& line :
         wrapped("in steps, the distance of a block's neighbouring levels; close: median up to "
                 "0.3, 99 % up to 1",
                 text_style.width))
      out += text_style.dim(line) + "\n";
  return out;
}

std::string as_object(const WeightsDiff& diff) {
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
            const bool has_side = !(shape == &one.shape_a ? one.type_a : one.type_b).empty();
            has_side ? json.list(*shape) : json.null();
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

} // namespace

std::string weights_text(const WeightsDiff& diff, std::string_view form,
                         const TextStyle& text_style) {
  if (form == "json") return as_object(diff);
  return form == "table" ? weights_report(diff, text_style)
                         : weights_lines(diff).as(form, text_style);
}

} // namespace mha::render
