#include <mha/compare/regions.hpp>

#include <algorithm>

namespace mha {

namespace {

/// A reader cannot take in more at once.
constexpr std::size_t most_regions = 16, most_ranges = 64;

/// The regions of one batch item, heads with the same rows grouped.
std::vector<Region> with_heads_together(const RowsByHead& rows, std::size_t item,
                                        std::size_t heads) {
  std::vector<Region> list;
  for (auto at = rows.lower_bound({item, 0}); at != rows.end() && at->first.first == item; ++at) {
    const auto& [wrong, count] = at->second;
    if (wrong.empty()) continue;
    const std::size_t head = at->first.second;
    const auto same =
        list.size() > most_regions ? list.end() : std::ranges::find(list, wrong, &Region::rows);
    if (same != list.end()) {
      append(same->heads, {head, head});
      same->all_rows = same->all_rows && count_of(wrong) == count;
    } else {
      list.push_back({{}, {{head, head}}, wrong, false, false, count_of(wrong) == count});
    }
  }
  for (Region& region : list) region.all_heads = count_of(region.heads) == heads;
  return list;
}

/// The union of all regions' ranges of one kind.
IndexRanges all_of(const std::vector<Region>& list, IndexRanges Region::*kind) {
  std::vector<bool> present;
  for (const Region& region : list)
    for (const IndexRange& range : region.*kind) {
      if (present.size() <= range.last) present.resize(range.last + 1);
      for (std::size_t i = range.first; i <= range.last; ++i) present[i] = true;
    }
  IndexRanges ranges;
  for (std::size_t i = 0; i < present.size(); ++i)
    if (present[i]) append(ranges, {i, i});
  return ranges;
}

/// A region that encloses all.
Region around(const std::vector<Region>& list) {
  Region all;
  all.items = all_of(list, &Region::items), all.heads = all_of(list, &Region::heads);
  all.rows = all_of(list, &Region::rows);
  if (all.rows.size() > most_ranges) all.rows = {{all.rows.front().first, all.rows.back().last}};
  return all;
}

} // namespace

void append(IndexRanges& ranges, IndexRange next) {
  if (!ranges.empty() && ranges.back().last + 1 == next.first)
    ranges.back().last = next.last;
  else
    ranges.push_back(next);
}

std::size_t count_of(const IndexRanges& ranges) {
  std::size_t count = 0;
  for (const IndexRange& range : ranges) count += range.last - range.first + 1;
  return count;
}

Regions regions_of(const RowsByHead& rows, std::size_t items, std::size_t heads) {
  Regions found;
  for (std::size_t item = 0; item < items; ++item)
    for (Region& region : with_heads_together(rows, item, heads)) {
      const bool too_many = found.list.size() > most_regions; // grouping no longer helps
      const auto same = std::ranges::find_if(found.list, [&](const Region& known) {
        return !too_many && known.heads == region.heads && known.rows == region.rows &&
               known.all_rows == region.all_rows;
      });
      if (same == found.list.end()) {
        region.items = {{item, item}};
        found.list.push_back(std::move(region));
      } else {
        append(same->items, {item, item});
      }
    }
  std::size_t ranges = 0;
  for (const Region& region : found.list)
    ranges += region.items.size() + region.heads.size() + region.rows.size();
  if (found.list.size() > most_regions || ranges > most_ranges) {
    found.list = {around(found.list)};
    found.exact = false;
    found.list[0].all_heads = count_of(found.list[0].heads) == heads;
  }
  for (Region& region : found.list) region.all_items = count_of(region.items) == items;
  return found;
}

} // namespace mha
