#include <mha/render/json_text.hpp>

namespace mha::render {

void JsonText::open(char opening, char closing, Spread spread) {
  separate();
  text_ += opening;
  levels_.push_back({closing, spread});
}

void JsonText::close() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty) text_ += level.spread.last;
  text_ += level.closing;
}

JsonText& JsonText::key(std::string_view name) {
  separate();
  text_ += json_string(name) + ": ";
  after_key_ = true;
  return *this;
}

void JsonText::raw(std::string_view json) {
  separate();
  text_ += json;
}

void JsonText::separate() {
  if (std::exchange(after_key_, false) || levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.empty) text_ += ',';
  text_ += next_.value_or(level.empty ? level.spread.first : level.spread.between);
  next_.reset();
  level.empty = false;
}

} // namespace mha::render
