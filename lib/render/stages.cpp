#include <mha/render/stages.hpp>

#include <mha/compare/names.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/formula.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <iterator>

namespace mha::render {

namespace {

/// A lone layer has no residual stream around it.
bool hides(const Layer* layer, Stage stage) {
  return layer && !layer->block && !layer->ends && is_stream(stage);
}

/// The stage's row of the table as the layer has it: with tokens as columns its last axes are
/// exchanged, and products are written from the other side.
StageInfo info_in(const Layer* layer, const StageInfo& row) {
  StageInfo info = row;
  if (!layer || !layer->settings.columns) return info;
  info.value = general_formula(row.stage, true);
  if (row.kind != Kind::row) std::iter_swap(info.letters.end() - 1, info.letters.end() - 2);
  return info;
}

constexpr std::string_view letters_legend =
    "B batch · T queries · S keys (with past, extra and zero ones in the maps) · H query heads · "
    "H_kv key/value "
    "heads · d_model width of input and output · d_k, d_v widths of one head";

// The page around the tables, in Markdown: one paragraph a line.
constexpr std::string_view markdown_start =
    R"(# Stages

Every step of multi-head attention, in the order of the computation. This page is what `mha-inspect stages --format markdown` prints; with a layer (`mha-inspect stages layer.npz`) the command also shows each stage's size there.

- **T**, **S**: query tokens, key tokens. In self-attention they are the same. From `k_all` on, S counts every key: past, current, extra and zero ones.
- **H**, **H_kv**: query heads, key/value heads. Query head h reads key/value head ⌊h · H_kv / H⌋.
- **d_model**: the width of the input and of the output. **d_k**, **d_v**: the width of one head's queries and keys, of its values.
- **r_q**, **r_kv**, **d_pe**: the widths of latent attention's compressed queries, of its compressed keys and values, of the part of the key that all heads share.

A batch axis comes before all others exactly when the input has one. With `columns`, the last two axes of every stage are exchanged, but for `row_max`, `row_sum` and `logsumexp`.

Where a layer lacks a step, the step's input takes its place: without rotary embedding, `scores` is computed from `q`; without latent attention, `q`, `k` and `v` from `x`. Any stage may be given as a tensor (`weights=patched.npy`); nothing before it is needed then, and everything after it follows.

)";
constexpr std::string_view markdown_derived = R"(
## Made of several heads or layers

Made of whole stages, in float64, where they are named (`-s rollout`); never given, and not patched.

| stage | shape | value | what it is | computed from |
|---|---|---|---|---|
)";
constexpr std::string_view markdown_names = R"(
## Names in other tools

Understood wherever a stage or a tensor is named, also after a prefix such as `blocks.0.attn.`, and never printed.

| stage | also called |
|---|---|
)";
constexpr std::string_view markdown_ambiguous = R"(
## Words that mean several things

Tools disagree about these. They are refused with a message that names the choices (`attn_weights` may be scaled or weights), unless the layer has only one of them and `--stage` asks for it. A tensor of such a name in a file is skipped with a note.

| word | may be |
|---|---|
)";
constexpr std::string_view markdown_results = R"(
## Names of results

Names under which other code saves its results. `diff` and `diagnose` understand these in a reference, beside the names above; among the inputs of a layer they mean other things (`q_proj` is a weight there). A number after a name (`Qcur-0`, as in llama.cpp) is the layer's.

| stage | words |
|---|---|
)";

std::string either(const std::vector<Stage>& stages) {
  return "`" + joined_names(stages, "` or `") + "`";
}

/// The table of the names of results, one row per meaning.
std::string result_rows() {
  std::string out, words;
  std::vector<Stage> meaning;
  const auto end_row = [&] {
    if (!words.empty()) out += fmt::format("| {} |{} |\n", either(meaning), words);
    words.clear();
  };
  for (const auto& [word, stages] : result_words()) {
    if (stages != meaning) end_row();
    meaning = stages;
    words += fmt::format(" `{}`", word);
  }
  end_row();
  return out;
}

