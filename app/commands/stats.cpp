// stats: every head in numbers.

#include "commands/commands.hpp"
#include "describe.hpp"
#include "output.hpp"
#include <mha/ranks/ranks.hpp>
#include <mha/render/stats.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

namespace mha::app {

namespace {

struct Stats {
  Request request;
  MeasureRequest measuring;
  std::vector<std::string> measures, kinds;
  std::string sort;
  std::optional<std::size_t> top, precision;
  bool all = false;
  OutputOptions output;
  Common common;

  int run();

private:
  void check() const;
  std::vector<render::StatsRow> chosen(std::vector<render::StatsRow> rows) const;
  std::string text_of(const std::vector<render::StatsRow>& rows, const std::string& form) const;
  render::Look look() const;
  void tell_once(const std::string& note, Severity severity);
  void tell_sums(const Layer& layer, const std::vector<HeadMeasures>& heads);
  std::set<std::string> told_;
};

/// --sort as it was typed: a measure, or kind, and the direction.
struct Order {
  const Measure* measure = nullptr; ///< nothing: kind
  bool ascending = false;
};
Order order_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon),
                    direction = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (!direction.empty() && direction != "asc" && direction != "desc")
    throw UsageError(fmt::format("--sort {}: '{}' is neither asc nor desc", text, direction));
  Order order;
  if (name != "kind") order.measure = &measure_named(name);
  order.ascending = direction.empty() ? name == "kind" : direction == "asc";
  return order;
}

/// Equal rows stay as they are; heads without the measure come last.
void sort_rows(std::vector<render::StatsRow>& rows, const Order& order) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const render::StatsRow& left, const render::StatsRow& right) {
                     const render::StatsRow &a = order.ascending ? left : right,
                                            &b = order.ascending ? right : left;
                     if (order.measure == nullptr) return a.head.kind < b.head.kind;
                     const auto known = [&](const render::StatsRow& row) {
                       const std::optional<double> value = order.measure->of(row.head);
                       return value && !std::isnan(*value) ? value : std::nullopt;
                     };
                     if (known(left) && known(right)) return *known(a) < *known(b);
                     return known(left).has_value() && !known(right);
                   });
}

/// Mistakes that need no layer to be seen.
void Stats::check() const {
  if (top == std::size_t{0}) throw UsageError("--top is 0: at least 1 expected");
  if (all && !measures.empty()) throw UsageError("--all and --measures: give one of them");
  if (!sort.empty()) order_of(sort);
  for (const std::string& kind : kinds) head_kind_named(kind);
  for (const std::string& name : measures) measure_named(name);
}

std::vector<render::StatsRow> Stats::chosen(std::vector<render::StatsRow> rows) const {
  if (!kinds.empty())
    std::erase_if(rows, [&](const render::StatsRow& row) {
      return std::find(kinds.begin(), kinds.end(), row.head.kind) == kinds.end();
    });
  if (!sort.empty()) sort_rows(rows, order_of(sort));
  if (top && rows.size() > *top) rows.resize(*top);
  return rows;
}

std::string Stats::text_of(const std::vector<render::StatsRow>& rows,
                           const std::string& form) const {
  render::StatsColumns columns;
  for (const std::string& name : measures) columns.push_back(&measure_named(name));
  if (measures.empty())
    for (const Measure& measure : mha::measures()) columns.push_back(&measure);
  if (form != "table") return stats_text(rows, columns, form, precision);

  return measures.empty() && !all ? stats_table(rows, look()) : stats_table(rows, columns, look());
}

render::Look Stats::look() const {
  render::Look look = look_of_output(common.color);
  if (!output.to_standard_output()) look.color = common.color == Color::always;
  return look;
}

/// Every layer would say the same.
void Stats::tell_once(const std::string& note, Severity severity) {
  if (common.strict) fail("{} (an error by --strict)", note);
  if (!common.quiet && told_.insert(note).second) print_note(note, common.color, severity);
}

/// Saved maps may be percentages, logarithms or scores: their measures would be no measures.
void Stats::tell_sums(const Layer& layer, const std::vector<HeadMeasures>& heads) {
  if (!layer.has_given(Stage::weights)) return;
  const auto worst = std::ranges::max_element(heads, std::less<>(), &HeadMeasures::row_sum_error);
  if (worst == heads.end() || !(worst->row_sum_error > 0.01)) return;
  tell_once(fmt::format("the rows of the weights do not sum to 1: off by up to {:.3g}, in head {}. "
                        "A sink or dropout leaves less; more is no softmax (percent, logarithms, "
                        "scores), of which these measures say nothing",
                        *worst->row_sum_error, worst->head),
            Severity::warning);
}

