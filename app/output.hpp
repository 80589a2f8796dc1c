#pragma once
// Targets of results: --output, --format, and the files that {layer}, {batch} and {head} in a path
// mean.

#include "options.hpp"
#include <mha/render/renderers.hpp>

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>

namespace mha::app {

/// --output/-o and --format/-f of a command.
struct OutputOptions {
  std::string path;   ///< "" or "-": standard output
  std::string format; ///< "" = the extension of the path decides
  std::string command;
  std::vector<std::string> formats;  ///< that the command writes, the one of standard output first
  bool allows_any_extension = false; ///< an extension of no format is a name: a folder's, a page's

  bool to_standard_output() const { return path.empty() || path == "-"; }
};
/// The format of an output: --format, else what the extension of the path means, else the first.
/// "" for a path without an extension where any is a name. Throws UsageError for an extension that
/// means no format, or one that the command does not write.
std::string form_of(const OutputOptions& output);
/// The forms of a result with rows (render::result_forms), and more.
std::vector<std::string> result_formats(std::initializer_list<std::string> more = {});
/// The placeholders that a path may have: a command fills in some of them.
inline constexpr std::array<std::string_view, 3> all_placeholders{"{layer}", "{batch}", "{head}"};
/// `placeholders`: those that the command fills in. Others in PATH are errors, misspelt ones, too.
void add_output(Cli& cli, OutputOptions& output, std::vector<std::string> formats, std::string help,
                std::span<const std::string_view> placeholders = {});
/// --output/-o alone, of a command with one format, whatever the path is called.
void add_output_path(Cli& cli, OutputOptions& output, std::string format, std::string help,
                     std::span<const std::string_view> placeholders);

/// --precision of the numbers that CSV, TSV and JSON have; tables, pictures and arrays, by `form`,
/// have their own.
void add_precision(Cli& cli, std::optional<std::size_t>& precision,
                   std::function<std::string()> form);

/// How text looks there: colours of a file are those that were asked for, never a terminal's.
render::TextStyle text_style_of(const OutputOptions& output, Color color);

/// The text that one file gets, or standard output at once.
class TextFile {
public:
  explicit TextFile(std::string path) : path_(std::move(path)) {}
  render::Sink sink();
  /// Writes the file, whole or not at all.
  void finish();

private:
  std::string path_, text_;
};

/// Writes a text into a file, or prints it where the path is "" or "-".
void write_text(const std::string& path, std::string_view text);

/// Writes arrays by their names into a file of that format, or to standard output where the path
/// is "" or "-".
void write_arrays(const std::string& path, std::string_view format,
                  const std::vector<std::pair<std::string, Tensor>>& arrays);

/// One file of several that a path with placeholders means, and what of the layer it gets.
struct PlannedFile {
  std::string path;
  Selection selection;
};
/// A path with {layer} filled in: a name that a file gave its layer is one harmless component.
std::string with_layer(std::string path, const std::string& id);
/// {layer}, {batch} and {head} filled in: one file per layer, batch item and head, whose axes are
/// dropped. The folders that such paths name are made. Stages that lack such an axis are taken out
/// of `stages`; throws Error if none is left, or if `named` says that they were asked for by name.
/// Of the model's ends, nothing goes to a path with {head}: no files, unless they were named.
/// Throws Error for a path that would replace an input, before anything is computed.
std::vector<PlannedFile> planned_files(const std::string& path, const LoadedLayer& loaded,
                                       const Selection& selection, std::vector<Stage>& stages,
                                       bool named);
bool mentions(std::string_view path, std::string_view placeholder);
/// A path with one batch item's number filled in.
std::string with_batch(std::string path, std::size_t batch);

/// What of a layer is selected in a run of `layers`: --head and --key choose of the layers' stages;
/// the model's ends beside them, which have neither axis, are taken whole.
Selection selection_of(const LoadedLayer& loaded, const Selection& selection, std::size_t layers);
/// Notes the texts that have none of the selected queries or keys: nothing is shown of them.
void note_texts_without(const Layer& layer, const Selection& selection, const Common& common);

/// The stages of --stage for a layer: "all", or a word of the field that means one stage of this
/// layer, are understood too. Without names, every stage there is.
std::vector<Stage> stages_of(const Layer& layer, const std::vector<std::string>& names);
/// Every stage there is. Throws Error that says what is missing if there is none.
StageSet require_some_stages(const Layer& layer);

} // namespace mha::app
