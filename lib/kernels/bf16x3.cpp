#include <mha/kernels/bf16x3.hpp>

#include <mha/kernels/bf16x3_kernels.hpp>
#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/tiled.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <array>

namespace mha {
namespace {

// Less depth (64 … 256), to keep a strip of b in the first cache too, gained nothing: the sums are
// then read and written more often.
constexpr std::size_t block_rows = bf16x3_block_rows, block_depth = 512;
static_assert(bf16x3_rows == cell_side && block_rows % bf16x3_rows == 0);

std::size_t cells_in(std::size_t n) {
  return (n + cell_side - 1) / cell_side;
}

std::size_t blocks_in(std::size_t depth) {
  return (depth + block_depth - 1) / block_depth;
}

/// How many parts of some cells are not all zeros, from the first on; one at least.
std::size_t parts_in(const std::uint16_t* cells, std::size_t count) {
  constexpr std::size_t part_size = cell_side * cell_side;
  std::size_t parts = 1;
  for (std::size_t i = 0; i < count; ++i, cells += cell_size)
    for (std::size_t p = cell_parts - 1; p >= parts; --p) {
      std::uint16_t bits = 0;
      for (std::size_t k = 0; k < part_size; ++k) bits |= cells[p * part_size + k];
      if (bits != 0) parts = p + 1;
    }
  return parts;
}

/// The tile registers of this thread, while it lives.
class Tiles {
public:
  explicit Tiles(const Bf16x3Kernels& kernels) : kernels_(kernels) { kernels_.begin(); }
  ~Tiles() { kernels_.end(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

private:
  const Bf16x3Kernels& kernels_;
};

} // namespace

bool bf16x3_available() {
  return bf16x3_kernels() != nullptr;
}

bool bf16x3_pays(std::size_t rows, std::size_t cols, std::size_t depth) {
  constexpr std::size_t fewest_rows = 64;
  const auto filled = [](std::size_t n) { return 3 * cells_in(n) * cell_side <= 4 * n; };
  return rows >= fewest_rows && filled(cols) && filled(depth) && bf16x3_available();
}

Bf16x3Matrix::Bf16x3Matrix(Matrix<const float> b, bool transposed, std::size_t rows,
                           std::size_t threads)
    : b_(b), transposed_(transposed) {
  if (rows <= bf16x3_as_read) return;
  const std::size_t cols = transposed ? b.rows : b.cols, strips = cells_in(cols);
  const std::size_t strip_size = cells_in(depth()) * cell_size, blocks = blocks_in(depth());
  std::uint16_t* const cells = cells_.room_for(strips * strip_size);
  std::uint8_t* const parts = parts_.room_for(strips * blocks);
  parallel_for(strips, threads, [&](std::size_t s) {
    const std::size_t first = s * cell_side, n = std::min(cell_side, cols - first);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t k = block * block_depth;
      parts[s * blocks + block] =
          static_cast<std::uint8_t>(pack(k, std::min(block_depth, depth() - k), first, n,
                                         cells + s * strip_size + k / cell_side * cell_size));
    }
  });
}

std::size_t Bf16x3Matrix::parts(std::size_t strip, std::size_t first_row, std::size_t rows) const {
  const std::uint8_t* const blocks = parts_.data() + strip * blocks_in(depth());
  const auto [least, most] =
      std::minmax_element(blocks + first_row / block_depth, blocks + blocks_in(first_row + rows));
  return *least == 0 ? 0 : *most;
}

std::size_t Bf16x3Matrix::pack(std::size_t first_row, std::size_t rows, std::size_t first_col,
                               std::size_t cols, std::uint16_t* cells) const {
  const Bf16x3Kernels& set = *bf16x3_kernels();
  const auto pack = transposed_ ? set.pack_right_transposed : set.pack_right;
  const bool fits = pack(part(first_row, rows, first_col, cols).data, b_.stride, rows, cols, cells);
  return fits ? parts_in(cells, cells_in(rows)) : 0;
}

Matrix<const float> Bf16x3Matrix::part(std::size_t first_row, std::size_t rows,
                                       std::size_t first_col, std::size_t cols) const {
  return part_of(b_, transposed_, first_row, rows, first_col, cols);
}

void Bf16x3Matrix::multiply(Matrix<const float> a, std::size_t first_row, std::size_t first_col,
                            Matrix<float> c, bool accumulate) const {
  if (a.cols == 0)
    return multiply_tiled(kernels<float>(), a, part(first_row, 0, first_col, c.cols), transposed_,
                          c, accumulate);
  const Tiles tiles(*bf16x3_kernels());
  for (std::size_t i = 0; i < c.rows; i += block_rows)
    for (std::size_t k = 0; k < a.cols; k += block_depth) {
      const std::size_t rows = std::min(block_rows, c.rows - i);
      const std::size_t depth = std::min(block_depth, a.cols - k);
      multiply_block(a.rows_from(i, rows).cols_from(k, depth), first_row + k, first_col,
                     c.rows_from(i, rows), accumulate || k > 0);
    }
}

void Bf16x3Matrix::multiply_block(Matrix<const float> a, std::size_t first_row,
                                  std::size_t first_col, Matrix<float> c, bool accumulate) const {
  const Bf16x3Kernels& set = *bf16x3_kernels();
  Buffer<std::uint16_t> scratch; // a, split, and a strip of op(b)
  const std::size_t group_size = cells_in(a.cols) * cell_size, groups = cells_in(a.rows);
  std::uint16_t* const left = scratch.room_for((groups + 1) * group_size);
  std::array<bool, block_rows / cell_side> group_splits{};
  const auto group = [&](std::size_t i) { return std::min(cell_side, a.rows - i); };
  for (std::size_t i = 0, g = 0; i < a.rows; i += cell_side, ++g)
    group_splits[g] = set.pack_left(a.row(i), a.stride, group(i), a.cols, left + g * group_size);

  for (std::size_t j = 0; j < c.cols; j += cell_side) {
    const std::size_t strip = (first_col + j) / cell_side, cols = std::min(cell_side, c.cols - j);
    const std::uint16_t* right = left + groups * group_size;
    std::size_t right_parts = 0;
    if (cells_.data()) {
      right = cells_.data() + (strip * cells_in(depth()) + first_row / cell_side) * cell_size;
      right_parts = parts(strip, first_row, a.cols);
    } else {
      right_parts = pack(first_row, a.cols, first_col + j, cols, left + groups * group_size);
    }
    for (std::size_t i = 0, g = 0; i < a.rows; i += cell_side, ++g)
      if (group_splits[g] && right_parts > 0)
        set.multiply(left + g * group_size, right, cells_in(a.cols), right_parts, group(i), cols,
                     c.row(i) + j, c.stride, accumulate);
      else
        multiply_tiled(kernels<float>(), a.rows_from(i, group(i)),
                       part(first_row, a.cols, first_col + j, cols), transposed_,
                       c.rows_from(i, group(i)).cols_from(j, cols), accumulate);
  }
}

} // namespace mha
