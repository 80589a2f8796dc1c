// The stack machine that runs a pickle. Python's pickletools documents the operations and their
// effects on the stack.

#include <mha/formats/pickle_builder.hpp>

#include <mha/files/text.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <unordered_map>

namespace mha::io {

namespace {

class PickleStack {
public:
  using Ref = Pickle::Ref;
  using Kind = PickleKind;
  using List = std::vector<Ref>;

  PickleStack(std::string where, std::string_view text, std::size_t start)
      : text_(text), at_(start), where_(where), make(std::move(where), text.size() - start) {}

  Pickle read();

  // --- reading the text

  std::string_view bytes(std::uint64_t count) {
    if (count > text_.size() - at_)
      fail("{}: byte {}: cut short: {} bytes wanted, {} are left", where_, at_, count,
           text_.size() - at_);
    at_ += count;
    return text_.substr(at_ - count, count);
  }
  std::uint64_t number(std::size_t count) {
    const std::string_view raw = bytes(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(raw[i]);
    return value;
  }
  std::int64_t integer(std::size_t count) { return static_cast<std::int64_t>(number(count)); }
  std::int64_t signed_integer() { return static_cast<std::int32_t>(number(4)); }
  /// A length that is written as a signed number and must not be negative.
  std::uint64_t length() {
    const std::int64_t value = signed_integer();
    if (value < 0) make.refuse("a negative length");
    return static_cast<std::uint64_t>(value);
  }
  /// A big-endian number.
  double real() { return std::bit_cast<double>(__builtin_bswap64(number(8))); }
  std::string_view line() {
    const std::size_t end = text_.find('\n', at_);
    if (end == text_.npos) fail("{}: byte {}: cut short: a line without an end", where_, at_);
    const std::string_view text = bytes(end - at_);
    bytes(1);
    return text;
  }
  std::uint64_t place_in_line() {
    const std::string_view text = line();
    const std::optional<std::uint64_t> value = parse_number<std::uint64_t>(text);
    if (!value) make.refuse(fmt::format("'{}' is not a key of the memo", shown(text)));
    return *value;
  }
  void protocol() {
    if (const std::uint64_t version = number(1); version > 5)
      make.refuse(fmt::format("protocol {}; 0 to 5 are read", version));
  }
  /// The number of bytes to read at once, which is only checked.
  void frame() {
    if (const std::uint64_t size = number(8); size > text_.size() - at_)
      make.refuse(
          fmt::format("cut short: a frame of {} bytes, {} are left", size, text_.size() - at_));
  }

  // --- the stack

  void push(Ref value) { stack_.push_back(value); }
  Ref top() const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      make.refuse("takes a value from an empty stack");
    return stack_.back();
  }
  Ref pop() {
    const Ref value = top();
    stack_.pop_back();
    return value;
  }
  void mark() { marks_.push_back(stack_.size()); }
  /// Removes the last mark and the values above it, and returns the values.
  List pop_mark() {
    if (marks_.empty()) make.refuse("no mark is on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    List list(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return list;
  }
  void pop_one() {
    if (!marks_.empty() && stack_.size() == marks_.back())
      marks_.pop_back();
    else
      pop();
  }
  List pop(std::size_t count) {
    List list(count);
    for (std::size_t i = count; i-- > 0;) list[i] = pop();
    return list;
  }
  void remember(std::uint64_t place) { memo_[place] = top(); }
  void remember_next() { remember(memo_.size()); }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) make.refuse(fmt::format("value {} of the memo is not there", place));
    push(found->second);
  }

  // --- values

