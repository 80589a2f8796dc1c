#include <mha/naming/tensor_names.hpp>
#include <mha/render/numbers.hpp>
#include <mha/render/table.hpp>

#include <fmt/format.h>

namespace mha::render {

namespace {

template <class... Ts> struct Overloaded : Ts... { using Ts::operator()...; };
template <class... Ts> Overloaded(Ts...) -> Overloaded<Ts...>;

} // namespace

Cell Cell::words(std::string_view words) {
  Cell cell;
  cell.value_ = std::string(words);
  return cell;
}

Cell Cell::words_or_none(std::string_view words) {
  return words.empty() ? Cell() : Cell::words(words);
}

Cell Cell::layer(std::string_view id) {
  Cell cell;
  if (!id.empty()) cell.value_ = Layer{std::string(id)};
  return cell;
}

Cell Cell::count(const std::optional<std::size_t>& count) {
  Cell cell;
  if (count) cell.value_ = *count;
  return cell;
}

Cell Cell::number(const std::optional<double>& number) {
  Cell cell;
  cell.value_ = number;
  return cell;
}

Cell Cell::truth(bool flag) {
  Cell cell;
  cell.value_ = flag;
  return cell;
}

Cell Cell::shape(const Shape& shape) {
  Cell cell;
  cell.value_ = shape;
  return cell;
}

Cell Cell::list(std::vector<std::string> words) {
  Cell cell;
  cell.value_ = std::move(words);
  return cell;
}

Cell Cell::json(std::function<void(JsonText&)> put) {
  Cell cell;
  cell.value_ = std::move(put);
  return cell;
}

Cell Cell::shown_as(std::string text) const {
  Cell cell = *this;
  cell.text_ = std::move(text);
  return cell;
}

std::optional<double> Cell::shown_number() const {
  const auto* number = std::get_if<std::optional<double>>(&value_);
  return number && !text_ ? *number : std::nullopt;
}

std::string Cell::text(const std::function<std::string(double)>& eyes) const {
  if (text_) return *text_;
  return std::visit(Overloaded{[](Nothing) { return std::string(); },
                               [](const std::string& words) { return visible(words); },
                               [](const Layer& layer) { return visible(layer.id); },
                               [](std::size_t count) { return std::to_string(count); },
                               [&](const std::optional<double>& number) {
                                 return number ? eyes(*number) : std::string("–");
                               },
                               [](bool flag) { return std::string(flag ? "yes" : "no"); },
                               [](const Shape& shape) { return shape_text(shape); },
                               [](const std::vector<std::string>& words) {
                                 return visible(fmt::format("{}", fmt::join(words, " ")));
                               },
                               [](const std::function<void(JsonText&)>&) { return std::string(); }},
                    value_);
}

std::string Cell::field(std::optional<std::size_t> precision) const {
  return std::visit(
      Overloaded{[](Nothing) { return std::string(); },
                 [](const std::string& words) { return words; },
                 [](const Layer& layer) { return layer.id; },
                 [](std::size_t count) { return std::to_string(count); },
                 [&](const std::optional<double>& number) {
                   return exact(number, Dialect::csv, precision);
                 },
                 [](bool flag) { return std::string(flag ? "true" : "false"); },
                 [](const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); },
                 [](const std::vector<std::string>& words) {
                   return fmt::format("{}", fmt::join(words, " "));
                 },
                 [](const std::function<void(JsonText&)>&) { return std::string(); }},
      value_);
}

void Cell::put(JsonText& json) const {
  std::visit(Overloaded{[&](Nothing) { json.null(); },
                        [&](const std::string& words) { json.value(words); },
                        [&](const Layer& layer) { json.layer(layer.id); },
                        [&](std::size_t count) { json.value(count); },
                        [&](const std::optional<double>& number) { json.value_or_null(number); },
                        [&](bool flag) { json.value(flag); },
                        [&](const Shape& shape) { json.list(shape); },
                        [&](const std::vector<std::string>& words) { json.list(words); },
                        [&](const std::function<void(JsonText&)>& put) { put(json); }},
             value_);
}

} // namespace mha::render
