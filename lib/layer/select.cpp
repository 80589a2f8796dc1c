#include <mha/layer/select.hpp>

#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mha {

namespace {

[[noreturn]] void refuse_index(const Message& option, std::string_view text,
                               std::string_view part) {
  fail("{} {}: '{}' is not an index; expected i, a-b (both ends) or a:b (as NumPy slices), "
       "separated "
       "by commas",
       option, text.empty() ? "''" : text, part);
}

/// A bound of a NumPy slice, brought into [low, high].
std::int64_t clamped(std::int64_t value, std::int64_t count, std::int64_t low, std::int64_t high) {
  return std::clamp(value < 0 ? value + count : value, low, high);
}

} // namespace

IndexList::IndexList(std::string text, Message option)
    : text_(std::move(text)), option_(std::move(option)) {
  const auto refuse = [&](std::string_view part) { refuse_index(option_, text_, part); };
  for (std::string_view part : split_at(text_, ',')) {
    Range range;
    if (part.find(':') != std::string_view::npos) {
      range.form = Range::Form::slice;
      const std::vector<std::string_view> bounds = split_at(part, ':');
      if (bounds.size() > 3) refuse(part);
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        if (bounds[i].empty()) continue;
        const std::optional<std::int64_t> bound = parse_number<std::int64_t>(bounds[i]);
        if (!bound || (i == 2 && *bound == 0)) refuse(part);
        if (i == 0)
          range.first = bound;
        else if (i == 1)
          range.last = bound;
        else
          range.step = *bound;
      }
    } else if (const std::size_t dash = part.find('-', 1); dash != std::string_view::npos) {
      range.form = Range::Form::both_ends;
      range.first = parse_number<std::int64_t>(part.substr(0, dash));
      range.last = parse_number<std::int64_t>(part.substr(dash + 1));
      if (!range.first || !range.last || *range.first < 0 || *range.last < *range.first)
        refuse(part);
    } else {
      range.first = parse_number<std::int64_t>(part);
      if (!range.first) refuse(part);
    }
    ranges_.push_back(range);
  }
}

IndexList IndexList::of_indices(const std::vector<std::size_t>& indices, Message option) {
  if (indices.empty()) refuse_index(option, "", "");
  IndexList list;
  list.text_ = fmt::format("{}", fmt::join(indices, ","));
  list.option_ = std::move(option);
  for (const std::size_t index : indices) {
    if (!std::in_range<std::int64_t>(index))
      refuse_index(list.option_, list.text_, std::to_string(index));
    Range range;
    range.first = static_cast<std::int64_t>(index);
    list.ranges_.push_back(range);
  }
  return list;
}

IndexList IndexList::of_position(std::int64_t position) {
  IndexList list;
  list.text_ = std::to_string(position);
  list.ranges_.emplace_back().first = position;
  return list;
}

Pick IndexList::resolve(std::size_t count, std::string_view what, const Message& prefix) const {
  if (names_tokens_) return placed({}).resolve(count, what); // throws: there are no labels
  Pick pick;
  std::vector<bool> seen(count);
  const auto n = static_cast<std::int64_t>(count);
  const auto add = [&](std::int64_t index) {
    const auto position = static_cast<std::size_t>(index);
    if (seen[position]) return;
    seen[position] = true;
    pick.indices.push_back(position);
  };
  const auto check = [&](std::int64_t index) {
    if (index < -n || index >= n)
      fail("{} {}: there {} {}{}", prefix, text_, count == 1 ? "is" : "are", counted(count, what),
           count == 0   ? ""
           : count == 1 ? " (0)"
                        : fmt::format(" (0 to {})", count - 1));
    return index < 0 ? index + n : index;
  };
  for (const Range& range : ranges_) {
    switch (range.form) {
    case Range::Form::index:
      add(check(*range.first));
      break;
    case Range::Form::both_ends:
      check(*range.first), check(*range.last);
      for (std::int64_t i = *range.first; i <= *range.last; ++i) add(i);
      break;
    case Range::Form::slice:
      if (range.step > 0) {
        const std::int64_t last = range.last ? clamped(*range.last, n, 0, n) : n;
        for (std::int64_t i = clamped(range.first.value_or(0), n, 0, n); i < last; i += range.step)
          add(i);
      } else {
        const std::int64_t last = range.last ? clamped(*range.last, n, -1, n - 1) : -1;
        for (std::int64_t i = clamped(range.first.value_or(n - 1), n, -1, n - 1); i > last;
             i += range.step)
          add(i);
      }
      break;
    }
  }
  if (pick.indices.empty())
    fail("{} {} selects nothing: there {} {}", prefix, text_, count == 1 ? "is" : "are",
         counted(count, what));
  pick.drops_axis = ranges_.size() == 1 && ranges_[0].form == Range::Form::index;
  return pick;
}