  void text(Kind kind, std::string_view raw) { push(make.add_text(kind, raw)); }
  void list(Kind kind, List values) { push(make.add_list(kind, std::move(values))); }
  void dict(List values) {
    if (values.size() % 2 != 0) make.refuse("a key without a value");
    list(Kind::dict, std::move(values));
  }
  void name_in_lines() {
    const Ref module = make.add_text(Kind::text, line());
    push(make.add_name(module, make.add_text(Kind::text, line())));
  }
  void name() {
    const List both = pop(2);
    push(make.add_name(both[0], both[1]));
  }
  void append(const List& values) { make.append(top(), values); }
  void set_items(const List& values) { make.set_items(top(), values); }
  void call() {
    const List both = pop(2);
    push(make.call(both[0], both[1]));
  }
  void object() {
    const List both = pop(2);
    push(make.object(both[0], both[1]));
  }
  void object_of(Ref of, List arguments) {
    push(make.object(of, make.add_list(Kind::tuple, std::move(arguments))));
  }
  void object_in_lines() {
    name_in_lines();
    const Ref of = pop();
    object_of(of, pop_mark());
  }
  void object_above_mark() {
    List values = pop_mark();
    if (values.empty()) make.refuse("an object without a class");
    const Ref of = values[0];
    values.erase(values.begin());
    object_of(of, std::move(values));
  }
  void build() {
    const Ref state = pop();
    make.set_state(top(), state);
  }

