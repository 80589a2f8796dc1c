#include <mha/formats/pickle_walk.hpp>

#include <mha/files/text.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace mha::io {

namespace {

constexpr std::size_t most_numbers = std::size_t{1} << 20;
/// Limits the length of all names together, because a full name repeats the names of all containers
/// around it: the allowed bytes for each byte of the pickle, and those allowed in addition.
constexpr std::size_t name_bytes_per_byte = 16, extra_name_bytes = std::size_t{1} << 16;
/// A longer text is neither a name nor a setting. A pickle may use one text as the key of many
/// dicts.
constexpr std::size_t most_key = 1000;

constexpr std::array<std::string_view, 3> parts_of_modules{"_parameters", "_buffers", "_modules"};

} // namespace

bool has_numbers(const Pickle& pickle, PickleRef ref) {
  if (pickle.is(ref, PickleKind::stored)) return true;
  return pickle.is(ref, PickleKind::call) && pickle.call(ref) != PickleCall::dtype;
}

std::optional<std::string> key_text(const Pickle& pickle, PickleRef key) {
  if (pickle.is_string(key) && pickle.text(key).size() <= most_key &&
      invalid_utf8(pickle.text(key)) == std::string::npos)
    return std::string(pickle.text(key));
  if (pickle.is(key, PickleKind::integer)) return std::to_string(pickle.integer(key));
  return std::nullopt;
}

std::optional<std::string> plain_text(const Pickle& pickle, PickleRef ref) {
  if (pickle.is(ref, PickleKind::boolean)) return pickle.truth(ref) ? "true" : "false";
  if (pickle.is(ref, PickleKind::real)) return number_text(pickle.real(ref));
  return key_text(pickle, ref);
}

std::vector<PickleRef> split_record_parts(const Pickle& pickle, PickleRef ref) {
  std::vector<PickleRef> parts;
  for (const PickleRef part : pickle.record_parts(ref)) {
    const auto inner = pickle.items(part);
    const bool slots =
        pickle.is(part, PickleKind::tuple) && inner.size() == 2 &&
        std::ranges::all_of(inner, [&](PickleRef each) {
          return pickle.is(each, PickleKind::dict) || pickle.is(each, PickleKind::none);
        });
    if (slots)
      parts.insert(parts.end(), inner.begin(), inner.end());
    else
      parts.push_back(part);
  }
  return parts;
}

namespace {

/// The items whose keys are names, in the order of first appearance; a repeated key has its last
/// value. The text "1" and the number 1 are different keys.
std::vector<std::pair<PickleRef, PickleRef>> named_items(const Pickle& pickle, PickleRef dict) {
  std::vector<std::pair<PickleRef, PickleRef>> all;
  std::unordered_map<std::string, std::size_t> places;
  const auto items = pickle.items(dict);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    auto key = key_text(pickle, items[i]);
    if (!key) continue;
    if (pickle.is(items[i], PickleKind::integer)) key->insert(0, 1, '\0');
    const auto [place, added] = places.emplace(*key, all.size());
    if (added)
      all.emplace_back(items[i], items[i + 1]);
    else
      all[place->second].second = items[i + 1];
  }
  return all;
}

} // namespace

std::vector<PickleMember> members(const Pickle& pickle, PickleRef ref) {
  std::vector<PickleMember> all;
  if (pickle.is(ref, PickleKind::record)) {
    for (const PickleRef part : split_record_parts(pickle, ref))
      if (!pickle.is(part, PickleKind::record))
        std::ranges::move(members(pickle, part), std::back_inserter(all));
  } else if (pickle.is(ref, PickleKind::dict)) {
    for (const auto& [key, value] : named_items(pickle, ref))
      all.emplace_back(*key_text(pickle, key), value);
  } else {
    for (const PickleRef item : pickle.items(ref))
      all.emplace_back(std::to_string(all.size()), item);
  }
  return all;
}

