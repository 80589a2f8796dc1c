#include "stats_texts.hpp"

#include "measure_notes.hpp"
#include "predicted_places.hpp"
#include "resume.hpp"
#include "text_groups.hpp"
#include <mha/ranks/ranks.hpp>
#include <mha/render/stats.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace mha::app {

namespace {

using render::TextRows;
using render::TextStatsRow;

/// The most tokens in a group whose queries are measured one by one, padding included.
constexpr std::size_t most_tokens_by_query = 2048;

/// The default columns.
constexpr std::string_view usual[] = {"previous",      "first",      "self",       "induction",
                                      "entropy_share", "confidence", "result_norm"};
/// Indices of heads, queries and keys have no mean.
constexpr std::string_view without_mean[] = {"max_query", "max_key", "nearest_head", "max_batch"};

TextRows rows_of(const TextStatsOptions& options) {
  return options.by == "text"       ? TextRows::text
         : options.by == "position" ? TextRows::position
         : options.by == "token"    ? TextRows::token
                                    : TextRows::head;
}

/// Collects the rows of many texts.
class TextStats {
public:
  TextStats(const TextStatsRequest& asked, const std::string& form)
      : asked_(asked), form_(form), stream_(form, asked.precision), file_(asked.output.path) {
    view_.rows = rows_of(asked.options);
    view_.spread = asked.options.spread;
    view_.columns = asked.columns;
    const bool all =
        asked.columns.empty() && view_.rows == TextRows::head && !render::is_for_eyes(form);
    if (all) {
      for (const Measure& measure : measures())
        if (!is_one_of(measure.name, without_mean)) view_.columns.push_back(&measure);
    } else if (asked.columns.empty()) {
      for (const std::string_view name : usual) view_.columns.push_back(&measure_named(name));
      view_.usual = true;
    }
    if (asked.subtract_uniform) view_.columns = all_above_uniform(view_.columns);
    for (const Measure* measure : view_.columns)
      if (is_one_of(measure->name, without_mean))
        throw UsageError(fmt::format(
            "--measures {}: an index of a head, query, key or item has no mean over texts",
            measure->name));
    // The rows of a text are complete with it and can be written at once.
    streams_ = view_.rows == TextRows::text && !render::is_for_eyes(form) &&
               asked.sort == nullptr && !asked.top;
  }

  /// Whether each query is measured separately.
  bool each_query() const {
    return view_.rows == TextRows::position || view_.rows == TextRows::token;
  }

  /// Whether a column or the order is a measure of the projections.
  bool reads_projections() const {
    return (asked_.sort && is_of_projections(*asked_.sort)) ||
           std::ranges::any_of(view_.columns,
                               [](const Measure* measure) { return is_of_projections(*measure); });
  }

  void add(const LoadedLayer& loaded, std::size_t place, std::size_t first_text,
           const HeadMeasures& head) {
    const Layer& layer = loaded.layer;
    const std::size_t item = head.batch.value_or(0), text = first_text + item;
    if (head.query && *head.query >= layer.length_of(item)) return;
    Key key{view_.rows == TextRows::text ? text : 0, place, head.head, 0, {}};
    if (view_.rows == TextRows::position) std::get<3>(key) = *head.query;
    if (view_.rows == TextRows::token) {
      const std::vector<std::string>& tokens = layer.tokens_of(item);
      if (tokens.empty())
        fail("--by token needs a tokenizer, which the model lacks; use --by position");
      std::get<4>(key) = tokens[*head.query];
    }
    const auto [at, is_new] = rows_.try_emplace(key);
    Collected& row = at->second;
    if (is_new) {
      row.row.layer = loaded.id, row.row.head = head.head;
      row.row.number = view_.rows == TextRows::text ? text : std::get<3>(key);
      row.row.token = std::get<4>(key);
      row.row.values.resize(view_.columns.size());
    }
    ++row.row.count;
    if (!head.kind.empty()) ++row.kinds[head.kind];
    for (std::size_t i = 0; i < view_.columns.size(); ++i)
      if (const std::optional<double> value = view_.columns[i]->of(head))
        row.row.values[i].add(*value);
  }

