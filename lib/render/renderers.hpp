#pragma once
// The list of text forms for the numbers of stages. A form is one file in this folder and one line
// in renderers.cpp.

#include <mha/render/text.hpp>
#include <mha/render/value.hpp>

#include <memory>
#include <optional>
#include <span>

namespace mha::render {

struct Options {
  TextStyle text_style;                 ///< for tables
  std::optional<std::size_t> precision; ///< significant digits
  bool matrix = false;                  ///< csv and tsv: bare rows of numbers
  bool labelled = false;                ///< csv and tsv: some layer has tokens
  bool several_layers = false;          ///< names are layers.N.STAGE
};

/// Digits of numbers in tables where no number is given.
inline constexpr std::size_t default_digits = 4;
/// Text is passed to the sink in blocks of about so many bytes.
inline constexpr std::size_t flush_threshold = std::size_t{1} << 16;

/// Writes values as text, one after the other, each at once.
class Renderer {
public:
  virtual ~Renderer() = default;
  virtual void add(const Value& value) = 0;
  /// Writes the end of the text.
  virtual void finish() {}
};

std::unique_ptr<Renderer> make_table(const Options& options, Sink sink);
std::unique_ptr<Renderer> make_csv(const Options& options, Sink sink);
std::unique_ptr<Renderer> make_tsv(const Options& options, Sink sink);
std::unique_ptr<Renderer> make_json(const Options& options, Sink sink);
std::unique_ptr<Renderer> make_ndjson(const Options& options, Sink sink);

struct Form {
  std::string_view name;       ///< "csv"
  std::string_view extensions; ///< ".csv", comma-separated where there are several
  std::unique_ptr<Renderer> (*make)(const Options& options, Sink sink);
};

std::span<const Form> forms();

} // namespace mha::render
