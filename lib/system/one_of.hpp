#pragma once
// Whether a list has an element.

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

namespace mha {

/// Whether a list holds a value.
template <class Value, class List> bool is_one_of(const Value& value, const List& list) {
  return std::ranges::find(list, value) != std::end(list);
}
/// The same for words written out in the call: is_one_of(op, {"Add", "Sub"}).
inline bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Adds a value to a list that does not hold it yet.
template <class List, class Value> void add_once(List& list, Value&& value) {
  if (!is_one_of(value, list)) list.push_back(std::forward<Value>(value));
}

} // namespace mha