  /// Visits the state after a group, for --resume.
  void visit(RunState& state) {
    file_.visit(state);
    stream_.visit(state);
    state.entries(rows_, [&](Key& key, Collected& collected) {
      auto& [text, place, head, position, token] = key;
      state.field(text).field(place).field(head).field(position).field(token);
      TextStatsRow& row = collected.row;
      row.head = head, row.token = token;
      state.field(row.layer).field(row.number).field(row.count);
      state.list(row.values, [&](MeanSpread& value) { state.field(value); });
      state.entries(collected.kinds,
                    [&](std::string& kind, std::size_t& count) { state.field(kind).field(count); });
    });
  }

  /// Writes the complete rows after a group.
  void end_group() {
    if (streams_) write(take_rows());
  }

  void finish(const render::TextStyle& text_style) {
    std::vector<TextStatsRow> rows = take_rows();
    if (asked_.sort != nullptr) sort(rows);
    if (asked_.top && rows.size() > *asked_.top) rows.resize(*asked_.top);
    if (render::is_for_eyes(form_))
      file_.write(text_stats_for_eyes(rows, view_, form_, text_style));
    else
      write(rows), file_.write(stream_.finish());
    file_.finish();
  }

private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::string>;
  struct Collected {
    TextStatsRow row;
    std::map<std::string, std::size_t> kinds;
  };

  std::vector<TextStatsRow> take_rows() {
    std::vector<TextStatsRow> rows;
    for (auto& [key, collected] : rows_) {
      std::size_t most = 0;
      for (const auto& [kind, count] : collected.kinds)
        if (count > most) most = count, collected.row.kind = kind;
      const auto known = [](const MeanSpread& value) { return value.count > 0; };
      if (each_query() && std::ranges::none_of(collected.row.values, known)) continue;
      rows.push_back(std::move(collected.row));
    }
    rows_.clear();
    return rows;
  }

  void write(const std::vector<TextStatsRow>& rows) {
    file_.write(stream_.add(text_stats_table(rows, view_)));
  }

  void sort(std::vector<TextStatsRow>& rows) const {
    const auto column = std::ranges::find(view_.columns, asked_.sort);
    if (column == view_.columns.end())
      throw UsageError(fmt::format(
          "--sort {0}: the rows have no such column; give --measures {0},…", asked_.sort->name));
    const auto i = static_cast<std::size_t>(column - view_.columns.begin());
    std::ranges::stable_sort(rows, [&](const TextStatsRow& a, const TextStatsRow& b) {
      const std::optional<double> x = a.values[i].mean(), y = b.values[i].mean();
      if (!x || !y) return x.has_value() && !y;
      return asked_.ascending ? *x < *y : *x > *y;
    });
  }

  const TextStatsRequest& asked_;
  std::string form_;
  render::TableStream stream_;
  render::TextStatsView view_;
  GrowingFile file_;
  bool streams_ = false;
  std::map<Key, Collected> rows_;
};

} // namespace

void add_text_stats(Cli& cli, TextStatsOptions& options) {
  cli.group("Many texts: --text-file FILE --each-line, some computed at a time");
  cli.flag("--resume", options.resume,
           "keep the progress in FILE.resume beside --output FILE, and continue from there")
      .chooses = false;
  cli.flag("--spread", options.spread,
           "each measure's mean over the texts with its standard deviation");
  cli.choice(
      "--by", {"head", "text", "position", "token"}, options.by,
      "one row for each head over all texts, or for each text, query position or query token");
  cli.value("--top-texts", "N", options.top_texts,
            "the N texts and positions where one head adds the longest vectors ‖head_result‖ to "
            "the stream; --query 1: excludes the first token");
}