namespace {

Pick everything(std::size_t count) {
  Pick pick;
  pick.indices.resize(count);
  std::iota(pick.indices.begin(), pick.indices.end(), std::size_t{0});
  return pick;
}

/// What a list picks of an axis of `count` tokens. Padding after the longest chosen text is left
/// out, unless other keys follow it.
Pick picked_tokens(const Layer& layer, const Selection& selection,
                   const std::optional<IndexList>& list, std::size_t count, std::string_view what) {
  const Dims& dims = layer.dims;
  if (!selection.batch || layer.lengths.empty() || dims.T != dims.S_all)
    return resolved(list, count, what);
  std::size_t longest = 0;
  for (const std::size_t item : chosen_items(layer, selection).indices)
    longest = std::max(longest, layer.length_of(item));
  return resolved(list, longest, what);
}

/// The key/value heads that the chosen query heads read, once each, in the order of these.
Pick kv_heads(const Layer& layer, const std::optional<IndexList>& heads) {
  if (!heads) return everything(layer.dims.H_kv);
  Pick pick = heads->resolve(layer.dims.H, "heads");
  std::vector<std::size_t> read;
  for (std::size_t h : pick.indices) add_once(read, kv_head_of(layer, h));
  pick.indices = std::move(read);
  return pick;
}

} // namespace

Pick resolved(const std::optional<IndexList>& list, std::size_t count, std::string_view what) {
  return list ? list->resolve(count, what) : everything(count);
}

Pick chosen_items(const Layer& layer, const Selection& selection) {
  return resolved(selection.batch, layer.dims.B, "batch items");
}

Pick chosen_queries(const Layer& layer, const Selection& selection) {
  return picked_tokens(layer, selection, selection.query, layer.dims.T, "queries");
}

Pick chosen_keys(const Layer& layer, const Selection& selection) {
  return picked_tokens(layer, selection, selection.key, layer.dims.S_all, "keys");
}

std::vector<std::size_t> own_positions(const Layer& layer, Dim letter, std::size_t batch) {
  const Dims& dims = layer.dims;
  const std::size_t count = dims.size_of(letter), before = letter == Dim::S_all ? dims.past : 0,
                    current = letter == Dim::S_all ? dims.S : count,
                    own = layer.lengths.empty() ? current : layer.lengths[batch];
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < count; ++i)
    if (i < before + own || i >= before + current) positions.push_back(i);
  return positions;
}

namespace {

/// What is chosen of a text's tokens; nothing where none is. Without a list it is all of them.
bool keep_own(std::optional<IndexList>& list, const Pick& chosen, std::size_t length) {
  if (!list) return true;
  std::vector<std::size_t> own;
  std::ranges::copy_if(chosen.indices, std::back_inserter(own),
                       [&](std::size_t position) { return position < length; });
  if (!own.empty()) list = IndexList::of_indices(own, list->option());
  return !own.empty();
}

} // namespace

