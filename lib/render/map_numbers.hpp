#pragma once
// Numbers on the cells of a picture.

#include <mha/render/map.hpp>

namespace mha::render {

/// The numbers of cells as text: all in as many decimals as tell the largest one in three digits.
class CellNumbers {
public:
  explicit CellNumbers(const MapPicture& picture);
  std::string text(double value) const;
  /// Pixels of the side of a cell that holds the widest of them.
  std::size_t side() const { return side_; }

private:
  bool scientific_ = false;
  int decimals_ = 2;
  std::size_t side_ = 0;
};

/// Black or white, whichever is told from a cell's colour.
Rgb ink_on(Rgb ground);

} // namespace mha::render
