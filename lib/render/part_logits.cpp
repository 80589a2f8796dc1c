#include <mha/render/studies.hpp>

#include <mha/render/table.hpp>

#include <algorithm>
#include <numeric>

namespace mha::render {

namespace {

std::string_view norm_in_words(PartNorm norm) {
  switch (norm) {
  case PartNorm::own:
    return "through the last norm, by its own statistics";
  case PartNorm::frozen:
    return "through the last norm, by the run's statistics at the position";
  case PartNorm::gain:
    return "through the gain of the last norm: order and sign mean something, size does not";
  }
  return "";
}

/// The tokens with the largest and the smallest logits, the most extreme first.
struct TwoSides {
  std::vector<std::size_t> promoted, suppressed;
};

TwoSides sides_of(const std::vector<double>& logits, std::size_t top) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  top = std::min(top, logits.size());
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(top);
  const auto take = [&](const auto& before) {
    std::partial_sort(order.begin(), middle, order.end(), before);
    return std::vector<std::size_t>(order.begin(), middle);
  };
  TwoSides sides;
  sides.promoted = take([&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  sides.suppressed = take([&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] < logits[b] : a < b;
  });
  return sides;
}

/// The tokens of both sides side by side.
Table two_sides(const PartLogits& part, const PartView& view, const TokenNames& names) {
  const TwoSides sides = sides_of(part.logits, view.top);
  Table grid({{"promotes"}, {"logit", true}, {"", false}, {"suppresses"}, {"logit", true}});
  for (std::size_t i = 0; i < sides.promoted.size(); ++i) {
    const std::size_t up = sides.promoted[i], down = sides.suppressed[i];
    grid.add({names.label(static_cast<int>(up)), fmt::format("{:+.3f}", part.logits[up]), "",
              names.label(static_cast<int>(down)), fmt::format("{:+.3f}", part.logits[down])});
  }
  return grid;
}

std::string parts_report(const std::vector<PartLogits>& parts, const PartView& view,
                         std::string_view form, const TokenNames& names,
                         const TextStyle& text_style) {
  const std::string heading = fmt::format("{}, {}", view.part, norm_in_words(view.norm));
  std::string text =
      (form == "markdown" ? markdown_text(heading) : in_lines(heading, text_style.width)) + "\n";
  const bool several = !parts.empty() && parts.front().at.first != parts.back().at.first;
  for (const PartLogits& part : parts) {
    text += '\n';
    if (view.norm != PartNorm::gain)
      text +=
          fmt::format("{}position {}{}\n{}", several ? fmt::format("text {}, ", part.at.first) : "",
                      part.at.second, part.head ? fmt::format(", head {}", *part.head) : "",
                      form == "markdown" ? "\n" : "");
    text += two_sides(part, view, names).as(form, text_style);
  }
  return text;
}

/// A token of one side.
struct SideToken {
  const PartLogits* part = nullptr;
  const char* side = "";
  std::size_t rank = 0, id = 0;
};

Table lines_of(const std::vector<PartLogits>& parts, const PartView& view,
               const TokenNames& names) {
  std::vector<SideToken> tokens;
  for (const PartLogits& part : parts) {
    const TwoSides sides = sides_of(part.logits, view.top);
    for (const auto& [side, ids] :
         {std::pair("promotes", &sides.promoted), std::pair("suppresses", &sides.suppressed)})
      for (std::size_t rank = 0; rank < ids->size(); ++rank)
        tokens.push_back({&part, side, rank + 1, (*ids)[rank]});
  }
  using One = SideToken;
  const auto column = [](const char* title, std::function<Cell(const One&)> get) {
    return ColumnOf<One>{{.title = title}, std::move(get)};
  };
  const bool placed = view.norm != PartNorm::gain;
  return table_of(
      tokens,
      ColumnsOf<One>{
          column("batch",
                 [=](const One& one) { return placed ? Cell::count(one.part->at.first) : Cell(); }),
          column(
              "position",
              [=](const One& one) { return placed ? Cell::count(one.part->at.second) : Cell(); }),
          column("head", [](const One& one) { return Cell::count(one.part->head); }),
          column("side", [](const One& one) { return Cell(one.side); }),
          column("rank", [](const One& one) { return Cell::count(one.rank); }),
          column("id", [](const One& one) { return Cell::count(one.id); }),
          column("token",
                 [&](const One& one) { return Cell::words(names.text(static_cast<int>(one.id))); }),
          column("logit", [](const One& one) { return Cell::number(one.part->logits[one.id]); })});
}

std::string parts_json(const std::vector<PartLogits>& parts, const PartView& view,
                       const TokenNames& names) {
  JsonText json(view.precision);
  const auto place = [&](std::size_t number) {
    return view.norm == PartNorm::gain ? std::nullopt : std::optional(number);
  };
  const auto put_tokens = [&](const PartLogits& part, const std::vector<std::size_t>& ids) {
    json.list(ids, [&](std::size_t id) {
      json.object([&] {
        json.member("id", id).member("token", names.text(static_cast<int>(id)));
        json.member("logit", part.logits[id]);
      });
    });
  };
  const auto put_part = [&](const PartLogits& part) {
    const TwoSides sides = sides_of(part.logits, view.top);
    json.object([&] {
      json.member("part", view.part);
      json.key("batch").value_or_null(place(part.at.first));
      json.key("position").value_or_null(place(part.at.second));
      json.key("head").value_or_null(part.head);
      json.begin_next_after("\n   ");
      json.key("promotes"), put_tokens(part, sides.promoted);
      json.begin_next_after("\n   ");
      json.key("suppresses"), put_tokens(part, sides.suppressed);
    });
  };
  json.list(parts, put_part, indented);
  json.end_line();
  return json.take();
}

} // namespace

std::string part_logits_text(const std::vector<PartLogits>& parts, const PartView& view,
                             std::string_view form, const TokenNames& names,
                             const TextStyle& text_style) {
  if (form == "json") return parts_json(parts, view, names);
  if (is_for_eyes(form)) return parts_report(parts, view, form, names, text_style);
  return lines_of(parts, view, names).as(form, text_style, view.precision);
}

} // namespace mha::render