namespace {

/// Throws UsageError for options that have no effect on many texts or contradict them.
void check_text_stats(const RunRequest& request, const TextStatsRequest& asked) {
  if (!request.has_text())
    throw UsageError("--by, --spread and --top-texts need texts: --text-file FILE --each-line, or "
                     "several --text");
  if (asked.options.top_texts && (!asked.options.by.empty() || asked.options.spread))
    throw UsageError("--top-texts has its own rows: --by and --spread have no effect");
  if (asked.options.top_texts == std::size_t{0})
    throw UsageError("--top-texts is 0: at least 1 expected");
  if (asked.measuring.selection.batch)
    throw UsageError(
        "--batch: the rows cover all texts; give only the texts that you want, or leave it out");
  if (world().count() > 1) fail("many texts are computed by one process; run without mpirun");
  for (const std::string_view placeholder : all_placeholders)
    if (mentions(asked.output.path, placeholder))
      throw UsageError(fmt::format("{}: rows of many texts go to one file; leave out {}",
                                   asked.output.path, placeholder));
  require_own_patches(request, "stats over many texts");
}

} // namespace

int run_text_stats(RunRequest request, const TextStatsRequest& asked, Common& common) {
  check_text_stats(request, asked);
  request.keeps_layers = true;
  const std::string form = form_of(asked.output);
  OpenedModel model = open_model(request, common);
  report_notes(model.texts()->notes(), common);
  if (request.text.each_line)
    note_skipped_lines(asked.measuring.selection.query, *model.texts(), common);
  if (asked.options.top_texts) return write_top_texts(model, asked, form, common);
  TextStats stats(asked, form);
  ResumeFile kept(asked.options.resume, asked.output.path);
  const std::size_t done =
      kept.resume([&] { return run_fingerprint(model, asked.settings + form); },
                  [&](RunState& state) { stats.visit(state); });
  bool first = true; // no group has been computed yet
  SeparatorWords separators(asked.measuring.separators);
  // --query selects in each text separately: from its end, or by its words.
  const std::optional<IndexList>& query = asked.measuring.selection.query;
  const TextGroups groups(*model.texts(),
                          query                ? 1
                          : stats.each_query() ? most_tokens_by_query
                                               : most_tokens_by_head,
                          model.chosen().size(), common);
  for (std::size_t n = 0; n < groups.count(); ++n) {
    const TextGroup group = groups.group(n);
    if (group.first < done ||
        (query && positions_in(*query, *group.texts, 0, MissingTokens::skip).empty()))
      continue;
    OpenedModel of_group(model, group.texts);
    for (std::size_t place = 0; place < model.chosen().size(); ++place) {
      Common own = common_of_group(common, first);
      const LoadedLayer loaded = load_layer(of_group, model.chosen()[place], own);
      copy_times(common, own);
      if (place == 0) separators.search(loaded.layer);
      MeasureRequest measured = asked.measuring;
      measured.selection = asked.measuring.selection.placed(loaded.layer);
      measured.compute = of_group.compute();
      measured.selection.batch.reset();
      measured.each_batch = true, measured.each_query = stats.each_query();
      measured.projections = first && stats.reads_projections(), measured.threads = common.threads;
      const Stopwatch watch(common.compute_s);
      const LayerMeasures found = measure_heads(loaded.layer, measured);
      if (first)
        for (const std::string& note : found.notes) print_note(note, common);
      report_overflow(found.overflow, own);
      for (const HeadMeasures& head : found.heads) stats.add(loaded, place, group.first, head);
    }
    first = false;
    stats.end_group();
    kept.keep(group.first + group.texts->lengths().size(),
              [&](RunState& state) { stats.visit(state); });
  }
  if (first && done == 0) fail("--query {}: no text has such a token", query->text());
  if (const std::string missing = separators.missing(); !missing.empty() && done == 0)
    report_notes({warning(missing)}, common);
  const Stopwatch watch(common.write_s);
  stats.finish(text_style_of(asked.output, common.color));
  kept.remove();
  return 0;
}

} // namespace mha::app
