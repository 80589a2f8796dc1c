// One object, {"weights": {"shape": […], "dtype": "float32", "data": […]}}; as ndjson one object
// per row.

#include <mha/render/json_text.hpp>
#include <mha/render/renderers.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>

namespace mha::render {

namespace {

/// Writes axis `axis` and those within it as nested lists, each row on its own line; the text goes
/// to `sink` whenever it is longer than flush_threshold.
template <class T> void write_nested(JsonText& json, const Sink& sink, std::span<const T> numbers,
                                     const Shape& shape, std::size_t axis, std::size_t& next) {
  if (axis == shape.size()) return json.value(numbers[next++]);
  const bool row = axis + 1 == shape.size();
  json.open_list(row ? Spread() : Spread{"", "\n  ", ""});
  for (std::size_t i = 0; i < shape[axis]; ++i)
    write_nested(json, sink, numbers, shape, axis + 1, next);
  json.close();
  if (json.size() > flush_threshold) sink(json.take());
}

class Json : public Renderer {
public:
  Json(const Options& options, Sink sink)
      : options_(options), sink_(std::move(sink)), json_(options.precision) {
    json_.open_object(on_lines);
  }

  void add(const Value& value) override {
    const Shape& shape = value.numbers.shape();
    json_.key(value.name(options_.several_layers)).object([&] {
      json_.key("shape").list(shape);
      json_.member("dtype", mha::name_of(value.numbers.dtype()));
      const bool one = value.batch.dropped;
      tokens("row_tokens", one ? value.row.of_item(0) : value.row, one);
      tokens("col_tokens", one ? value.col.of_item(0) : value.col, one);
      json_.key("data");
      std::size_t next = 0;
      by_precision(value.numbers.dtype(), [&]<class T>(T) {
        write_nested(json_, sink_, value.numbers.as<T>(), shape, 0, next);
      });
    });
    sink_(json_.take());
  }

  void finish() override {
    json_.close();
    sink_(json_.take() + "\n");
  }

private:
  /// Writes the tokens of an axis; a list for each batch item where several have their own.
  void tokens(std::string_view name, const Side& side, bool one) {
    const auto put = [&](const std::vector<std::string>& list) { json_.list(list); };
    const bool none = std::ranges::all_of(side.of_items, &std::vector<std::string>::empty);
    if (!one && !side.of_items.empty() && !none)
      json_.key(name).list(side.of_items, put);
    else if (!side.labels.empty())
      json_.key(name), put(side.labels);
  }

  Options options_;
  Sink sink_;
  JsonText json_;
};

class Ndjson : public Renderer {
public:
  Ndjson(const Options& options, Sink sink) : sink_(std::move(sink)), json_(options.precision) {}

  void add(const Value& value) override {
    by_precision(value.numbers.dtype(), [&]<class T>(T) { add_as<T>(value); });
  }

private:
  template <class T> void add_as(const Value& value) {
    // The axis within a line: keys, or the queries of a row value such as row_max.
    const bool with_columns = value.col.exists();
    const Side& inside = with_columns ? value.col : value.row;
    const std::size_t lines = with_columns ? value.row.count() : 1;
    const T* number = value.numbers.as<T>().data();
    for (std::size_t b = 0; b < value.batch.count(); ++b)
      for (std::size_t h = 0; h < value.head.count(); ++h)
        for (std::size_t r = 0; r < lines; ++r, number += inside.count()) {
          if (with_columns && r >= value.row.count_of(b)) continue; // padding
          json_.object([&] {
            json_.key("layer").layer(value.layer);
            json_.member("stage", value.stage);
            put("batch", value.batch, b);
            put("head", value.head, h);
            if (with_columns) {
              put("row", value.row, r);
              if (const auto& labels = value.row.labels_of(b); !labels.empty())
                json_.member("row_token", labels[r]);
            }
            if (inside.dropped) put(with_columns ? "col" : "row", inside, 0);
            json_.key("values").list(std::span(number, inside.count_of(b)));
          });
          json_.end_line();
          if (json_.size() > flush_threshold) sink_(json_.take());
        }
    sink_(json_.take());
  }

  void put(std::string_view name, const Side& side, std::size_t i) {
    if (side.exists()) json_.member(name, side.positions[i]);
  }

  Sink sink_;
  JsonText json_;
};

} // namespace

std::unique_ptr<Renderer> make_json(const Options& options, Sink sink) {
  return std::make_unique<Json>(options, std::move(sink));
}
std::unique_ptr<Renderer> make_ndjson(const Options& options, Sink sink) {
  return std::make_unique<Ndjson>(options, std::move(sink));
}

} // namespace mha::render
