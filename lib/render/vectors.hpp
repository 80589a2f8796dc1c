#pragma once
// Vectors, one a line, in one grid: a label, as many numbers as fit, the length.

#include <mha/render/rounding.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// Collects lines first, so that all of them share one width of labels and one of numbers; parts of
/// the text between them are written with `line`.
class VectorGrid {
public:
  VectorGrid(const TextStyle& text_style, std::size_t digits)
      : text_style_(text_style), digits_(digits) {}

  /// Adds a line to the layout; `with_norm` puts ‖·‖ at the end. Returns the line's number.
  std::size_t add(std::string label, std::vector<double> numbers, bool with_norm = true);
  /// Call once all lines are added.
  void arrange();
  /// The text of a line, without its end; ‖·‖ is below where it does not fit beside one number.
  std::string line(std::size_t index) const;
  /// Titles over groups of `per_group` numbers of a line: "head 0   head 1"; "" where they do not
  /// fit.
  std::string titles(const std::vector<std::string>& groups, std::size_t per_group) const;

private:
  struct Line {
    std::string label;
    std::vector<double> numbers;
    bool with_norm;
  };
  TextStyle text_style_;
  std::size_t digits_;
  std::vector<Line> lines_;
  std::size_t label_width_ = 0, number_width_ = 0, shown_ = 0;
  bool cut_ = false;         ///< some line has more numbers than fit
  bool norms_below_ = false; ///< ‖·‖ is below its line, in a window too narrow for both
};

} // namespace mha::render
