// stats: measures every head.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "expert_stats.hpp"
#include "figures.hpp"
#include "measure_notes.hpp"
#include "output.hpp"
#include "stats_choice.hpp"
#include "stats_texts.hpp"
#include <mha/ranks/ranks.hpp>
#include <mha/render/stats.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <fmt/ranges.h>

namespace mha::app {

namespace {

/// The rows of each file that is written.
using StatsFiles = std::map<std::string, std::vector<render::StatsRow>>;

struct Stats : StatsChoice {
  RunRequest request;
  MeasureRequest measuring;
  std::optional<std::size_t> precision;
  OutputOptions output;
  FigureOptions figure;
  bool experts = false;
  std::shared_ptr<const std::string> choices; ///< the given options that choose results
  Common common;

  int run();

private:
  void check() const;
  int run_texts();
  int run_experts();
  std::vector<render::StatsRow> chosen(std::vector<render::StatsRow> rows) const;
  bool asks_for_projections(const std::string& form) const;
  std::string text_of(const std::vector<render::StatsRow>& rows, const std::string& form) const;
  render::TextStyle text_style() const;
  void write_picture(const std::string& path, const std::vector<render::StatsRow>& rows,
                     const std::string& picture, const std::string& title) const;
  bool write(StatsFiles& files, const std::string& form, const std::string& picture,
             const std::string& above, const std::string& title);
  void note_once(const std::string& note, Severity severity);
  void warn_of_row_sums(const Layer& layer, const std::vector<HeadMeasures>& heads);
  void note_no_heads() const;
  std::set<std::string> printed_notes_;
  std::size_t too_short_ = 0; ///< heads
};

/// Throws UsageError for options that contradict each other.
void Stats::check() const {
  if (top == std::size_t{0}) throw UsageError("--top is 0: at least 1 expected");
  check_columns();
  if (texts.top_texts && !(request.tokens.empty() && request.key_tokens.empty()))
    throw UsageError(fmt::format("{}: --top-texts shows the tokens of the texts; leave it out",
                                 request.tokens.empty() ? "--key-tokens" : "--tokens"));
  if (!sort.empty()) stats_order_of(sort);
  if (!grid.empty()) measure_named(grid);
  for (const std::string& kind : kinds) head_kind_named(kind);
  columns_asked(); // throws Error for an unknown measure
  if (texts.resume && !texts.asked())
    throw UsageError("--resume needs many texts: --text-file FILE --each-line with --spread, --by "
                     "or --top-texts");
}

/// Whether a column, the order or a picture needs measures of the projections. The default table
/// has them only if nothing else can be measured.
bool Stats::asks_for_projections(const std::string& form) const {
  if (all || (measures.empty() && grid.empty() && !render::is_for_eyes(form))) return true;
  std::vector<const Measure*> named = columns_asked();
  if (!grid.empty()) named.push_back(&measure_named(grid));
  const Measure* const order = sort.empty() ? nullptr : stats_order_of(sort).measure;
  return (order && is_of_projections(*order)) ||
         std::ranges::any_of(named, [](const Measure* one) { return is_of_projections(*one); });
}

std::vector<render::StatsRow> Stats::chosen(std::vector<render::StatsRow> rows) const {
  if (!kinds.empty())
    std::erase_if(rows,
                  [&](const render::StatsRow& row) { return !is_one_of(row.head.kind, kinds); });
  if (!sort.empty()) sort_rows(rows, stats_order_of(sort));
  if (top && rows.size() > *top) rows.resize(*top);
  return rows;
}

std::string Stats::text_of(const std::vector<render::StatsRow>& rows,
                           const std::string& form) const {
  render::StatsColumns columns = columns_asked();
  if (measures.empty()) {
    for (const Measure& measure : mha::measures()) columns.push_back(&measure);
    if (subtract_uniform) columns = all_above_uniform(columns);
  }
  if (render::is_for_eyes(form) && measures.empty() && !all)
    return default_stats(rows, subtract_uniform, form, text_style());
  return form == "table" ? chosen_stats(rows, columns, text_style())
                         : stats_table(rows, columns).as(form, text_style(), precision);
}

render::TextStyle Stats::text_style() const {
  return text_style_of(output, common.color);
}

void Stats::write_picture(const std::string& path, const std::vector<render::StatsRow>& rows,
                          const std::string& picture, const std::string& title) const {
  const Measure* measure = &measure_named(grid);
  if (subtract_uniform) measure = &above_uniform(*measure);
  std::vector<render::GridHead> cells;
  for (const render::StatsRow& row : rows)
    cells.push_back({row.layer, row.head.head, measure->of(row.head)});
  write_grid({path, picture, figure, common.color}, title,
             {render::grid_of(std::string(measure->name), cells)});
}

/// Prints a note once instead of for every layer; with --strict it is an error.
void Stats::note_once(const std::string& note, Severity severity) {
  if (common.strict) fail("{} (an error by --strict)", note);
  if (printed_notes_.insert(note).second) print_note(note, common, severity);
}

/// Warns about given weights that do not sum to 1: percentages, logarithms or scores.
void Stats::warn_of_row_sums(const Layer& layer, const std::vector<HeadMeasures>& heads) {
  if (!layer.has_given(Stage::weights)) return;
  const auto worst = std::ranges::max_element(heads, std::less<>(), &HeadMeasures::row_sum_error);
  if (worst == heads.end() || !(worst->row_sum_error > 0.01)) return;
  note_once(fmt::format("rows of the weights do not sum to 1: off by up to {:.3g}, in head {}. A "
                        "sink or dropout gives a smaller sum; a larger one is not from a softmax "
                        "(percentages, logarithms, scores), and the measures are meaningless",
                        *worst->row_sum_error, worst->head),
            Severity::warning);
}

void Stats::note_no_heads() const {
  const std::string undecided =
      fmt::format("; for {} the text has too few rows to decide", counted(too_short_, "heads"));
  print_note("no head is of this kind" + (too_short_ > 0 ? undecided : ""), common);
}

/// Adds the heads of one layer to their files.
void distribute(const LoadedLayer& loaded, const std::vector<PlannedFile>& planned,
                std::vector<HeadMeasures> heads, StatsFiles& files) {
  const Dims& dims = loaded.layer.dims;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::string>> paths; // of item, head
  const bool by_item = !heads.empty() && heads[0].batch;
  for (const PlannedFile& file : planned) {
    files[file.path];
    const std::size_t item =
        by_item ? resolved(file.selection.batch, dims.B, "batch items").indices[0] : 0;
    for (std::size_t head : resolved(file.selection.head, dims.H, "heads").indices)
      paths[{item, head}].push_back(file.path);
  }
  for (const HeadMeasures& head : heads)
    for (const std::string& path : paths[{head.batch.value_or(0), head.head}])
      files[path].push_back({loaded.id, head});
}

/// --experts: one row for each expert of the layers that have a mixture.
int Stats::run_experts() {
  for (const auto& [given, option] : {std::pair(!grid.empty(), "--grid"),
                                      {!kinds.empty(), "--kind"},
                                      {!measures.empty(), "--measures"},
                                      {!sort.empty(), "--sort"},
                                      {top.has_value(), "--top"},
                                      {subtract_uniform, "--above-uniform"},
                                      {texts.asked(), "--spread, --by and --top-texts"},
                                      {measuring.selection.head.has_value(), "--head"}})
    if (given)
      throw UsageError(fmt::format("--experts: {} applies to heads; leave it out", option));
  write_text(output.path, expert_stats(request, measuring.selection, common)
                              .as(form_of(output), text_style(), precision));
  return 0;
}

/// --by, --spread and --top-texts.
int Stats::run_texts() {
  if (!grid.empty() || !kinds.empty())
    throw UsageError("--grid and --kind apply to heads, not to rows of many texts");
  const StatsOrder order = sort.empty() ? StatsOrder{} : stats_order_of(sort);
  if (!sort.empty() && order.measure == nullptr)
    throw UsageError("--sort kind: rows of many texts are sorted by a measure");
  TextStatsRequest asked{texts,           measuring, {},        subtract_uniform, order.measure,
                         order.ascending, top,       precision, output,           {}};
  asked.columns = columns_asked();
  if (!measures.empty() && asked.columns.empty())
    throw UsageError("--measures kind: the kind is shown beside measures; name at least one");
  figure.check(form_of(output), request, common);
  if (all)
    throw UsageError("--measures all applies to a table of heads; over many texts, CSV, TSV, JSON "
                     "and NDJSON have every measure by head without it");
  asked.settings = fmt::format("stats\n{}{}\n", *choices, request.layer);
  return run_text_stats(request, asked, common);
}

int Stats::run() {
  check();
  if (experts || texts.asked()) return experts ? run_experts() : run_texts();
  const std::string picture = picture_format(output, !grid.empty());
  if (!picture.empty() && grid.empty())
    throw UsageError("a picture of heads shows one measure: --grid entropy");
  const std::string form = picture_or_form(output, !grid.empty());
  figure.check(form, request, common);
  OpenedModel model = open_model(request, common);
  measuring.threads = common.threads, measuring.ranks = &world();
  measuring.projections = asks_for_projections(form);

  // The rows of each file: the heads of all layers, unless the path has placeholders.
  StatsFiles files;
  SinkNote sinks;
  SeparatorWords separators(measuring.separators);
  std::string above, unmeasured;
  bool any_measured = false;
  for (const std::string& id : model.chosen()) {
    const LoadedLayer loaded = load_layer(model, id, common);
    if (model.chosen().size() == 1 && form == "table")
      above = headline(model, loaded, text_style()) + "\n";
    std::vector<Stage> per_head{Stage::weights};
    const std::vector<PlannedFile> planned =
        planned_files(output.path, loaded, measuring.selection, per_head, false);
    // One computation for all files.
    MeasureRequest measured = measuring;
    measured.selection = measuring.selection.placed(loaded.layer);
    measured.each_batch = mentions(output.path, "{batch}");
    measured.compute = model.compute();
    const Stopwatch watch(common.compute_s);
    LayerMeasures found = measure_heads(loaded.layer, measured);
    for (const std::string& note : found.notes) note_once(note, Severity::note);
    separators.search(loaded.layer);
    const bool measures_stages = std::ranges::any_of(
        found.heads, [](const HeadMeasures& head) { return head.entropy || head.result_norm; });
    any_measured |= measures_stages;
    if (!measures_stages) unmeasured += (unmeasured.empty() ? "" : ", ") + id;
    warn_of_row_sums(loaded.layer, found.heads);
    report_overflow(found.overflow, common);
    if (!measured.each_batch) sinks.add(id, found.heads);
    if (planned.size() == 1) {
      std::vector<render::StatsRow>& rows = files[planned[0].path];
      for (HeadMeasures& head : found.heads) rows.push_back({id, std::move(head)});
      continue;
    }
    distribute(loaded, planned, std::move(found.heads), files);
  }
  if (const std::string missing = separators.missing(); !missing.empty())
    note_once(missing, Severity::warning);
  if (!world().is_first()) return 0;
  if (any_measured && !unmeasured.empty())
    note_once("layer " + unmeasured +
                  ": no weights can be computed, so only its projections are measured",
              Severity::note);
  sinks.print(common);
  if (write(files, form, picture, above, title_of(model))) return 0;
  note_no_heads();
  return 1;
}

/// Writes the files. Returns whether any head was written.
bool Stats::write(StatsFiles& files, const std::string& form, const std::string& picture,
                  const std::string& above, const std::string& title) {
  bool found_any = false;
  const Stopwatch watch(common.write_s);
  for (auto& [path, rows] : files) {
    too_short_ +=
        static_cast<std::size_t>(std::ranges::count_if(rows, [](const render::StatsRow& row) {
          return row.head.kind == head_kinds().back().name;
        }));
    rows = chosen(std::move(rows));
    found_any |= !rows.empty();
    if (!picture.empty()) {
      if (!rows.empty()) write_picture(path, rows, picture, title);
      continue;
    }
    if (form != "table")
      write_text(path, text_of(rows, form));
    else
      write_text(path, rows.empty() ? "" : above + text_of(rows, form));
  }
  return found_any;
}

/// The list of kinds: "previous-token (previous ≥ 0.5), …".
std::string kinds_help() {
  std::string list = "show only heads of these kinds; a head has the first kind that applies:";
  for (const HeadKind& kind : head_kinds())
    list +=
        fmt::format("{} {} ({})", &kind == &head_kinds().front() ? "" : ",", kind.name, kind.text);
  return list;
}

std::string measures_help() {
  std::string list = "the columns to show, or all; the measures are";
  for (const Measure& measure : mha::measures())
    list += fmt::format("{} {}", &measure == &mha::measures().front() ? "" : ",", measure.name);
  return list;
}

void add_rows_and_columns(Cli& cli, const std::shared_ptr<Stats>& stats) {
  cli.group("Which rows and columns");
  std::vector<std::string> columns = names_of_rows<std::string>(mha::measures());
  columns.emplace_back("kind");
  cli.list("--kind", "NAME[,NAME]", stats->kinds, kinds_help())
      .offers(names_of_rows<std::string>(head_kinds()));
  cli.value("--sort", "COLUMN[:asc]", stats->sort,
            "sort rows by a measure, the largest first, or the smallest with :asc; or by kind")
      .offers(columns);
  cli.value("--top", "N", stats->top, "show only the first N rows");
  std::vector<std::string> measures = names_of_rows<std::string>(mha::measures());
  measures.insert(measures.begin(), "all");
  cli.list("--measures", "NAME[,NAME]", stats->measures, measures_help())
      .formerly("--all", "all")
      .offers(std::move(measures));
  cli.check([stats] { stats->take_all(); });
  cli.flag("--experts", stats->experts,
           "measure the experts of mixtures instead of heads: how many tokens choose each, its "
           "share of all weights, and the tokens that choose it most");
  cli.flag("--above-uniform", stats->subtract_uniform,
           "subtract the value for uniform weights over the keys that each row may attend to: "
           "previous_above for previous");
}

void add_stats_examples(Cli& cli) {
  cli.example("stats data/quickstart.json", "show the most informative measures");
  cli.example("stats data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--causal --tokens data/induction/tokens.json",
              "list every head of a checkpoint with its kind");
  cli.example("stats data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--causal --tokens data/induction/tokens.json --kind induction --sort induction "
              "--measures induction,previous,max",
              "list the induction heads, the clearest first");
  cli.example("stats data/bard-gpt2 --text 'my love, my good lord' --layer all --grid entropy",
              "draw layers × heads in the terminal, coloured by a measure");
  cli.example(
      "stats data/bard-gpt2 --text 'my love, my good lord' --text 'the king is dead' --layer 0 "
      "--spread --measures previous,entropy_share",
      "show means over texts with standard deviations");
  cli.example("stats data/quickstart.json --head 1 --measures all",
              "show every measure of one head");
  cli.example("stats data/induction -f csv --layer 0 --measures rank_q,cond_q,stiefel_q",
              "measure weights alone, without an input");
  cli.example("stats data/quickstart.json -o stats.json", "write everything for a program");
}

} // namespace

Run declare_stats(Cli& cli) {
  const auto stats = std::make_shared<Stats>();
  stats->choices = cli.choices();
  cli.about(
      "Prints one row for each head: how it spreads its attention, where it looks, what it adds to "
      "the output, how its parts of the projections stretch space, and whether a naive softmax "
      "would overflow; kind classifies the head. Means are over all queries that may attend to a "
      "key, in all batch items. Measures that cannot be computed from the sources are null or "
      "empty. docs/stats.md has every formula. Exit code 1: no head is of the requested --kind.");
  cli.group("Measuring");
  cli.value("--near", "N", stats->measuring.window,
            "number of tokens on either side of the query that `window` counts; default: 8")
      .formerly("--window");
  cli.list("--separators", "TOKEN[,TOKEN]", stats->measuring.separators,
           "the tokens that `separator` counts, written as in the labels; default: [SEP], </s> and "
           "other ends of texts, full stops, commas, colons, semicolons, ? and !, bars, >> and "
           "ends of lines");
  add_rows_and_columns(cli, stats);
  add_text_stats(cli, stats->texts);
  cli.group("Output");
  add_grid_option(cli, stats->grid, names_of_rows<std::string>(mha::measures()));
  add_output(cli, stats->output, result_formats({"text", "png", "svg", "pdf"}),
             "write to a file; {layer}, {batch} and {head} in PATH write one file for each; "
             "default: standard output",
             all_placeholders);
  add_precision(cli, stats->precision,
                [stats] { return picture_or_form(stats->output, !stats->grid.empty()); });
  add_figure(cli, stats->figure, "without --grid, the output is numbers");
  for (const std::string name : {"window", "separator"})
    cli.unused({name == "window" ? "--near" : "--separators"}, [stats, name] {
      return stats->shows(name)
                 ? ""
                 : fmt::format("applies to the measure {}, which is not shown", name);
    });
  add_selection(cli, stats->measuring.selection,
                {.batch = true, .head = true, .query = true, .key = false});
  add_layer(cli, stats->request);
  add_common(cli, stats->common);
  add_stats_examples(cli);
  return [stats] { return stats->run(); };
}

} // namespace mha::app
