#include <mha/formats/pickle_builder.hpp>

#include <mha/files/text.hpp>

#include <fmt/format.h>

#include <bit>
#include <charconv>

namespace mha::io {

namespace {

/// More values than any checkpoint has; they would take hundreds of megabytes.
constexpr std::size_t most_values = std::size_t{1} << 22;

/// Whether all of `text` was a number, even one beyond the type's range.
bool parsed_whole(std::string_view text, const std::from_chars_result& parsed) {
  return !text.empty() && parsed.ptr == text.data() + text.size();
}

} // namespace

PickleBuilder::PickleBuilder(std::string where, std::size_t size) : size_(size) {
  pickle_.where_ = std::move(where);
  pickle_.nodes_.push_back({});
}

void PickleBuilder::refuse(std::string_view what) const {
  fail("{}: byte {}: {}", pickle_.where_, offset_, what);
}

PickleBuilder::Ref PickleBuilder::add(Pickle::Node node) {
  if (pickle_.nodes_.size() > most_values)
    refuse(fmt::format("more than {} values, which no checkpoint has", most_values));
  pickle_.nodes_.push_back(node);
  return static_cast<Ref>(pickle_.nodes_.size() - 1);
}

PickleBuilder::Ref PickleBuilder::add_boolean(bool value) {
  Ref& known = booleans_[value ? 1 : 0];
  if (known == 0) known = add({Kind::boolean, false, 0, value, 0});
  return known;
}

PickleBuilder::Ref PickleBuilder::add_real(double value) {
  return add({Kind::real, false, 0, std::bit_cast<std::uint64_t>(value), 0});
}

PickleBuilder::Ref PickleBuilder::add_text(Kind kind, std::string_view text) {
  return add({kind, false, 0, reinterpret_cast<std::uintptr_t>(text.data()), text.size()});
}

PickleBuilder::Ref PickleBuilder::add_owned(Kind kind, std::string text) {
  return add_text(kind, pickle_.owned_texts_.emplace_back(std::move(text)));
}

PickleBuilder::Ref PickleBuilder::add_list(Kind kind, List list) {
  pickle_.lists_.push_back(std::move(list));
  return add({kind, false, 0, pickle_.lists_.size() - 1, 0});
}

PickleBuilder::Ref PickleBuilder::add_name(Ref module, Ref name) {
  if (!pickle_.is_string(name) || !pickle_.is_string(module)) refuse("a name that is not text");
  return add({Kind::name, false, 0, module, name});
}

PickleBuilder::Ref PickleBuilder::add_record(Ref class_name, Ref arguments) {
  if (!pickle_.is(class_name, Kind::name))
    refuse("creates an object of something that is not a class");
  return add_list(Kind::record, {class_name, arguments});
}

PickleBuilder::Ref PickleBuilder::add_long(std::string_view raw) {
  if (raw.size() > sizeof(std::uint64_t)) return add_text(Kind::bytes, raw);
  const bool negative = !raw.empty() && (raw.back() & 0x80) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = raw.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(raw[i]);
  return add_integer(static_cast<std::int64_t>(value));
}

PickleBuilder::Ref PickleBuilder::add_decimal(std::string_view text, bool may_be_boolean) {
  if (may_be_boolean && (text == "00" || text == "01")) return add_boolean(text == "01");
  std::string_view digits = text;
  if (digits.ends_with('L')) digits.remove_suffix(1);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!parsed_whole(digits, parsed)) refuse(fmt::format("'{}' is not a number", shown(text)));
  return parsed.ec == std::errc() ? add_integer(value) : add_text(Kind::bytes, digits);
}

PickleBuilder::Ref PickleBuilder::add_float(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!parsed_whole(text, parsed)) refuse(fmt::format("'{}' is not a number", shown(text)));
  return add_real(value);
}

