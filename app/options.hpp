#pragma once
// Groups of options that several commands share.

#include "cli.hpp"
#include "console.hpp"
#include <mha/layer/select.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/render/json_text.hpp>
#include <mha/schedule/shards.hpp>

namespace mha::app {

/// The layer: SOURCES, --layer, --naming, … and one option per setting, straight into the request.
/// Long: declared after a command's own options, before add_common().
void add_layer(Cli& cli, RunRequest& request, bool required = true);
/// Warnings of options of files that the opened ones leave nothing to do.
std::vector<Note> idle_options(const RunRequest& request, const Sources& sources);
/// What is said of --gguf-order where no file is GGUF.
Note idle_gguf_order();
/// The text that a whole model's layers are computed for: part of add_layer().
/// `numbers`: with --ids.
void add_text(Cli& cli, RunRequest& request, bool numbers = true);
/// What a SOURCE can be, for help.
extern const char* const sources_help;

/// Which selection options a command has.
struct Axes {
  bool batch = true, head = true, query = true, key = true;
};
void add_selection(Cli& cli, Selection& selection, Axes axes = {});
/// The positions that --query means in one of a model's texts, by index or by a token's text.
std::vector<std::size_t> positions_in(const IndexList& list, const Texts& text, std::size_t batch);

/// --stage/-s, as typed; stages_named() turns the words into stages.
void add_stages(Cli& cli, std::vector<std::string>& names);
/// In the order asked for, none twice. "all" is not a stage here. Throws Error.
std::vector<Stage> stages_named(const std::vector<std::string>& names);

/// --part I/N, counted from 1 as GNU parallel and `split` do.
void add_part(Cli& cli, std::optional<Shard>& part);

/// A command's own members of the line of --timings.
using MoreTimings = std::function<void(render::JsonText& json)>;

/// Habits that all commands share.
struct Common {
  Color color = Color::automatic;
  std::size_t threads = 0;
  bool timings = false, strict = false, quiet = false;
  bool progress = true; ///< whether a bar may show how far long computations are
  double read_s = 0, compute_s = 0,
         write_s = 0; ///< filled with Stopwatch, for --timings
  MoreTimings more_timings;
  std::shared_ptr<const LayerCounts> counts;  ///< of the sources that were opened
  std::shared_ptr<const KeptWeights> weights; ///< of a text's model
};
/// --color, --quiet, --strict, and for commands that compute --threads and --timings, whose line
/// is printed when the command has run.
void add_common(Cli& cli, Common& common, bool computes = true);

/// Opens the sources, and reads the texts that there are, in time that is reading.
OpenedModel open_model(const RunRequest& request, Common& common);
/// Reads one layer, whose computation, if it takes long, a bar will show: its notes go to standard
/// error (none with --quiet; with --strict a warning is an error), those of several layers once at
/// the end (layer_notes.hpp), its time to read_s; what computing its input takes, to compute_s.
/// `outline`: see OpenedModel::outline; `parts`: gets its tensors as they are in the files.
LoadedLayer load_layer(OpenedModel& model, const std::string& id, Common& common,
                       bool outline = false, std::vector<Sources::SourceTensor>* parts = nullptr);
/// A bar will show how far the layers are that these sources ask for: the chosen ones, and with a
/// text those before them.
void expect_layers(const OpenedModel& model, const Common& common);
/// What a text's layers took that were computed for others' inputs is no reading.
void count_as_computed(OpenedModel& model, Common& common);
/// A note, unless --quiet.
void print_note(std::string_view message, const Common& common, Severity severity = Severity::note);
/// Says what is to be noted; with --strict a warning is an error.
void report_notes(const std::vector<Note>& notes, const Common& common);
/// Keeps the warnings about layers, until the end; whether there are any.
bool report_warnings(const std::vector<LayerWarnings>& layers, const Common& common);
/// Says that numbers left their type's range, if they did; with --strict it is an error.
void report_overflow(const Message& text, const Common& common);
/// A number of --timings with so many digits after the point.
void add_fixed(render::JsonText& json, std::string_view name, double value, int digits = 6);

} // namespace mha::app