bool is_optimizer(const Pickle& pickle, PickleRef ref) {
  const auto has = [&](PickleRef dict, std::string_view name) {
    const auto items = pickle.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (pickle.is_string(items[i]) && pickle.text(items[i]) == name) return true;
    return false;
  };
  const auto has_both = [&](PickleRef dict) {
    return pickle.is(dict, PickleKind::dict) && has(dict, "param_groups") && has(dict, "state");
  };
  if (!pickle.is(ref, PickleKind::record)) return has_both(ref);
  return std::ranges::any_of(split_record_parts(pickle, ref), has_both);
}

/// Finds _parameters, _buffers and _modules in a module's dict of attributes, once for each dict.
const PickleWalk::ModuleDicts& PickleWalk::module_parts(PickleRef dict) {
  const auto [found, added] = modules_.try_emplace(dict, ModuleDicts{});
  if (!added || !pickle_.is(dict, PickleKind::dict)) return found->second;
  const auto items = pickle_.items(dict);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    for (std::size_t part = 0; part < parts_of_modules.size(); ++part)
      if (pickle_.is_string(items[i]) && pickle_.text(items[i]) == parts_of_modules[part])
        found->second[part] = items[i + 1];
  return found->second;
}

bool PickleWalk::is_module(PickleRef ref) {
  return pickle_.is(ref, PickleKind::record) &&
         std::ranges::any_of(split_record_parts(pickle_, ref),
                             [&](PickleRef dict) { return module_parts(dict)[0] != 0; });
}

bool PickleWalk::may_have_results(PickleRef ref) const {
  return has_numbers(pickle_, ref) || pickle_.is(ref, PickleKind::record) ||
         !pickle_.items(ref).empty() || visits_plain_;
}

void PickleWalk::push(const NameLink& part, PickleRef ref) {
  if (!may_have_results(ref)) return;
  parts_.push_back(part);
  pending_.push_back({static_cast<std::uint32_t>(parts_.size() - 1), ref});
}

/// The prefix and the parts of a name up to `part`, joined by dots.
std::string PickleWalk::full_name(std::uint32_t part, const std::string& prefix) {
  std::vector<std::string> list;
  const std::size_t most = name_bytes_per_byte * pickle_.end() + extra_name_bytes;
  for (; part != top && name_bytes_ <= most; part = parts_[part].before) {
    const NameLink& own = parts_[part];
    list.push_back(own.is_index ? std::to_string(own.value)
                                : key_text(pickle_, own.value).value_or(""));
    name_bytes_ += list.back().size() + 1;
  }
  if (name_bytes_ > most)
    fail("{}: the names of its values are longer than {} times the pickle", pickle_.where(),
         name_bytes_per_byte);
  if (!prefix.empty()) list.push_back(prefix);
  std::ranges::reverse(list);
  return fmt::format("{}", fmt::join(list, "."));
}

/// Pushes the members in reverse order, so that the first is visited next.
void PickleWalk::push_members(const Visit& container) {
  const PickleRef ref = container.ref;
  if (pickle_.is(ref, PickleKind::record)) {
    std::vector<PickleRef> inner;
    const bool module = is_module(ref);
    for (const PickleRef part : split_record_parts(pickle_, ref)) {
      if (module)
        for (const PickleRef own : module_parts(part)) inner.push_back(own);
      else
        inner.push_back(part);
    }
    for (std::size_t i = inner.size(); i-- > 0;)
      if (may_have_results(inner[i])) pending_.push_back({container.name, inner[i]});
  } else if (pickle_.is(ref, PickleKind::dict)) {
    const auto items = named_items(pickle_, ref);
    for (std::size_t i = items.size(); i-- > 0;)
      push({container.name, false, items[i].first}, items[i].second);
    const auto whole = pickle_.items(ref);
    for (std::size_t i = 0; i + 1 < whole.size(); i += 2)
      if (!key_text(pickle_, whole[i]) && has_numbers(pickle_, whole[i + 1])) ++unnamed_;
  } else if (!pickle_.is(ref, PickleKind::set)) {
    const auto items = pickle_.items(ref);
    for (std::size_t i = items.size(); i-- > 0;)
      push({container.name, true, static_cast<std::uint32_t>(i)}, items[i]);
  }
}

