// One object, {"weights": {"shape": […], "dtype": "float32", "data": […]}}; and one object a row.

#include <mha/render/numbers.hpp>
#include <mha/render/renderers.hpp>

#include <iterator>

namespace mha::render {

namespace {

constexpr std::size_t piece = std::size_t{1} << 16;

class Json : public Renderer {
public:
  Json(const Options& options, Sink sink)
      : options_(options), sink_(std::move(sink)), numbers_(Dialect::json, options.precision) {}

  void add(const Value& value) override {
    const Shape& shape = value.numbers.shape();
    text_ += started_ ? ",\n" : "{\n";
    started_ = true;
    text_ += json_quoted(value.name(options_.several_layers)) + ": {\"shape\": [";
    for (std::size_t i = 0; i < shape.size(); ++i)
      fmt::format_to(std::back_inserter(text_), "{}{}", i == 0 ? "" : ", ", shape[i]);
    text_ += fmt::format("], \"dtype\": \"{}\", \"data\": ", mha::name_of(value.numbers.dtype()));
    std::size_t next = 0;
    if (value.numbers.dtype() == DType::f64)
      nest(value.numbers.as<double>(), shape, 0, next);
    else
      nest(value.numbers.as<float>(), shape, 0, next);
    text_ += '}';
    flush();
  }

  void finish() override { sink_(started_ ? "\n}\n" : "{}\n"); }

private:
  /// The elements of axis `axis` and what is inside them, rows on lines of their own.
  template <class T>
  void nest(std::span<const T> numbers, const Shape& shape, std::size_t axis, std::size_t& next) {
    if (axis == shape.size()) {
      numbers_.append(text_, numbers[next++]);
      return;
    }
    const bool row = axis + 1 == shape.size();
    text_ += '[';
    for (std::size_t i = 0; i < shape[axis]; ++i) {
      if (i > 0) text_ += row ? ", " : ",\n  ";
      nest(numbers, shape, axis + 1, next);
    }
    text_ += ']';
    if (text_.size() > piece) flush();
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  Options options_;
  Sink sink_;
  NumberWriter numbers_;
  std::string text_;
  bool started_ = false;
};

class Ndjson : public Renderer {
public:
  Ndjson(const Options& options, Sink sink)
      : sink_(std::move(sink)), numbers_(Dialect::json, options.precision) {}

  void add(const Value& value) override {
    if (value.numbers.dtype() == DType::f64)
      add_as<double>(value);
    else
      add_as<float>(value);
  }

private:
  template <class T> void add_as(const Value& value) {
    // What runs inside a line: the columns, or the queries of a row value such as row_max.
    const bool with_columns = value.col.exists();
    const Side& inside = with_columns ? value.col : value.row;
    const std::size_t lines = with_columns ? value.row.count() : 1;
    const T* number = value.numbers.as<T>().data();
    std::string text;
    for (std::size_t b = 0; b < value.batch.count(); ++b)
      for (std::size_t h = 0; h < value.head.count(); ++h)
        for (std::size_t r = 0; r < lines; ++r) {
          text += '{';
          if (!value.layer.empty())
            text += fmt::format("\"layer\": {}, ", json_quoted(value.layer));
          text += fmt::format("\"stage\": {}", json_quoted(mha::name_of(value.stage)));
          put(text, "batch", value.batch, b);
          put(text, "head", value.head, h);
          if (with_columns) {
            put(text, "row", value.row, r);
            if (!value.row.labels.empty())
              text += ", \"row_label\": " + json_quoted(value.row.labels[r]);
          }
          if (inside.dropped) put(text, with_columns ? "col" : "row", inside, 0);
          text += ", \"values\": [";
          for (std::size_t c = 0; c < inside.count(); ++c) {
            if (c > 0) text += ", ";
            numbers_.append(text, *number++);
          }
          text += "]}\n";
          if (text.size() > piece) sink_(text), text.clear();
        }
    sink_(text);
  }

  static void put(std::string& text, std::string_view name, const Side& side, std::size_t i) {
    if (side.exists())
      fmt::format_to(std::back_inserter(text), ", \"{}\": {}", name, side.positions[i]);
  }

  Sink sink_;
  NumberWriter numbers_;
};

} // namespace

std::unique_ptr<Renderer> make_json(const Options& options, Sink sink) {
  return std::make_unique<Json>(options, std::move(sink));
}
std::unique_ptr<Renderer> make_ndjson(const Options& options, Sink sink) {
  return std::make_unique<Ndjson>(options, std::move(sink));
}

} // namespace mha::render
