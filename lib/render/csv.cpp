// One number a line: layer,stage,batch,head,row,col,value, then row_token,col_token
// where there are tokens. An axis that a stage does not have leaves its field empty.

#include <mha/render/numbers.hpp>
#include <mha/render/renderers.hpp>
#include <mha/tensor/precision.hpp>

#include <fmt/format.h>

#include <iterator>

namespace mha::render {

namespace {

class Csv : public Renderer {
public:
  Csv(const Options& options, Sink sink, char separator)
      : options_(options),
        sink_(std::move(sink)),
        separator_(separator),
        numbers_(Dialect::csv, options.precision) {}

  void add(const Value& value) override {
    by_precision(value.numbers.dtype(), [&]<class T>(T) { add_as<T>(value); });
  }

private:
  template <class T> void add_as(const Value& value) {
    const T* number = value.numbers.as<T>().data();
    if (options_.matrix) return add_matrix(value, number);
    if (!started_) write_header();
    const std::string start = field(value.layer) + separator_ + field(value.stage) + separator_;
    for (std::size_t b = 0; b < value.batch.count(); ++b)
      for (std::size_t h = 0; h < value.head.count(); ++h)
        for (std::size_t r = 0; r < value.row.count(); ++r) {
          const bool padding = r >= value.row.count_of(b);
          const std::string row = start + position(value.batch, b) + separator_ +
                                  position(value.head, h) + separator_ + position(value.row, r) +
                                  separator_;
          const std::string row_label = field(label(value.row, b, r));
          for (std::size_t c = 0; c < value.col.count(); ++c, ++number) {
            if (padding || c >= value.col.count_of(b)) continue;
            text_ += row;
            if (value.col.exists())
              fmt::format_to(std::back_inserter(text_), "{}", value.col.positions[c]);
            text_ += separator_;
            numbers_.append(text_, *number);
            if (options_.labelled) {
              text_ += separator_;
              text_ += row_label;
              text_ += separator_;
              text_ += field(label(value.col, b, c));
            }
            text_ += '\n';
            if (text_.size() > flush_threshold) flush();
          }
        }
    flush();
  }

  /// Rows of numbers; an empty line between matrices, which readers of such files skip.
  template <class T> void add_matrix(const Value& value, const T* number) {
    // A row value such as row_max is one matrix: a row per head.
    const bool one_matrix = !value.col.exists();
    const std::size_t matrices = value.batch.count() * (one_matrix ? 1 : value.head.count());
    const std::size_t rows = one_matrix ? value.head.count() : value.row.count();
    const std::size_t cols = one_matrix ? value.row.count() : value.col.count();
    for (std::size_t m = 0; m < matrices; ++m) {
      if (started_) text_ += '\n';
      started_ = true;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
          if (c > 0) text_ += separator_;
          numbers_.append(text_, *number++);
        }
        text_ += '\n';
        if (text_.size() > flush_threshold) flush();
      }
    }
    flush();
  }

  void write_header() {
    started_ = true;
    std::string_view names = options_.labelled
                                 ? "layer,stage,batch,head,row,col,value,row_token,col_token\n"
                                 : "layer,stage,batch,head,row,col,value\n";
    for (char c : names) text_ += c == ',' ? separator_ : c;
  }

  std::string field(std::string_view text) const { return separated_field(text, separator_); }
  static std::string position(const Side& side, std::size_t i) {
    return side.exists() ? fmt::format("{}", side.positions[i]) : std::string();
  }
  static std::string_view label(const Side& side, std::size_t b, std::size_t i) {
    const std::vector<std::string>& labels = side.labels_of(b);
    return labels.empty() ? std::string_view() : labels[i];
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }

  Options options_;
  Sink sink_;
  char separator_;
  NumberWriter numbers_;
  std::string text_;
  bool started_ = false;
};

} // namespace

std::unique_ptr<Renderer> make_csv(const Options& options, Sink sink) {
  return std::make_unique<Csv>(options, std::move(sink), ',');
}
std::unique_ptr<Renderer> make_tsv(const Options& options, Sink sink) {
  return std::make_unique<Csv>(options, std::move(sink), '\t');
}

} // namespace mha::render