  RefusePickle refusal() const {
    return [this](std::string_view what) { make.refuse(what); };
  }

private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::string where_;
  List stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Ref> memo_;

public:
  PickleBuilder make;
};

using Stack = PickleStack;
using Kind = PickleKind;

struct Operation {
  unsigned char code;
  void (*carry_out)(PickleStack&);
};

/// Every operation by its code, in the groups of pickletools.
constexpr Operation operations[] = {
    // Numbers.
    {'N', [](Stack& s) { s.push(0); }},
    {0x88, [](Stack& s) { s.push(s.make.add_boolean(true)); }},
    {0x89, [](Stack& s) { s.push(s.make.add_boolean(false)); }},
    {'I', [](Stack& s) { s.push(s.make.add_decimal(s.line(), true)); }},
    {'L', [](Stack& s) { s.push(s.make.add_decimal(s.line(), false)); }},
    {'F', [](Stack& s) { s.push(s.make.add_float(s.line())); }},
    {'J', [](Stack& s) { s.push(s.make.add_integer(s.signed_integer())); }},
    {'K', [](Stack& s) { s.push(s.make.add_integer(s.integer(1))); }},
    {'M', [](Stack& s) { s.push(s.make.add_integer(s.integer(2))); }},
    {0x8a, [](Stack& s) { s.push(s.make.add_long(s.bytes(s.number(1)))); }},
    {0x8b, [](Stack& s) { s.push(s.make.add_long(s.bytes(s.length()))); }},
    {'G', [](Stack& s) { s.push(s.make.add_real(s.real())); }},
    // Text, bytes and names.
    {'S', [](Stack& s) { s.push(s.make.add_owned(Kind::bytes, unquoted(s.line(), s.refusal()))); }},
    {'V',
     [](Stack& s) {
       s.push(s.make.add_owned(Kind::text, unescaped_unicode(s.line(), s.refusal())));
     }},
    {'T', [](Stack& s) { s.text(Kind::bytes, s.bytes(s.length())); }},
    {'U', [](Stack& s) { s.text(Kind::bytes, s.bytes(s.number(1))); }},
    {'C', [](Stack& s) { s.text(Kind::bytes, s.bytes(s.number(1))); }},
    {'B', [](Stack& s) { s.text(Kind::bytes, s.bytes(s.number(4))); }},
    {0x8e, [](Stack& s) { s.text(Kind::bytes, s.bytes(s.number(8))); }},
    {0x96, [](Stack& s) { s.text(Kind::bytes, s.bytes(s.number(8))); }},
    {0x8c, [](Stack& s) { s.text(Kind::text, s.bytes(s.number(1))); }},
    {'X', [](Stack& s) { s.text(Kind::text, s.bytes(s.number(4))); }},
    {0x8d, [](Stack& s) { s.text(Kind::text, s.bytes(s.number(8))); }},
    {'c', [](Stack& s) { s.name_in_lines(); }},
    {0x93, [](Stack& s) { s.name(); }},
    // Containers.
    {')', [](Stack& s) { s.list(Kind::tuple, {}); }},
    {0x85, [](Stack& s) { s.list(Kind::tuple, s.pop(1)); }},
    {0x86, [](Stack& s) { s.list(Kind::tuple, s.pop(2)); }},
    {0x87, [](Stack& s) { s.list(Kind::tuple, s.pop(3)); }},
    {'t', [](Stack& s) { s.list(Kind::tuple, s.pop_mark()); }},
    {']', [](Stack& s) { s.list(Kind::list, {}); }},
    {'l', [](Stack& s) { s.list(Kind::list, s.pop_mark()); }},
    {'a', [](Stack& s) { s.append(s.pop(1)); }},
    {'e', [](Stack& s) { s.append(s.pop_mark()); }},
    {0x8f, [](Stack& s) { s.list(Kind::set, {}); }},
    {0x91, [](Stack& s) { s.list(Kind::set, s.pop_mark()); }},
    {0x90, [](Stack& s) { s.append(s.pop_mark()); }},
    {'}', [](Stack& s) { s.list(Kind::dict, {}); }},
    {'d', [](Stack& s) { s.dict(s.pop_mark()); }},
    {'s', [](Stack& s) { s.set_items(s.pop(2)); }},
    {'u', [](Stack& s) { s.set_items(s.pop_mark()); }},
    // Calls and objects.
    {'R', [](Stack& s) { s.call(); }},
    {'b', [](Stack& s) { s.build(); }},
    {0x81, [](Stack& s) { s.object(); }},
    {0x92, [](Stack& s) { s.pop(), s.object(); }}, // without its arguments by name
    {'o', [](Stack& s) { s.object_above_mark(); }},
    {'i', [](Stack& s) { s.object_in_lines(); }},
    {'Q', [](Stack& s) { s.push(s.make.persistent_value(s.pop())); }},
    {'P',
     [](Stack& s) { s.make.refuse("a persistent id as a line, which PyTorch does not write"); }},
    {0x82, [](Stack& s) { s.make.refuse("a name of copyreg's table, which is not in the file"); }},
    {0x83, [](Stack& s) { s.make.refuse("a name of copyreg's table, which is not in the file"); }},
    {0x84, [](Stack& s) { s.make.refuse("a name of copyreg's table, which is not in the file"); }},
    {0x97, [](Stack& s) { s.make.refuse("a buffer outside of the pickle"); }},
    {0x98, [](Stack& s) { s.make.refuse("a buffer outside of the pickle"); }},
    // The stack and the memo.
    {'(', [](Stack& s) { s.mark(); }},
    {'0', [](Stack& s) { s.pop_one(); }},
    {'1', [](Stack& s) { s.pop_mark(); }},
    {'2', [](Stack& s) { s.push(s.top()); }},
    {'p', [](Stack& s) { s.remember(s.place_in_line()); }},
    {'q', [](Stack& s) { s.remember(s.number(1)); }},
    {'r', [](Stack& s) { s.remember(s.number(4)); }},
    {0x94, [](Stack& s) { s.remember_next(); }},
    {'g', [](Stack& s) { s.recall(s.place_in_line()); }},
    {'h', [](Stack& s) { s.recall(s.number(1)); }},
    {'j', [](Stack& s) { s.recall(s.number(4)); }},
    {0x80, [](Stack& s) { s.protocol(); }},
    {0x95, [](Stack& s) { s.frame(); }},
};

Pickle PickleStack::read() {
  static const auto by_code = [] {
    std::array<void (*)(PickleStack&), 256> table{};
    for (const Operation& operation : operations) table[operation.code] = operation.carry_out;
    return table;
  }();
  while (true) {
    make.set_offset(at_);
    const auto code = static_cast<unsigned char>(bytes(1)[0]);
    if (code == '.') break;
    if (!by_code[code]) make.refuse(fmt::format("no operation of a pickle: \\x{:02x}", code));
    by_code[code](*this);
  }
  const Ref root = pop();
  if (!stack_.empty() || !marks_.empty()) make.refuse("ends with values left on the stack");
  return make.finish(root, at_);
}

} // namespace

Pickle read_pickle(std::string where, std::string_view text, std::size_t start) {
  return PickleStack(std::move(where), text, std::min(start, text.size())).read();
}

} // namespace mha::io