void PickleBuilder::append(Ref container, const List& values) {
  Ref list = container;
  if (pickle_.is(container, Kind::record)) {
    list = pickle_.nodes_[container].extra;
    if (list == 0) pickle_.nodes_[container].extra = list = add_list(Kind::list, {});
  } else if (!pickle_.is(container, Kind::list) && !pickle_.is(container, Kind::set)) {
    refuse("appends to something that is not a list");
  }
  List& items = list_of(list);
  items.insert(items.end(), values.begin(), values.end());
}

void PickleBuilder::set_items(Ref dict, const List& keys_and_values) {
  if (keys_and_values.size() % 2 != 0) refuse("a key without a value");
  Ref list = dict;
  if (pickle_.is(dict, Kind::record)) {
    list = static_cast<Ref>(pickle_.nodes_[dict].b);
    if (list == 0) pickle_.nodes_[dict].b = list = add_list(Kind::dict, {});
  } else if (!pickle_.is(dict, Kind::dict)) {
    refuse("sets an item of something that is not a dict");
  }
  List& items = list_of(list);
  items.insert(items.end(), keys_and_values.begin(), keys_and_values.end());
}

void PickleBuilder::set_state(Ref object, Ref state) {
  switch (pickle_.kind(object)) {
  case Kind::record:
    list_of(object).push_back(state);
    break;
  case Kind::call:
    pickle_.nodes_[object].b = state;
    break;
  case Kind::dict:
  case Kind::list:
  case Kind::set:
    break;
  default:
    refuse("sets the state of a value that has none");
  }
}

/// Copies the values of another container. All copies together may have as many values as the
/// pickle has bytes.
PickleBuilder::List PickleBuilder::copied(std::span<const Ref> values) {
  copied_ += values.size();
  if (copied_ > size_) refuse("copies of copies, which no checkpoint has");
  return {values.begin(), values.end()};
}

/// The dict of OrderedDict(pairs), defaultdict(factory, pairs).
PickleBuilder::Ref PickleBuilder::dict_of(std::string_view name, std::span<const Ref> arguments) {
  if (name == "collections.defaultdict" && !arguments.empty()) arguments = arguments.subspan(1);
  List list;
  if (!arguments.empty() && pickle_.is(arguments[0], Kind::dict)) {
    list = copied(pickle_.items(arguments[0]));
  } else if (!arguments.empty()) {
    for (const Ref pair : copied(pickle_.items(arguments[0]))) {
      const std::span<const Ref> both = pickle_.items(pair);
      if (both.size() != 2) refuse(fmt::format("{} of items that are not pairs", name));
      list.insert(list.end(), both.begin(), both.end());
    }
  }
  return add_list(Kind::dict, std::move(list));
}

/// _codecs.encode(text, "latin1"): bytes of protocols below 3.
PickleBuilder::Ref PickleBuilder::encoded(std::span<const Ref> arguments) {
  if (!pickle_.is(arguments[0], Kind::text)) refuse("encodes something that is not text");
  const std::string_view code =
      arguments.size() > 1 && pickle_.is_string(arguments[1]) ? pickle_.text(arguments[1]) : "";
  if (code != "latin1" && code != "latin-1")
    refuse("encodes a text in an encoding other than latin1");
  const Ref made = add_text(Kind::bytes, pickle_.text(arguments[0]));
  pickle_.nodes_[made].flag = true;
  return made;
}

/// _rebuild_from_type_v2(rebuild, class, arguments, state): the result of `rebuild` with the
/// arguments, if that is a call that makes a tensor. The class and the state are dropped.
PickleBuilder::Ref PickleBuilder::from_type(const std::string& name,
                                            std::span<const Ref> arguments) {
  using Rule = PickleRule::Kind;
  if (arguments.size() < 3 || !pickle_.is(arguments[0], Kind::name) ||
      !pickle_.is(arguments[2], Kind::tuple))
    refuse(fmt::format("calls {} with other arguments than PyTorch", name));
  const std::string rebuild = pickle_.name(arguments[0]);
  const std::optional<PickleRule> rule = rule_of(rebuild);
  const bool tensor = rule && (rule->kind == Rule::call || rule->kind == Rule::first_argument);
  if (!tensor) refuse(fmt::format("calls {}, {}", shown(rebuild), refusal_of(rebuild)));
  return result(*rule, arguments[0], arguments[2]);
}

