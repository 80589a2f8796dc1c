#include <mha/render/vectors.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mha::render {

namespace {

constexpr std::size_t indent = 2, number_gap = 2, widest_label = 30, narrowest_label = 10;

double length_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (double number : numbers) sum += number * number;
  return std::sqrt(sum);
}

} // namespace

std::size_t VectorGrid::add(std::string label, std::vector<double> numbers, bool with_norm) {
  lines_.push_back({std::move(label), std::move(numbers), with_norm});
  return lines_.size() - 1;
}

void VectorGrid::arrange() {
  std::size_t longest = 0, norm_width = 0;
  for (const Line& line : lines_) {
    // A row of large numbers takes no decimals from another.
    const Rounding rounding(line.numbers, digits_);
    for (double number : line.numbers)
      number_width_ = std::max(number_width_, rounding.text(number).size());
    longest = std::max(longest, line.numbers.size());
    label_width_ = std::max(label_width_, std::min(widest_label, display_width(line.label)));
    if (line.with_norm)
      norm_width = std::max(norm_width, rounded_alone(length_of(line.numbers), digits_).size());
  }

  std::size_t norm = norm_width == 0 ? 0 : number_gap + 4 + norm_width; // "  ‖·‖ 2.31"
  // At least one number fits beside a label.
  std::size_t least = indent + number_gap + number_width_ + norm + (longest > 1 ? 2 : 0);
  if (least + std::min(label_width_, narrowest_label) > text_style_.width && norm > 0)
    least -= std::exchange(norm, 0), norms_below_ = true;
  if (least + label_width_ > text_style_.width)
    label_width_ =
        std::min(label_width_,
                 std::max(narrowest_label, text_style_.width - std::min(text_style_.width, least)));
  const std::size_t used = indent + label_width_ + norm, cell = number_gap + number_width_;
  const std::size_t room = text_style_.width > used ? text_style_.width - used : 0;
  shown_ = std::max<std::size_t>(1, room / cell);
  cut_ = shown_ < longest;
  if (cut_ && room % cell < 2 && shown_ > 1) --shown_; // " …"
  shown_ = std::min(shown_, longest);
}

std::string VectorGrid::line(std::size_t index) const {
  const Line& line = lines_[index];
  const Rounding rounding(line.numbers, digits_);
  std::string text(indent, ' ');
  text += pad_right(shortened(line.label, label_width_), label_width_);
  for (std::size_t i = 0; i < shown_; ++i)
    text += pad_left(i < line.numbers.size() ? rounding.text(line.numbers[i]) : "",
                     number_gap + number_width_);
  if (cut_) text += line.numbers.size() > shown_ ? " …" : "  ";
  if (line.with_norm && !norms_below_)
    return text + text_style_.dim("  ‖·‖ " + rounded_alone(length_of(line.numbers), digits_));
  text.erase(text.find_last_not_of(' ') + 1);
  if (!line.with_norm) return text;
  const std::string norm = "  ‖·‖ " + rounded_alone(length_of(line.numbers), digits_);
  const std::size_t taken = display_width(norm),
                    room = text_style_.width > taken ? text_style_.width - taken : 0;
  text += "\n" + std::string(std::min(indent + label_width_, room), ' ') + text_style_.dim(norm);
  return text;
}

std::string VectorGrid::titles(const std::vector<std::string>& groups,
                               std::size_t per_group) const {
  const std::size_t cell = number_gap + number_width_;
  if (groups.size() < 2 || groups.size() * per_group > shown_) return "";
  std::string text(indent + label_width_, ' ');
  for (const std::string& group : groups) {
    if (display_width(group) + 1 > per_group * cell) return "";
    // Over the group's numbers, right-aligned with its last one.
    text += pad_left(group, per_group * cell);
  }
  return text_style_.dim(text);
}

} // namespace mha::render
