// Numbers for readers: titled matrices, rounded, labelled, in column groups that fit the width.
// Every number is printed.

#include <mha/naming/tensor_names.hpp>
#include <mha/render/label.hpp>
#include <mha/render/numbers.hpp>
#include <mha/render/renderers.hpp>
#include <mha/tensor/precision.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

constexpr std::size_t widest_row_label = 18, widest_column_label = 10;
std::string quoted_label(std::string_view label) {
  return fmt::format("'{}'", readable(label));
}

/// The position of a side with its label: "3 't9'".
std::string place(const Side& side, std::size_t i) {
  std::string text = fmt::format("{}", side.positions[i]);
  if (!side.labels.empty()) text += fmt::format(" {}", quoted_label(side.labels[i]));
  return text;
}

/// A matrix inside a value: which sides are its rows and columns, and how to find a number.
struct Matrix {
  const Side& rows;
  const Side& cols;
  std::size_t offset, row_stride, col_stride;
};

class ValueTable : public Renderer {
public:
  ValueTable(const Options& options, Sink sink) : options_(options), sink_(std::move(sink)) {}

  void add(const Value& value) override {
    const ColumnFormat format(value.numbers, options_.precision.value_or(default_digits),
                              value.stage == mha::name_of(Stage::experts));
    if (started_) text_ += '\n';
    started_ = true;
    write_title(value);
    const std::size_t rows = value.row.count(), cols = value.col.count(),
                      heads = value.head.count();
    for (std::size_t b = 0; b < value.batch.count(); ++b) {
      const Side row = value.row.without_padding(b), col = value.col.without_padding(b);
      // The heads of a row value such as row_max are columns.
      if (!value.col.exists() && value.head.exists()) {
        write_heading(value, b, std::nullopt);
        write(value.numbers, format, {row, value.head, b * heads * rows, 1, rows});
        continue;
      }
      for (std::size_t h = 0; h < heads; ++h) {
        write_heading(value, b, h);
        write(value.numbers, format, {row, col, (b * heads + h) * rows * cols, cols, 1});
      }
    }
    flush();
  }

private:
  /// "weights · head 0 · 33 × 33 · exp / row_sum"
  void write_title(const Value& value) {
    std::string rest;
    for (const Side* side : {&value.batch, &value.head, &value.row, &value.col})
      if (side->dropped) rest += fmt::format(" · {} {}", name_of(side->axis), place(*side, 0));
    rest += fmt::format(" · {} · {}", shape_text(value.numbers.shape()), value.formula);
    const std::string layer =
        options_.several_layers ? fmt::format("layer {} · ", visible(value.layer)) : "";
    const std::string name = layer + value.stage;
    text_ += options_.text_style.bold(name) +
             options_.text_style.dim(
                 fitted_facts(rest, display_width(name), options_.text_style.width)) +
             "\n";
  }

  /// "batch 1 · head 0", as far as these axes exist.
  void write_heading(const Value& value, std::size_t b, std::optional<std::size_t> h) {
    std::string heading;
    const auto part = [&](const Side& side, std::size_t i) {
      if (side.exists() && !side.dropped)
        heading += fmt::format("{}{} {}", heading.empty() ? "" : " · ", name_of(side.axis),
                               side.positions[i]);
    };
    part(value.batch, b);
    if (h) part(value.head, *h);
    text_ += heading.empty() ? "\n" : "\n" + options_.text_style.bold(heading) + "\n";
  }