int Stats::run() {
  check();
  const std::string form = text_form(output);
  std::optional<Model> model;
  {
    const Stopwatch watch(common.read_s);
    model.emplace(request);
  }
  measuring.threads = common.threads;
  measuring.ranks = &world();

  // What each file gets: the heads of all layers, unless the path has placeholders.
  std::map<std::string, std::vector<render::StatsRow>> files;
  std::string above;
  for (const std::string& id : model->chosen()) {
    const LoadedLayer loaded = load_layer(*model, id, common);
    if (model->chosen().size() == 1 && form == "table")
      above = headline(*model, loaded, look()) + "\n";
    std::vector<Stage> per_head{Stage::weights};
    for (const PlannedFile& file :
         planned_files(output.path, loaded, measuring.selection, per_head, false)) {
      MeasureRequest measured = measuring;
      measured.selection = file.selection;
      const Stopwatch watch(common.compute_s);
      LayerMeasures found = measure_heads(loaded.layer, measured);
      std::vector<render::StatsRow>& rows = files[file.path];
      for (const std::string& note : found.notes) tell_once(note, Severity::note);
      tell_sums(loaded.layer, found.heads);
      for (HeadMeasures& head : found.heads) rows.push_back({id, std::move(head)});
      tell_overflow(found.overflow, common);
    }
  }
  if (!world().is_first()) return 0;
  bool found_any = false;
  const Stopwatch watch(common.write_s);
  for (auto& [path, rows] : files) {
    rows = chosen(std::move(rows));
    found_any |= !rows.empty();
    TextFile file(path);
    const render::Sink sink = file.sink();
    if (form != "table")
      sink(text_of(rows, form));
    else if (!rows.empty())
      sink(above + text_of(rows, form));
    file.finish();
  }
  if (found_any) return 0;
  if (!common.quiet) print_note("no head is of this kind", common.color);
  return 1;
}

/// "previous-token (previous ≥ 0.5), …": the one list that says what kinds there are.
std::string kinds_help() {
  std::string list = "only heads that look like this; the first of these that holds:";
  for (const HeadKind& kind : head_kinds())
    list +=
        fmt::format("{} {} ({})", &kind == &head_kinds().front() ? "" : ",", kind.name, kind.text);
  return list;
}

template <class List> std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& one : list) names.emplace_back(one.name);
  return names;
}

std::string measures_help() {
  std::string list = "these columns, of";
  for (const Measure& measure : mha::measures())
    list += fmt::format("{} {}", &measure == &mha::measures().front() ? "" : ",", measure.name);
  return list;
}

} // namespace

Run declare_stats(Cli& cli) {
  const auto stats = std::make_shared<Stats>();
  cli.about(
      "One row a head: how it spreads its attention, where it looks, what it adds to the output, "
      "how its blocks of the projections stretch space, and whether a naive softmax would "
      "overflow; kind is a word for what the head looks like. Means are over all queries that may "
      "attend to something, of all batch items. What cannot be computed from what is there is "
      "null, or empty. docs/stats.md has every formula. Exit code 1: no head is of the --kind "
      "asked for.");
  cli.group("Measuring");
  cli.value("--window", "N", stats->measuring.window,
            "tokens to either side of the query that `window` counts; default: 8");
  cli.group("Which rows and columns");
  std::vector<std::string> columns = names_of(mha::measures());
  columns.emplace_back("kind");
  cli.list("--kind", "NAME[,NAME]", stats->kinds, kinds_help()).offers(names_of(head_kinds()));
  cli.value("--sort", "COLUMN[:asc]", stats->sort,
            "rows by a measure, the largest first, or the smallest with :asc; or by kind")
      .offers(columns);
  cli.value("--top", "N", stats->top, "only the first N rows");
  cli.list("--measures", "NAME[,NAME]", stats->measures, measures_help())
      .offers(names_of(mha::measures()));
  cli.flag("--all", stats->all,
           "a table of every measure; the other formats have them all without being asked");
  add_output(cli, stats->output, names_of(render::forms()),
             "a file; {layer}, {batch} and {head} in it write one each; default: standard output");
  cli.value("--precision", "DIGITS", stats->precision,
            "significant digits; default: as many as read back to the same number");
  add_selection(cli, stats->measuring.selection,
                {.batch = true, .head = true, .query = true, .key = false});
  add_layer(cli, stats->request);
  add_common(cli, stats->common);
  cli.example("stats data/quickstart.json", "the measures that tell the most");
  cli.example("stats data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--causal --tokens data/induction/tokens.json",
              "every head of a checkpoint, named for what it looks like");
  cli.example("stats data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' "
              "--causal --tokens data/induction/tokens.json --kind induction --sort induction "
              "--measures induction,previous,max",
              "the induction heads, the clearest first");
  cli.example("stats data/quickstart.json --head 1 --all", "everything about one head");
  cli.example("stats data/induction -f csv --layer 0 --measures rank_q,cond_q,stiefel_q",
              "of the weights alone: no input is needed");
  cli.example("stats data/quickstart.json -o stats.json", "all of it for a program");
  return [stats] {
    const int code = stats->run();
    report_timings(stats->common);
    return code;
  };
}

} // namespace mha::app
