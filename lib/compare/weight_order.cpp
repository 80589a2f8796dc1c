#include <mha/compare/weight_order.hpp>

#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace mha {

namespace {

constexpr std::size_t sketch_size = 16;
using Sketch = std::array<double, sketch_size>;

/// Sums of a row with random signs: similar rows have similar sums.
Sketch sketch_of(std::span<const float> row) {
  Sketch sketch{};
  std::uint64_t state = 0x9e3779b97f4a7c15U;
  for (const float x : row) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    for (std::size_t i = 0; i < sketch_size; ++i) sketch[i] += (state >> (3 * i) & 1) != 0 ? x : -x;
  }
  return sketch;
}

double distance(const Sketch& a, const Sketch& b) {
  double sum = 0;
  for (std::size_t i = 0; i < sketch_size; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/// The largest width of blocks whose rows stay consecutive.
std::size_t block_width(const RowPermutation& order) {
  std::size_t width = order.size();
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i] != order[i - 1] + 1) width = std::gcd(width, i);
  return width;
}

/// Whether blocks of `width` rows stay whole and begin at multiples of it.
bool moves_blocks(const RowPermutation& order, std::size_t width) {
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] % width != i % width || order[i] - i % width != order[i - i % width]) return false;
  return true;
}

std::string list_of(const RowPermutation& order, std::size_t width) {
  constexpr std::size_t most = 12;
  std::string list;
  for (std::size_t i = 0; i < order.size() && i / width < most; i += width)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", order[i] / width);
  return list + (order.size() / width > most ? " …" : "");
}

RowPermutation after(const RowPermutation& first, const RowPermutation& then) {
  RowPermutation order(first.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = first[then[i]];
  return order;
}

} // namespace

RowPermutation half_to_interleaved(std::size_t rows, std::size_t heads) {
  RowPermutation order(rows);
  const std::size_t width = rows / heads, half = width / 2;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t in_head = row % width;
    order[row] = row - in_head + in_head / 2 + in_head % 2 * half;
  }
  return order;
}

RowPermutation inverse(const RowPermutation& order) {
  RowPermutation result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) result[order[i]] = i;
  return result;
}

std::vector<std::size_t> possible_heads(std::size_t rows, const std::vector<std::size_t>& given) {
  constexpr std::size_t narrowest = 4;
  std::vector<std::size_t> heads;
  const auto add = [&](std::size_t n) {
    if (n > 0 && rows % (2 * n) == 0 && rows / n >= narrowest) add_once(heads, n);
  };
  for (const std::size_t n : given) add(n);
  for (std::size_t n = 1; n <= rows / narrowest; ++n) add(n);
  return heads;
}

std::optional<RowPermutation> matching_rows(const NumberRows& a, const NumberRows& b) {
  constexpr std::size_t most_rows = 16384, fewest_columns = 2;
  if (a.rows != b.rows || a.columns != b.columns || a.rows > most_rows ||
      a.columns < fewest_columns)
    return std::nullopt;
  std::vector<Sketch> of_a, of_b;
  for (std::size_t i = 0; i < a.rows; ++i)
    of_a.push_back(sketch_of(a.row(i))), of_b.push_back(sketch_of(b.row(i)));
  // Sorted by the first sum, so that only near rows are compared when rows match exactly.
  RowPermutation sorted(a.rows);
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::sort(sorted, {}, [&](std::size_t i) { return of_a[i][0]; });
  RowPermutation order(a.rows);
  std::vector<bool> taken(a.rows);
  for (std::size_t i = 0; i < b.rows; ++i) {
    double nearest = INFINITY;
    std::size_t found = 0;
    const auto middle = static_cast<std::ptrdiff_t>(
        std::ranges::lower_bound(sorted, of_b[i][0], {},
                                 [&](std::size_t j) { return of_a[j][0]; }) -
        sorted.begin());
    const auto may_go_on = [&](std::ptrdiff_t at) { // false if rows farther on cannot be nearer
      const std::size_t j = sorted[static_cast<std::size_t>(at)];
      const double first = of_a[j][0] - of_b[i][0];
      if (first * first > nearest) return false;
      const double d = distance(of_a[j], of_b[i]);
      if (d < nearest && !taken[j]) nearest = d, found = j;
      return true;
    };
    const auto rows = static_cast<std::ptrdiff_t>(a.rows);
    bool up = true, down = true;
    for (std::ptrdiff_t step = 0; (up || down) && step <= rows; ++step) {
      if (up) up = middle + step < rows && may_go_on(middle + step);
      if (down) down = middle - step - 1 >= 0 && may_go_on(middle - step - 1);
    }
    if (nearest == INFINITY || std::isnan(nearest)) return std::nullopt;
    order[i] = found, taken[found] = true;
  }
  return order;
}

std::string name_of_order(const RowPermutation& order, const std::vector<std::size_t>& heads,
                          const char* what) {
  const std::vector<std::size_t> possible = possible_heads(order.size(), heads);
  const std::string of = std::string(what) == "rows" ? "" : fmt::format(" ({})", what);
  for (const std::size_t n : possible) {
    const RowPermutation turn = half_to_interleaved(order.size(), n), back = inverse(turn);
    const char* s = n == 1 ? "" : "s";
    if (order == turn) return fmt::format("half to interleaved, in {} head{}{}", n, s, of);
    if (order == back) return fmt::format("interleaved to half, in {} head{}{}", n, s, of);
  }
  // The widest blocks that stay whole; else those left after interleaving or its inverse.
  std::size_t widest = 1;
  std::string named;
  const auto name_blocks = [&](const RowPermutation& of_blocks, const char* turned) {
    for (std::size_t width = block_width(of_blocks); width > widest; --width)
      if (order.size() % width == 0 && moves_blocks(of_blocks, width)) {
        widest = width;
        named = fmt::format("{}heads of {} {} in the order {}", turned, width, what,
                            list_of(of_blocks, width));
      }
  };
  name_blocks(order, "");
  if (widest > 1) return named;
  for (const std::size_t n : possible) {
    const RowPermutation turn = half_to_interleaved(order.size(), n);
    name_blocks(after(order, inverse(turn)), "half to interleaved, and ");
    name_blocks(after(order, turn), "interleaved to half, and ");
  }
  constexpr std::size_t narrowest = 4; // fewer rows stay together by chance
  if (widest >= narrowest) return named;
  return fmt::format("{} in another order: {}", what, list_of(order, 1));
}

} // namespace mha
