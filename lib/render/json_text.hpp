#pragma once
// A writer of JSON: brackets, commas, quotes and numbers.

#include <mha/render/numbers.hpp>
#include <mha/system/characters.hpp>

#include <concepts>
#include <utility>
#include <vector>

namespace mha::render {

/// The space between brackets and elements. The default, "" after the opening one, " " after a
/// comma and "" before the closing one, puts all on one line. An empty object or list is always
/// "{}" or
/// "[]".
struct Spread {
  std::string_view first, between = " ", last;
};
/// A line each, none indented.
inline constexpr Spread on_lines{"\n", "\n", "\n"};
/// A line each, indented by two.
inline constexpr Spread indented{"\n  ", "\n  ", "\n"};

/// A JSON text that grows. Objects and lists may be nested; commas come by themselves.
class JsonText {
public:
  /// Numbers have `precision` significant digits, or as many as read back to the same value.
  explicit JsonText(std::optional<std::size_t> precision = std::nullopt)
      : numbers_(Dialect::json, precision) {}

  void open_object(Spread spread = {}) { open('{', '}', spread); }
  void open_list(Spread spread = {}) { open('[', ']', spread); }
  /// Closes the innermost object or list.
  void close();
  /// Opens an object, lets `members` add to it, and closes it.
  template <std::invocable Members> void object(const Members& members, Spread spread = {}) {
    open_object(spread);
    members();
    close();
  }
  /// A list of what `add` writes for each element; or of the elements.
  template <class Elements, class Add>
  void list(const Elements& elements, const Add& add, Spread spread = {}) {
    open_list(spread);
    for (const auto& element : elements) add(element);
    close();
  }
  template <class Elements> void list(const Elements& elements) {
    list(elements, [&](const auto& element) { value(element); });
  }

  /// The name of a member; its value follows.
  JsonText& key(std::string_view name);
  /// The next element begins after this instead of what its object or list is spread by.
  void begin_next_after(std::string_view between) { next_ = between; }

  void value(std::floating_point auto number) {
    separate();
    numbers_.append(text_, number);
  }
  void value(std::integral auto count) { raw(std::to_string(count)); }
  void value(bool flag) { raw(flag ? "true" : "false"); }
  void value(std::string_view words) { raw(json_string(words)); }
  void value(const std::string& words) { value(std::string_view(words)); }
  void value(const char* words) { value(std::string_view(words)); }
  void null() { raw("null"); }
  /// Ends a line, outside of every object and list.
  void end_line() { text_ += '\n'; }
  /// JSON that is written already.
  void raw(std::string_view json);
  /// Null for a missing value, or for no words.
  template <class T> void value_or_null(const std::optional<T>& value_if_any) {
    value_if_any ? value(*value_if_any) : null();
  }
  void words_or_null(std::string_view words) { words.empty() ? null() : value(words); }

  /// A layer: its number where it is one, its name ("decoder.3.cross"), or null.
  void layer(std::string_view id) { is_number(id) ? raw(id) : words_or_null(id); }

  template <class T> JsonText& member(std::string_view name, const T& its_value) {
    key(name).value(its_value);
    return *this;
  }

  std::size_t size() const { return text_.size(); }
  /// Returns the text written since the last call.
  std::string take() { return std::exchange(text_, std::string()); }

private:
  struct Level {
    char closing;
    Spread spread;
    bool empty = true;
  };
  void open(char opening, char closing, Spread spread);
  /// Writes what comes before an element: nothing after a key, else the comma and the space.
  void separate();

  NumberWriter numbers_;
  std::string text_;
  std::vector<Level> levels_;
  std::optional<std::string_view> next_;
  bool after_key_ = false;
};

} // namespace mha::render