PickleBuilder::Ref PickleBuilder::result(const PickleRule& rule, Ref callee, Ref arguments) {
  using Rule = PickleRule::Kind;
  const std::string name = pickle_.name(callee);
  const std::span<const Ref> given = pickle_.items(arguments);
  const bool may_be_empty = rule.kind == Rule::empty_bytes || rule.kind == Rule::dict ||
                            rule.kind == Rule::set || rule.kind == Rule::list ||
                            rule.kind == Rule::argument_tuple || rule.kind == Rule::inert;
  if (given.empty() && !may_be_empty) refuse(fmt::format("calls {} without an argument", name));
  switch (rule.kind) {
  case Rule::dict:
    return dict_of(name, given);
  case Rule::set:
    return add_list(Kind::set, given.empty() ? List{} : copied(pickle_.items(given[0])));
  case Rule::list:
    return add_list(Kind::list, given.empty() ? List{} : copied(pickle_.items(given[0])));
  case Rule::first_argument:
    return given[0];
  case Rule::argument_tuple:
    return arguments;
  case Rule::reconstructor:
    return add_record(given[0], 0);
  case Rule::encode:
    return encoded(given);
  case Rule::empty_bytes:
    if (!given.empty()) refuse(fmt::format("calls {} with an argument", name));
    return add_text(Kind::bytes, "");
  case Rule::from_type:
    return from_type(name, given);
  case Rule::inert:
    return add_record(callee, 0);
  case Rule::call:
    break;
  }
  return add({Kind::call, false, static_cast<std::uint32_t>(rule.call), arguments, 0});
}

PickleBuilder::Ref PickleBuilder::call(Ref callee, Ref arguments) {
  if (!pickle_.is(callee, Kind::name)) refuse("calls something that is not a name");
  const std::string name = pickle_.name(callee);
  const std::optional<PickleRule> rule = rule_of(name);
  if (!rule) refuse(fmt::format("calls {}, {}", shown(name), refusal_of(name)));
  if (!pickle_.is(arguments, Kind::tuple)) refuse("a call without a tuple of arguments");
  return result(*rule, callee, arguments);
}

PickleBuilder::Ref PickleBuilder::object(Ref class_name, Ref arguments) {
  const std::optional<PickleRule> rule = rule_of(pickle_.name(class_name));
  using Rule = PickleRule::Kind;
  // Old versions of PyTorch pickled sizes and parameters as objects.
  const bool made =
      rule && (rule->kind == Rule::dict || rule->kind == Rule::set || rule->kind == Rule::list ||
               (rule->kind == Rule::first_argument && !pickle_.items(arguments).empty()));
  return made ? result(*rule, class_name, arguments) : add_record(class_name, arguments);
}

PickleBuilder::Ref PickleBuilder::persistent_value(Ref id) {
  const std::span<const Ref> parts = pickle_.items(id);
  if (!pickle_.is(id, Kind::tuple) || parts.empty() || !pickle_.is_string(parts[0]))
    refuse("a persistent id that is not PyTorch's");
  const std::string_view what = pickle_.text(parts[0]);
  if (what == "module" && parts.size() >= 2) return parts[1];
  if (what != "storage") refuse(fmt::format("a persistent id of kind '{}'", shown(what)));
  return add({Kind::stored, false, 0, id, 0});
}

Pickle PickleBuilder::finish(Ref root, std::size_t end) {
  pickle_.root_ = root;
  pickle_.end_ = end;
  return std::move(pickle_);
}

} // namespace mha::io
