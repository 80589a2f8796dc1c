#include <mha/load/slices.hpp>

#include <mha/layer/select.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

constexpr std::string_view all_between = "...";

/// The picks of each axis that a slice names.
std::vector<Pick> picks_of(std::string_view slice, const Shape& shape, const std::string& where) {
  std::vector<std::string> parts;
  for (const std::string_view part : split_at(slice, ','))
    parts.emplace_back(words_of(part).size() == 1 ? words_of(part)[0] : part);
  if (const auto between = std::ranges::find(parts, all_between); between != parts.end()) {
    const auto at = parts.erase(between);
    if (parts.size() < shape.size()) parts.insert(at, shape.size() - parts.size(), ":");
  }
  if (parts.size() > shape.size())
    fail("{}: [{}] names {} axes, the tensor has {}: {}", where, slice, parts.size(), shape.size(),
         to_string(shape));
  std::vector<Pick> picks;
  for (std::size_t i = 0; i < parts.size(); ++i)
    picks.push_back(
        IndexList(parts[i], where).resolve(shape[i], fmt::format("places of axis {}", i), where));
  return picks;
}

} // namespace

Entry sliced(const Entry& entry, std::string_view slice, const std::string& where) {
  const std::vector<Pick> picks = picks_of(slice, entry.shape, where);
  Shape shape;
  for (std::size_t i = 0; i < entry.shape.size(); ++i)
    if (i >= picks.size() || !picks[i].drops_axis)
      shape.push_back(i < picks.size() ? picks[i].indices.size() : entry.shape[i]);
  const auto part = [picks, shape](const std::function<Tensor()>& read) {
    return [read, picks, shape] {
      Tensor tensor = read();
      for (std::size_t i = 0; i < picks.size(); ++i) {
        const std::vector<std::size_t>& indices = picks[i].indices;
        if (indices.size() != tensor.shape()[i] || !std::ranges::is_sorted(indices))
          tensor = at_positions(tensor, i, indices);
      }
      return tensor.reshaped(shape);
    };
  };
  Entry result = entry;
  result.shape = shape;
  result.read = part(entry.read);
  if (entry.steps) result.steps = part(entry.steps);
  return result;
}

} // namespace mha::io
