#include "earlier_result.hpp"

#include <mha/files/inputs.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace mha::app {

namespace {

bool is_same(const io::Entry& entry, const io::Item& item) {
  return entry.dtype == item.dtype && entry.shape == item.shape;
}

bool holds(const io::Contents& found, const io::Output& expected) {
  if (found.tensors.size() != expected.items.size()) return false;
  if (found.format == "npy") return is_same(found.tensors[0], expected.items[0]);
  return std::ranges::all_of(expected.items, [&](const io::Item& item) {
    const io::Entry* entry = found.find(item.name);
    return entry && is_same(*entry, item);
  });
}

} // namespace

EarlierResult earlier_result(const std::string& path, const io::Output& expected) {
  if (!std::filesystem::exists(path)) return EarlierResult::none;
  try {
    const io::NotAnInput earlier_output;
    const io::Contents found = io::open(path);
    if (!holds(found, expected)) return EarlierResult::none;
    const bool has_mark = found.format == "npz" || found.format == "safetensors";
    if (!has_mark) return EarlierResult::unmarked;
    return found.run == expected.run ? EarlierResult::marked : EarlierResult::none;
  } catch (const Error&) {
    return EarlierResult::none;
  }
}

std::string skipped_text(const std::vector<std::string>& layers, std::size_t all, bool unmarked) {
  return fmt::format(
      "{} of {} layers were already complete and were skipped: {}{}", layers.size(), all,
      io::ends_of_list(layers),
      unmarked ? " (judged by their sizes: only .npz and .safetensors record input and weights)"
               : "");
}

} // namespace mha::app