std::string stages_report(const Layer* layer, const TextStyle& text_style) {
  const StageSet available = layer ? available_stages(*layer) : StageSet();
  std::vector<Table::Column> columns{{"stage"}, {.title = "shape", .shrinks = true, .wraps = true}};
  if (layer) columns.push_back({.title = "here", .shrinks = true, .wraps = true});
  columns.push_back({.title = "value", .shrinks = true, .wraps = true});
  columns.push_back({.title = "when", .shrinks = true, .dim = true, .wraps = true});
  Table grid(std::move(columns));
  for (const StageInfo& of_table : stages()) {
    if (hides(layer, of_table.stage)) continue;
    const StageInfo info = info_in(layer, of_table);
    std::vector<Cell> row{std::string(info.name), joined_names(info.letters, " × ")};
    if (layer)
      row.push_back(contains(available, info.stage) ? shape_text(layer->shape_of(info.stage))
                                                    : "–");
    row.insert(row.end(), {std::string(info.value), std::string(info.part)});
    grid.add(std::move(row));
  }
  Table aliases({{""}, {"", false, true, false, true}});
  for (const StageInfo& info : stages())
    if (!info.aliases.empty() && !hides(layer, info.stage))
      aliases.add({std::string(info.name), std::string(info.aliases)});
  Table derived({{""}, {"", false, true, false, true}});
  for (const StageInfo& info : derived_stages())
    derived.add({std::string(info.name), std::string(info.value)});
  std::string out =
      grid.text(text_style) + "\n" + text_style.bold("also called") + "\n" +
      aliases.text(text_style, 2) + "\n" +
      text_style.bold(
          in_lines("made of several heads or layers, where they are named", text_style.width)) +
      "\n" + derived.text(text_style, 2) + "\n";
  for (const std::string& line : wrapped(letters_legend, text_style.width))
    out += text_style.dim(line) + "\n";
  return out;
}

Table stages_table(const Layer* layer) {
  const StageSet available = layer ? available_stages(*layer) : StageSet();
  std::vector<StageInfo> shown;
  for (const StageInfo& info : stages())
    if (!hides(layer, info.stage)) shown.push_back(info_in(layer, info));
  std::ranges::copy(derived_stages(), std::back_inserter(shown));
  const auto names = [](const auto& list) {
    std::vector<std::string> words;
    for (const auto& item : list) words.emplace_back(mha::name_of(item));
    return Cell::list(std::move(words));
  };
  const auto column = [](const char* title, std::function<Cell(const StageInfo&)> get) {
    return ColumnOf<StageInfo>{{.title = title}, std::move(get)};
  };
  ColumnsOf<StageInfo> columns{
      column("name", [](const StageInfo& info) { return Cell(info.name); }),
      column("letters", [&](const StageInfo& info) { return names(info.letters); })};
  if (layer)
    columns.push_back(column("shape", [&](const StageInfo& info) {
      const bool has_stage = is_derived(info.stage) ? can_compute(*layer, info.stage, available)
                                                    : contains(available, info.stage);
      return has_stage ? Cell::shape(layer->shape_of(info.stage)) : Cell();
    }));
  columns.insert(columns.end(),
                 {column("value", [](const StageInfo& info) { return Cell(info.value); }),
                  column("text", [](const StageInfo& info) { return Cell(info.text); }),
                  column("part", [](const StageInfo& info) { return Cell(info.part); }),
                  column("inputs", [&](const StageInfo& info) { return names(info.inputs); }),
                  column("aliases", [](const StageInfo& info) {
                    const std::vector<std::string_view> words = words_of(info.aliases);
                    return Cell::list({words.begin(), words.end()});
                  })});
  return table_of(shown, std::move(columns));
}

std::string stages_markdown(const Layer* layer) {
  const StageSet available = layer ? available_stages(*layer) : StageSet();
  const std::string_view here = layer ? " here |" : "", rule = layer ? "---|" : "";
  std::string out =
      std::string(markdown_start) +
      fmt::format("| stage | shape |{} value | what it is | computed from | part of a layer |\n"
                  "|---|---|{}---|---|---|---|\n",
                  here, rule);
  for (const StageInfo& of_table : stages()) {
    if (hides(layer, of_table.stage)) continue;
    const StageInfo info = info_in(layer, of_table);
    const std::string inputs = "`" + joined_names(info.inputs, "` `") + "`";
    out += fmt::format("| `{}` | {} |", info.name, joined_names(info.letters, ", "));
    if (layer)
      out += fmt::format(
          " {} |", contains(available, info.stage) ? shape_text(layer->shape_of(info.stage)) : "–");
    out += fmt::format(" {} | {} | {} | {} |\n", info.value, info.text,
                       info.inputs.empty() ? "X" : inputs, info.part);
  }
  out += markdown_derived;
  for (const StageInfo& info : derived_stages())
    out +=
        fmt::format("| `{}` | {} | {} | {} | `{}` |\n", info.name, joined_names(info.letters, ", "),
                    info.value, info.text, joined_names(info.inputs, "` `"));
  out += markdown_names;
  for (const StageInfo& info : stages())
    if (!info.aliases.empty() && !hides(layer, info.stage))
      out +=
          fmt::format("| `{}` | `{}` |\n", info.name, joined_texts(words_of(info.aliases), "` `"));
  out += markdown_ambiguous;
  for (std::string_view word : ambiguous_words())
    out += fmt::format("| `{}` | {} |\n", word, either(readings_of(word)));
  return out + std::string(markdown_results) + result_rows();
}

} // namespace

std::string stages_text(const Layer* layer, std::string_view form, const TextStyle& text_style) {
  if (form == "table") return stages_report(layer, text_style);
  if (form == "markdown") return stages_markdown(layer);
  return stages_table(layer).as(form, text_style, {}, indented);
}

} // namespace mha::render
