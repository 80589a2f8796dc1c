#pragma once
// Groups of options that several commands share.

#include "cli.hpp"
#include "console.hpp"
#include <mha/layer/select.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/render/json_text.hpp>
#include <mha/schedule/shards.hpp>

namespace mha::app {

/// Declares the options that describe the layer: SOURCES, --layer, --naming, … and one option for
/// each setting. They are many, so they follow a command's own options and precede add_common().
void add_layer(Cli& cli, RunRequest& request, bool required = true);
/// Warnings about options that have no effect on the opened files.
std::vector<Note> idle_options(const RunRequest& request, const Sources& sources);
/// The warning about --gguf-order if no file is GGUF.
Note idle_gguf_order();
/// Declares the options for the text of a whole model, as part of add_layer(). `numbers`: also
/// --ids.
void add_text(Cli& cli, RunRequest& request, bool numbers = true);
/// The help text on SOURCE.
extern const char* const sources_help;

/// Which selection options a command has.
struct Axes {
  bool batch = true, head = true, query = true, key = true;
};
void add_selection(Cli& cli, Selection& selection, Axes axes = {});
/// The positions that --query selects in one text of a model, by index or by a token's text.
std::vector<std::size_t> positions_in(const IndexList& list, const Texts& text, std::size_t batch);

/// Declares --stage/-s, as typed; stages_named() turns the names into stages.
void add_stages(Cli& cli, std::vector<std::string>& names);
/// The named stages in order, without repetition. "all" is not a stage here. Throws Error.
std::vector<Stage> stages_named(const std::vector<std::string>& names);

/// Declares --part I/N, counted from 1 as GNU parallel and `split` do.
void add_part(Cli& cli, std::optional<Shard>& part);

/// Adds a command's own members to the line of --timings.
using MoreTimings = std::function<void(render::JsonText& json)>;

/// Options and timings that all commands share.
struct Common {
  Color color = Color::automatic;
  std::size_t threads = 0;
  bool timings = false, strict = false, quiet = false;
  bool progress = true; ///< whether a progress bar may be shown
  double read_s = 0, compute_s = 0,
         write_s = 0; ///< filled with Stopwatch, for --timings
  MoreTimings more_timings;
  std::shared_ptr<const LayerCounts> counts;  ///< of the opened sources
  std::shared_ptr<const KeptWeights> weights; ///< of a text's model
};
/// Declares --color, --quiet, --strict, and for commands that compute --threads and --timings,
/// whose line is printed after the command.
void add_common(Cli& cli, Common& common, bool computes = true);

/// Opens the sources and reads the texts. The time is added to read_s.
OpenedModel open_model(const RunRequest& request, Common& common);
/// Reads one layer and announces its computation to the progress bar. Notes are printed unless
/// --quiet is given, those of several layers merged at the end (layer_notes.hpp); with --strict a
/// warning is an error. The time is added to read_s, the time of computing the layer's input to
/// compute_s. `outline`: see OpenedModel::outline; `parts` gets the tensors as stored in the files.
LoadedLayer load_layer(OpenedModel& model, const std::string& id, Common& common,
                       bool outline = false, std::vector<Sources::SourceTensor>* parts = nullptr);
/// Announces to the progress bar the layers that are computed: the chosen ones, and for a text
/// those before them.
void expect_layers(const OpenedModel& model, const Common& common);
/// Moves the time of computing layers as inputs of others from read_s to compute_s.
void count_as_computed(OpenedModel& model, Common& common);
/// Prints a note unless --quiet is given.
void print_note(std::string_view message, const Common& common, Severity severity = Severity::note);
/// Prints notes; with --strict a warning is an error.
void report_notes(const std::vector<Note>& notes, const Common& common);
/// Keeps warnings about layers until the end. Returns whether there are any.
bool report_warnings(const std::vector<LayerWarnings>& layers, const Common& common);
/// Warns about numbers outside their type's range if `text` is not empty; with --strict an error.
void report_overflow(const Message& text, const Common& common);
/// Adds a number of --timings with so many digits after the decimal point.
void add_fixed(render::JsonText& json, std::string_view name, double value, int digits = 6);

} // namespace mha::app