  void write(const Tensor& numbers, const ColumnFormat& format, const Matrix& matrix) {
    // The columns of a row value are heads, which the corner names.
    const std::string_view corner =
        matrix.cols.axis == Axis::head || matrix.cols.axis == Axis::kv_head ? "head" : "";
    std::vector<std::string> row_names;
    std::size_t position_width = 0, row_width = corner.size();
    for (std::size_t position : matrix.rows.positions)
      position_width = std::max(position_width, fmt::formatted_size("{}", position));
    for (std::size_t r = 0; r < matrix.rows.count(); ++r) {
      row_names.push_back(matrix.rows.exists()
                              ? fmt::format("{:>{}}", matrix.rows.positions[r], position_width)
                              : "");
      if (!matrix.rows.labels.empty())
        row_names.back() += "  " + shortened(quoted_label(matrix.rows.labels[r]), widest_row_label);
      row_width = std::max(row_width, display_width(row_names.back()));
    }
    for (std::string& name : row_names) name = options_.text_style.dim(pad_right(name, row_width));

    const std::vector<ColumnFormat> formats = formats_of(numbers, format, matrix);
    std::size_t width = 1;
    for (const ColumnFormat& own : formats) width = std::max(width, own.width());
    for (std::size_t position : matrix.cols.positions)
      width = std::max(width, fmt::formatted_size("{}", position));
    for (const std::string& label : matrix.cols.labels)
      width = std::max(width, std::min(display_width(quoted_label(label)), widest_column_label));
    const std::size_t room =
        options_.text_style.width > row_width ? options_.text_style.width - row_width : 0;
    const std::size_t group = std::max<std::size_t>(room / (width + 2), 1);
    for (std::size_t first = 0; first < matrix.cols.count(); first += group) {
      if (first > 0) text_ += '\n';
      const std::size_t last = std::min(first + group, matrix.cols.count());
      write_column_names(matrix.cols, first, last, pad_right(corner, row_width), width);
      for (std::size_t r = 0; r < row_names.size(); ++r) {
        text_ += row_names[r];
        const std::size_t at = matrix.offset + r * matrix.row_stride;
        by_precision(numbers.dtype(), [&]<class T>(T) {
          write_row(numbers.as<T>(), formats, at, matrix.col_stride, first, last, width);
        });
        if (text_.size() > flush_threshold) flush();
      }
    }
  }

  /// One format for all columns, except dimensions whose numbers are much smaller than the largest
  /// ones: beside 10⁸ a column of 0.5 is not 5.000e-01, and beside 362 one of 0.012 is not 0.0.
  std::vector<ColumnFormat> formats_of(const Tensor& numbers, const ColumnFormat& common,
                                       const Matrix& matrix) const {
    std::vector<ColumnFormat> formats(std::max<std::size_t>(matrix.cols.count(), 1), common);
    if (matrix.cols.axis != Axis::width) return formats;
    std::vector<double> column(matrix.rows.count());
    for (std::size_t c = 0; c < matrix.cols.count(); ++c) {
      for (std::size_t r = 0; r < column.size(); ++r)
        column[r] =
            value_at(numbers, matrix.offset + r * matrix.row_stride + c * matrix.col_stride);
      const ColumnFormat own(Tensor::of<double>({column.size()}, column),
                             options_.precision.value_or(default_digits));
      if (!common.suits(own)) formats[c] = own;
    }
    return formats;
  }

  void write_column_names(const Side& side, std::size_t first, std::size_t last,
                          const std::string& corner, std::size_t width) {
    if (!side.exists()) return;
    std::string line = corner;
    for (std::size_t c = first; c < last; ++c)
      line += fmt::format("  {:>{}}", side.positions[c], width);
    text_ += options_.text_style.dim(line) + "\n";
    if (side.labels.empty()) return;
    line.assign(display_width(corner), ' ');
    for (std::size_t c = first; c < last; ++c)
      line += "  " + pad_left(shortened(quoted_label(side.labels[c]), width), width);
    text_ += options_.text_style.dim(line) + "\n";
  }

  /// 0, and −inf of a mask, are dim, so that the other numbers are prominent.
  template <class T> void write_row(std::span<const T> numbers,
                                    const std::vector<ColumnFormat>& formats, std::size_t at,
                                    std::size_t stride, std::size_t first, std::size_t last,
                                    std::size_t width) {
    bool dim = false;
    for (std::size_t c = first; c < last; ++c) {
      const T number = numbers[at + c * stride];
      const bool quiet =
          options_.text_style.color && (number == 0 || (std::isinf(number) && number < 0));
      if (quiet != dim) text_ += quiet ? "\x1b[2m" : "\x1b[0m";
      dim = quiet;
      text_ += "  ";
      formats[c].append(text_, static_cast<double>(number), width);
    }
    text_ += dim ? "\x1b[0m\n" : "\n";
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  Options options_;
  Sink sink_;
  std::string text_;
  bool started_ = false;
};

} // namespace

std::unique_ptr<Renderer> make_table(const Options& options, Sink sink) {
  return std::make_unique<ValueTable>(options, std::move(sink));
}

} // namespace mha::render
