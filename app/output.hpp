#pragma once
// The targets of results: --output, --format, and the files that a path with {layer}, {batch} or
// {head} denotes.

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
  std::string format; ///< "": the extension of the path decides
  std::string command;
  std::vector<std::string> formats;  ///< that the command writes; the first is the default
  bool allows_any_extension = false; ///< an unknown extension is part of a name

  bool to_standard_output() const { return path.empty() || path == "-"; }
};
/// The format of an output: --format, else the format of the path's extension, else the first. ""
/// for an unknown extension if these are allowed. Throws UsageError for an unknown extension, or
/// for one of a format that the command does not write.
std::string form_of(const OutputOptions& output);
/// The formats of a result with rows (render::result_forms), and additional ones.
std::vector<std::string> result_formats(std::initializer_list<std::string> more = {});
/// All placeholders of paths. A command replaces some of them.
inline constexpr std::array<std::string_view, 3> all_placeholders{"{layer}", "{batch}", "{head}"};
/// `placeholders`: those that the command replaces. Others in PATH are errors, also misspelt ones.
void add_output(Cli& cli, OutputOptions& output, std::vector<std::string> formats, std::string help,
                std::span<const std::string_view> placeholders = {});
/// Declares --output/-o for a command with one format and any file name.
void add_output_path(Cli& cli, OutputOptions& output, std::string format, std::string help,
                     std::span<const std::string_view> placeholders);

/// Declares --precision for the numbers in CSV, TSV and JSON. If `form` returns another format, the
/// option is an error.
void add_precision(Cli& cli, std::optional<std::size_t>& precision,
                   std::function<std::string()> form);

/// The style of text in an output. A file gets colours only for --color always.
render::TextStyle text_style_of(const OutputOptions& output, Color color);

/// Collects the text of a file; text for standard output is printed at once.
class TextFile {
public:
  explicit TextFile(std::string path) : path_(std::move(path)) {}
  render::Sink sink();
  /// Writes the complete file or nothing.
  void finish();

private:
  std::string path_, text_;
};

/// Writes a text to a file, or prints it if the path is "" or "-".
void write_text(const std::string& path, std::string_view text);

/// Writes named arrays to a file of that format, or to standard output if the path is "" or "-".
void write_arrays(const std::string& path, std::string_view format,
                  const std::vector<std::pair<std::string, Tensor>>& arrays);

/// One of the files that a path with placeholders denotes, and the selection that it gets.
struct PlannedFile {
  std::string path;
  Selection selection;
};
/// The path with {layer} replaced. A layer's name from a file becomes one harmless component.
std::string with_layer(std::string path, const std::string& id);
/// Replaces {layer}, {batch} and {head}: one file for each layer, batch item and head, whose axes
/// are dropped. Creates the folders. Removes stages without such an axis from `stages`; throws
/// Error if none is left, or if the stages were `requested_by_name`. The model's ends have no
/// heads: with {head} they have no files unless they were requested by name. Throws Error for a
/// path that would replace an input, before anything is computed.
std::vector<PlannedFile> planned_files(const std::string& path, const LoadedLayer& loaded,
                                       const Selection& selection, std::vector<Stage>& stages,
                                       bool requested_by_name);
bool mentions(std::string_view path, std::string_view placeholder);
/// The path with {batch} replaced by the number.
std::string with_batch(std::string path, std::size_t batch);

/// The selection for one layer of a run over `layers`. --head and --key apply to the layers'
/// stages; the model's ends, which have neither axis, are shown whole beside them.
Selection selection_of(const LoadedLayer& loaded, const Selection& selection, std::size_t layers);
/// Prints a note on the texts that have none of the selected queries or keys, and so show nothing.
void note_texts_without_selection(const Layer& layer, const Selection& selection,
                                  const Common& common);

/// The stages of --stage for a layer. Also accepts "all" and other common names that denote one
/// stage of this layer. Without names, every available stage.
std::vector<Stage> stages_of(const Layer& layer, const std::vector<std::string>& names);
/// Every available stage. If there is none, throws Error that names what is missing.
StageSet require_some_stages(const Layer& layer);

} // namespace mha::app