std::vector<Selection> without_padding(const Layer& layer, const Selection& selection) {
  if (layer.lengths.empty() || layer.dims.T != layer.dims.S_all) return {selection};
  const std::vector<std::size_t> items = chosen_items(layer, selection).indices;
  const auto length = [&](std::size_t item) { return layer.length_of(item); };
  if (items.empty() ||
      std::ranges::adjacent_find(items, std::ranges::not_equal_to(), length) == items.end())
    return {selection};
  const Pick queries = chosen_queries(layer, selection), keys = chosen_keys(layer, selection);
  std::vector<Selection> texts;
  for (const std::size_t item : items) {
    Selection own = selection;
    own.batch = IndexList::of_indices({item}, message("<batch>"));
    if (keep_own(own.query, queries, length(item)) && keep_own(own.key, keys, length(item)))
      texts.push_back(std::move(own));
  }
  return texts.empty() ? std::vector{selection} : texts;
}

std::vector<std::size_t> items_without(const Layer& layer, const Selection& selection) {
  std::vector<std::size_t> without;
  if (layer.lengths.empty() || (!selection.query && !selection.key)) return without;
  const Pick queries = chosen_queries(layer, selection), keys = chosen_keys(layer, selection);
  for (const std::size_t item : chosen_items(layer, selection).indices) {
    const std::size_t length = layer.length_of(item);
    std::optional<IndexList> of_queries = selection.query, of_keys = selection.key;
    if (!keep_own(of_queries, queries, length) || !keep_own(of_keys, keys, length))
      without.push_back(item);
  }
  return without;
}

std::vector<SelectedAxis> selected_axes(const Layer& layer, Stage stage,
                                        const Selection& selection) {
  std::vector<SelectedAxis> axes;
  const Dims& dims = layer.dims;
  if (dims.batched) axes.push_back({Axis::batch, dims.B, chosen_items(layer, selection)});
  for (Dim letter : info_of(stage).letters) {
    const Axis axis = axis_of(letter);
    const std::size_t count = dims.size_of(letter);
    switch (axis) {
    case Axis::head:
      axes.push_back({axis, count, resolved(selection.head, count, "heads")});
      break;
    case Axis::kv_head:
      axes.push_back({axis, count, kv_heads(layer, selection.head)});
      break;
    case Axis::query:
      axes.push_back({axis, count, chosen_queries(layer, selection)});
      break;
    case Axis::key:
      axes.push_back({axis, count, picked_tokens(layer, selection, selection.key, count, "keys")});
      break;
    default:
      axes.push_back({axis, count, everything(count)});
      break;
    }
  }
  return axes;
}

void require_axes(const Layer& layer, const std::vector<Stage>& wanted,
                  const Selection& selection) {
  const auto some_stage_has = [&](auto... axis) {
    return std::any_of(wanted.begin(), wanted.end(), [&](Stage stage) {
      const std::vector<Dim>& letters = info_of(stage).letters;
      return std::any_of(letters.begin(), letters.end(),
                         [&](Dim letter) { return ((axis_of(letter) == axis) || ...); });
    });
  };
  const auto refuse = [&](const IndexList& list, std::string_view axis, const Message& cure) {
    fail("{} {}: {} {} no {} axis; {}", list.option(), list.text(), joined_names(wanted),
         wanted.size() == 1 ? "has" : "have", axis, cure);
  };
  const Message by_head = message("select with <head>");
  if (selection.batch && !layer.dims.batched)
    refuse(*selection.batch, "batch", "the input is not batched");
  if (selection.head && !some_stage_has(Axis::head, Axis::kv_head))
    refuse(*selection.head, "head",
           std::ranges::any_of(wanted, is_derived) ? "weights and value_norms show single heads"
                                                   : "head_out and head_result show single heads");
  if (selection.query && !some_stage_has(Axis::query))
    refuse(*selection.query, "query",
           some_stage_has(Axis::key) ? message("select with <key>") : by_head);
  if (selection.key && !some_stage_has(Axis::key))
    refuse(*selection.key, "key",
           some_stage_has(Axis::query) ? message("select with <query>") : by_head);
}

} // namespace mha
