// circuits: what each head's weights do by themselves.

#include "circuit_maps.hpp"
#include "commands/commands.hpp"
#include "describe.hpp"
#include "figures.hpp"
#include "output.hpp"
#include "weights_only.hpp"
#include <mha/circuits/vocabulary.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/render/circuits.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>

namespace mha::app {

namespace {

struct CircuitsCommand {
  RunRequest request;
  Selection selection;
  OutputOptions output;
  FigureOptions figure;
  std::vector<std::string> composition;
  std::string grid, sort;
  std::optional<std::int64_t> offset;
  std::optional<std::size_t> top, precision;
  bool spectrum = false, beyond_random = false;
  Common common;

  int run();
  /// Without a format, a spectrum is printed as CSV.
  bool is_plain_spectrum() const {
    return spectrum && output.format.empty() && output.to_standard_output();
  }

private:
  void check() const;
  void compute(OpenedWeights& opened);
  void write();
  void write_numbers(const std::string& form) const;
  std::string title(OpenedWeights& opened, const LayerProjections& layer);
  void note_omissions(const LayerProjections& layer);

  std::string title_, title_of_pictures_;
  std::vector<HeadCircuits> heads_;
  std::vector<Composition> pairs_;
  std::vector<std::string> printed_notes_;
};

void CircuitsCommand::check() const {
  if (top == std::size_t{0}) throw UsageError("--top is 0: at least 1 expected");
  if (!sort.empty()) circuit_measure_named(sort);
  if (!grid.empty()) circuit_measure_named(grid);
  if (!composition.empty() && (spectrum || !sort.empty() || !grid.empty()))
    throw UsageError("--composition lists pairs of heads, but --spectrum, --sort and --grid apply "
                     "to single heads; give one of them");
  if (!composition.empty() && selection.head)
    throw UsageError("--composition lists every pair of heads: --head has no effect");
  if (beyond_random && composition.empty()) throw UsageError("--above-random needs --composition");
}

std::vector<CompositionKind> kinds_named(const std::vector<std::string>& names) {
  std::vector<CompositionKind> kinds;
  for (const CompositionKind kind : {CompositionKind::q, CompositionKind::k, CompositionKind::v})
    if (is_one_of(name_of(kind), names)) kinds.push_back(kind);
  for (const std::string& name : names)
    if (name != "q" && name != "k" && name != "v")
      throw UsageError(fmt::format("--composition {}: q, k or v expected", name));
  return kinds;
}

std::string CircuitsCommand::title(OpenedWeights& opened, const LayerProjections& layer) {
  std::string text = render::visible(opened.layers().title());
  title_of_pictures_ = title_of(opened.layers());
  const std::vector<std::string>& ids = opened.layers().chosen();
  std::string layers;
  if (ids.size() > 1)
    layers = fmt::format(" · {} layers", ids.size());
  else if (!ids[0].empty())
    layers = " layer " + render::visible(ids[0]);
  text += layers, title_of_pictures_ += layers;
  if (layer.is_rotary) title_of_pictures_ += fmt::format(" · offset {}", offset.value_or(0));
  text += " · QK = W_q W_kᵀ";
  if (layer.is_rotary) text += fmt::format(" at offset {}", offset.value_or(0));
  return text + ", OV = W_v W_o" + (layer.folded ? ", norms' gains folded in" : "") + ", no biases";
}

/// Notes what the measures leave out, once for all layers.
void CircuitsCommand::note_omissions(const LayerProjections& layer) {
  const auto note = [&](const std::string& text) {
    if (is_one_of(text, printed_notes_)) return;
    printed_notes_.push_back(text);
    report_notes({Note(text)}, common);
  };
  if (layer.has_qk_norm)
    note("queries and keys are normalised, so QK is not a single matrix and has no measures");
  if (layer.normalises_output)
    note("blocks normalise the output of attention, or the sum after it; these norms are left out");
  if (layer.is_gated)
    note(
        "a gate, other for each token, multiplies the heads' results before W_o; OV is without it");
  if (!layer.makes_keys)
    note(
        "a layer that takes the keys and values of an earlier one has no W_k and W_v, and so no QK "
        "and OV");
  if (layer.normalises_values && layer.has_ov())
    note("values or the heads' results are normalised; OV is without these norms");
  if (layer.has_ov() && layer.width == 0)
    note("input and output differ in width, so OV has no eigenvalues");
}

void CircuitsCommand::compute(OpenedWeights& opened) {
  const std::vector<CompositionKind> kinds = kinds_named(composition);
  VocabularyProduct vocabulary;
  vocabulary.why = opened.why_no_model();
  if (kinds.empty() && opened.model()) {
    const Stopwatch watch(common.compute_s);
    vocabulary = vocabulary_product(opened.model()->embedding(), opened.model()->last_norm(),
                                    opened.model()->head(), common.threads);
  }
  if (kinds.empty() && vocabulary.W.empty())
    report_notes({Note("no copying: " + vocabulary.why,
                       vocabulary.is_lost ? Severity::warning : Severity::note)},
                 common);
  std::vector<ComposedLayer> layers;
  for (const std::string& id : opened.layers().chosen()) {
    const LoadedLayer loaded = load_layer(opened.layers(), id, common, true);
    const Stopwatch watch(common.compute_s);
    if (const std::string problem = not_finite_text(loaded.layer); !problem.empty())
      report_notes({warning(fmt::format("layer {}: {}", id, problem))}, common);
    const LayerProjections layer = projections_of(loaded.layer, id, offset.value_or(0));
    require_rotary(layer.is_rotary, offset.value_or(0));
    if (title_.empty()) title_ = title(opened, layer);
    note_omissions(layer);
    if (!kinds.empty()) {
      layers.push_back(composed(layer, common.threads));
      continue;
    }
    std::ranges::move(circuits_of(layer, resolved(selection.head, layer.heads, "heads").indices,
                                  vocabulary, common.threads),
                      std::back_inserter(heads_));
  }
  if (kinds.empty()) return;
  if (layers.size() < 2)
    fail("composition needs heads of different layers, but only one layer is chosen; choose "
         "several with --layer");
  const Stopwatch watch(common.compute_s);
  pairs_ = compositions(layers, kinds, common.threads);
  if (pairs_.empty()) fail("no head of these layers composes through {}", composition[0]);
}

void CircuitsCommand::write_numbers(const std::string& asked) const {
  const std::string form = is_plain_spectrum() ? "csv" : asked;
  const render::TextStyle text_style = text_style_of(output, common.color);
  const render::Table table = !composition.empty()         ? render::compositions_table(pairs_)
                              : spectrum && form != "json" ? render::spectra_table(heads_)
                                                           : render::circuits_table(heads_);
  const std::string above =
      form == "table" ? text_style.bold(render::in_lines(title_, text_style.width)) + "\n\n" : "";
  write_text(output.path, above + table.as(form, text_style, precision, render::indented));
}

void CircuitsCommand::write() {
  const Stopwatch watch(common.write_s);
  const std::string picture = picture_format(output, !grid.empty());
  if (picture.empty()) {
    write_numbers(form_of(output));
    return;
  }
  if (!composition.empty()) {
    write_grid({output.path, picture, figure, common.color},
               title_of_pictures_ + (beyond_random ? " · above random" : ""),
               render::compositions_grid(pairs_, beyond_random),
               {.none = "no pair", .columns = 0, .colors = {}});
    return;
  }
  // Without --grid, draw the last measure that a head has, because it is the most useful one.
  const CircuitMeasure* measure = grid.empty() ? nullptr : &circuit_measure_named(grid);
  for (const CircuitMeasure& candidate : circuit_measures())
    if (grid.empty() && std::ranges::any_of(heads_, [&](const HeadCircuits& head) {
          return (head.*candidate.of).has_value();
        }))
      measure = &candidate;
  if (measure == nullptr) fail("no head has a measure to draw");
  std::vector<render::GridHead> cells;
  for (const HeadCircuits& head : heads_)
    cells.push_back({head.layer, head.head, head.*measure->of});
  write_grid({output.path, picture, figure, common.color}, title_of_pictures_,
             {render::grid_of(std::string(measure->name), cells)});
}

int CircuitsCommand::run() {
  check();
  // Errors about the figure are reported before anything is computed.
  figure.check(picture_or_form(output, !grid.empty()), request, common);
  OpenedWeights opened(request, "circuits", common);
  compute(opened);
  if (!sort.empty()) {
    const auto member = circuit_measure_named(sort).of;
    std::ranges::stable_sort(heads_, [&](const HeadCircuits& a, const HeadCircuits& b) {
      if ((a.*member).has_value() != (b.*member).has_value()) return (a.*member).has_value();
      return (a.*member).value_or(0) > (b.*member).value_or(0);
    });
  }
  const bool is_table = !composition.empty() && render::is_for_eyes(form_of(output));
  if (top || is_table)
    std::ranges::stable_sort(
        pairs_, [](const Composition& a, const Composition& b) { return a.value > b.value; });
  const std::size_t most = top.value_or(is_table ? 20 : std::max(heads_.size(), pairs_.size()));
  const std::size_t all = pairs_.size();
  if (heads_.size() > most) heads_.resize(most);
  if (pairs_.size() > most) pairs_.resize(most);
  write();
  if (is_table && !top && all > most)
    print_note(
        fmt::format("the {} largest of {} pairs; --top shows more, -f csv shows all", most, all),
        common);
  return 0;
}

} // namespace

Run declare_circuits(Cli& cli) {
  const auto circuits = std::make_shared<CircuitsCommand>();
  cli.about(
      "Analyses each head's weights independently of any text: QK = W_q W_kᵀ determines which "
      "token attends to which, OV = W_v W_o what is written. Lists effective ranks and largest "
      "singular values of both, the share of positive eigenvalues of OV, and the same between the "
      "embedding and the unembedding, which identifies heads that copy; with --composition, how "
      "much of an earlier head's output a later head reads. docs/circuits.md has every formula.");
  cli.group("Circuits");
  add_offset(cli, circuits->offset);
  cli.list("--composition", "KIND[,KIND]", circuits->composition,
           "list pairs of an earlier and a later head that compose through the later one's queries "
           "(q), keys (k) or values (v), each with the value that random matrices would have; -o "
           "FILE.png draws them")
      .offers(std::vector<std::string>{"q", "k", "v"});
  cli.flag("--above-random", circuits->beyond_random,
           "in pictures of --composition, subtract the value of random matrices");
  cli.flag("--spectrum", circuits->spectrum,
           "print CSV with one line for every singular value of QK and OV and every eigenvalue of "
           "OV; JSON always has them");
  cli.choice("--sort", names_of_rows<std::string>(circuit_measures()), circuits->sort,
             "sort heads by a measure, largest first");
  cli.value("--top", "N", circuits->top,
            "show only the first N rows; for pairs the N largest, default: 20");
  add_grid_option(cli, circuits->grid, names_of_rows<std::string>(circuit_measures()));
  add_selection(cli, circuits->selection,
                {.batch = false, .head = true, .query = false, .key = false});
  add_figure(cli, circuits->figure, "a table has the numbers");
  add_output(
      cli, circuits->output, result_formats({"text", "png", "svg", "pdf"}),
      "write to a file; .png, .svg and .pdf are pictures, text is a picture in the terminal");
  add_precision(cli, circuits->precision, [circuits] {
    const std::string form = picture_or_form(circuits->output, !circuits->grid.empty());
    return circuits->is_plain_spectrum() ? std::string("csv") : form;
  });
  add_layer(cli, circuits->request);
  add_unused_of_weights(cli, [] { return true; });
  cli.unused({"--above-random"}, [circuits] {
    return !circuits->composition.empty() &&
                   picture_format(circuits->output, !circuits->grid.empty()).empty()
               ? std::string("applies to pictures, -o FILE.png or -f text; the other formats have "
                             "both numbers")
               : "";
  });
  add_common(cli, circuits->common);
  cli.example("circuits data/induction-model", "list every head of a model");
  cli.example("circuits data/induction-model --composition k --top 5",
              "find the heads that feed an induction head");
  cli.example("circuits data/bard-gpt2 --grid copying", "draw layers × heads in the terminal");
  cli.example("circuits data/bard-llama --distance 1 -f csv",
              "with rotary embedding: between a token and the preceding one");
  return [circuits] { return circuits->run(); };
}

} // namespace mha::app
