#include <mha/render/record.hpp>

#include <fmt/format.h>

namespace mha::render {

template <class PutJson>
Record& Record::put(std::string_view name, std::string_view cell, const PutJson& put_json) {
  if (json_)
    json_->key(name), put_json();
  else
    cells_->emplace_back(titles_ ? name : cell);
  return *this;
}

Record& Record::words(std::string_view name, std::string_view words) {
  return put(name, words, [&] { json_->value(words); });
}

Record& Record::words_or_null(std::string_view name, std::string_view words) {
  return put(name, words, [&] { json_->words_or_null(words); });
}

Record& Record::layer(std::string_view name, std::string_view id) {
  return put(name, id, [&] { json_->layer(id); });
}

Record& Record::count(std::string_view name, const std::optional<std::size_t>& count) {
  return put(name, count ? std::to_string(*count) : "", [&] { json_->value_or_null(count); });
}

Record& Record::number(std::string_view name, const std::optional<double>& number) {
  return put(name, json_ ? "" : exact(number, Dialect::csv, precision_),
             [&] { json_->value_or_null(number); });
}

Record& Record::shape(std::string_view name, const Shape& shape) {
  return put(name, fmt::format("{}", fmt::join(shape, "x")), [&] { json_->list(shape); });
}

Record& Record::as_it_is(std::string_view name, std::string_view text) {
  return put(name, text, [&] { text.empty() ? json_->null() : json_->as_it_is(text); });
}

} // namespace mha::render