void PickleWalk::add_numbers(PickleRef ref, const std::string& prefix,
                             std::vector<PickleMember>& to) {
  pending_.push_back({top, ref});
  while (!pending_.empty()) {
    const Visit visit = pending_.back();
    pending_.pop_back();
    if (has_numbers(pickle_, visit.ref)) {
      if (to.size() == most_numbers)
        fail("{}: more than {} tensors", pickle_.where(), most_numbers);
      to.emplace_back(full_name(visit.name, prefix), visit.ref);
    } else if (!seen_[visit.ref]) {
      seen_[visit.ref] = true;
      if (visit.ref != ref && is_optimizer(pickle_, visit.ref))
        optimizers_.push_back(full_name(visit.name, prefix));
      else
        push_members(visit);
    }
  }
}

/// "1,2" for a list of plain values; nothing if it is too long for a setting or has other values.
std::optional<std::string> PickleWalk::joined_items(PickleRef list) const {
  std::string all;
  for (const PickleRef item : pickle_.items(list)) {
    const auto text = plain_text(pickle_, item);
    if (!text || all.size() + text->size() > most_key) return std::nullopt;
    if (!all.empty()) all += ',';
    all += *text;
  }
  return all;
}

void PickleWalk::add_plain(PickleRef ref, std::vector<std::pair<std::string, std::string>>& to) {
  visits_plain_ = true;
  pending_.push_back({top, ref});
  while (!pending_.empty()) {
    const Visit visit = pending_.back();
    pending_.pop_back();
    const bool list =
        pickle_.is(visit.ref, PickleKind::list) || pickle_.is(visit.ref, PickleKind::tuple);
    if (auto text = list ? joined_items(visit.ref) : plain_text(pickle_, visit.ref)) {
      name_bytes_ += text->size();
      to.emplace_back(full_name(visit.name, ""), std::move(*text));
    } else if (!seen_[visit.ref] && !list) {
      seen_[visit.ref] = true;
      push_members(visit);
    }
  }
  visits_plain_ = false;
}

void PickleWalk::add_attributes(PickleRef ref, std::map<std::string, std::string>& to) {
  constexpr std::string_view known[]{"num_heads", "n_heads", "n_head",     "nhead",     "heads",
                                     "eps",       "scale",   "activation", "norm_first"};
  pending_.push_back({top, ref});
  while (!pending_.empty()) {
    const Visit visit = pending_.back();
    pending_.pop_back();
    if (has_numbers(pickle_, visit.ref) || seen_[visit.ref]) continue;
    seen_[visit.ref] = true;
    push_members(visit);
    if (!is_module(visit.ref)) continue;
    for (const auto& [name, value] : members(pickle_, visit.ref)) {
      if (!is_one_of(name, known)) continue;
      // A function is represented by its name: "relu" for torch.nn.functional.relu.
      const std::string function = pickle_.name(value);
      const auto text = function.empty() ? plain_text(pickle_, value)
                                         : std::optional(function.substr(function.rfind('.') + 1));
      const std::string module = full_name(visit.name, "");
      if (text) to.emplace(module.empty() ? name : fmt::format("{}.{}", module, name), *text);
    }
  }
}

std::size_t PickleWalk::count_numbers(PickleRef ref) {
  std::vector<PickleRef> stack{ref};
  std::size_t count = 0;
  while (!stack.empty()) {
    const PickleRef next = stack.back();
    stack.pop_back();
    if (seen_[next]) continue;
    seen_[next] = true;
    if (has_numbers(pickle_, next)) ++count;
    const auto inner = pickle_.items(next);
    stack.insert(stack.end(), inner.begin(), inner.end());
    if (!pickle_.is(next, PickleKind::record)) continue;
    for (const PickleRef part : pickle_.record_parts(next)) stack.push_back(part);
  }
  return count;
}

} // namespace mha::io
