#include "against.hpp"

#include "console.hpp"
#include "layer_reference.hpp"
#include "retype.hpp"
#include <mha/compare/names.hpp>
#include <mha/compare/same_text.hpp>
#include <mha/compare/settle.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/source.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/render/text_table.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/references.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::app {

void add_against(Cli& cli, std::vector<std::string>& against) {
  Option option;
  option.name = "--against";
  option.value_name = "REF";
  option.help = "a file or folder of stages, or STAGE=FILE[:TENSOR][@AXES]; may be given again. "
                "Names of other tools are understood, tokens first and packed heads too";
  option.completes = Completes::files;
  option.repeats = true;
  option.set = [&against](const std::string& text) { against.push_back(text); };
  cli.add(std::move(option));
}

void require_against(std::string_view command, const std::vector<std::string>& against) {
  if (against.empty())
    throw UsageError(fmt::format("{} needs --against REF: a file or folder of another "
                                 "implementation's stages, or STAGE=FILE",
                                 command));
}

namespace {

/// The first file of a reference that holds token numbers, by their own name; "": none does.
std::string file_of_tokens(const std::vector<std::string>& against) {
  for (const std::string& text : against) {
    const io::Source source = io::parse_source(text);
    if (!source.name.empty() || io::mentions_layer(source)) continue;
    for (const io::Entry& entry : io::open(source.path).tensors)
      if (has_word("ids input_ids", last_part(entry.name))) return source.path;
  }
  return "";
}

} // namespace

OpenedModel open_compared(RunRequest& request, const std::vector<std::string>& against,
                          Common& common) {
  try {
    return open_model(request, common);
  } catch (const Error& error) {
    const bool no_text =
        request.layer.empty() && !request.has_text() && refers_to(error.message(), "which layer");
    if (!no_text) throw;
    if (const std::string path = file_of_tokens(against); !path.empty()) {
      RunRequest of_reference = request;
      of_reference.text.ids = {path};
      try {
        OpenedModel model = open_model(of_reference, common);
        request = std::move(of_reference);
        print_note(fmt::format("no text is given: --ids {}, the reference's own", io::shown(path)),
                   common);
        return model;
      } catch (const Error&) { // two dumps, whose layers are computed from nothing
      }
    }
    fail("{}; or compare the whole model: give the text that the reference was computed for, by "
         "--text or --ids",
         error.message());
  }
}

std::optional<WholeModelOfLayer> whole_model_of(const OpenedModel& model) {
  if (!model.texts()) return std::nullopt;
  const Texts& texts = *model.texts();
  const Embedding& embedding = texts.embedding();
  WholeModelOfLayer whole;
  whole.layers = texts.layers().size(), whole.last_norm = texts.model().last_norm().present();
  whole.bare_embedding = embedding.positions.empty() && embedding.types.empty() &&
                         embedding.scale == 1 && !embedding.norm.present();
  whole.attention_returns = texts.model().description().attention_returns;
  whole.mlp_returns = texts.model().description().mlp_returns;
  whole.one_layer = model.chosen().size() == 1 && !model.chosen()[0].empty();
  return whole;
}

SameText require_same_text(const OpenedModel& model, const ReferenceFiles& against) {
  if (!model.texts()) return {};
  const Texts& texts = *model.texts();
  const WholeModel& whole = texts.model();
  SameText same = keep_same_text(
      against, {texts.ids(), &texts.embedding(), whole.causal(), whole.pad(), texts.lengths()});
  if (!same.why.empty()) fail("<against> {}", same.why);
  return same;
}

std::string coverage_text(const Coverage& coverage, const render::TextStyle& text_style) {
  std::string text = fmt::format("compared: {}", coverage.compared());
  if (const std::vector<std::string> left = coverage.not_compared(); !left.empty())
    text += fmt::format("; not compared: {}", fmt::join(left, ", "));
  if (const std::vector<std::string> left = coverage.passed_over(); !left.empty())
    text += fmt::format("; passed over: {}", fmt::join(left, ", "));
  std::string out;
  for (const std::string& line : render::wrapped(render::visible(text), text_style.width))
    out += text_style.dim(line) + "\n";
  return out;
}

void require_layer_of_stages(const ReferenceFiles& against, std::size_t layers) {
  if (layers < 2) return;
  const auto refuse = [&](const std::string& where, const std::string& stage) {
    fail("<against> {}: {} of which layer? {} are compared: layers.N.{} is expected, or {{layer}} "
         "in the path; or choose one with <layer>",
         io::shown(where), io::shown(stage), layers, io::shown(stage));
  };
  const auto says = [](const std::string& name) {
    return naming::layer_number(name) || without_layer_suffix(name).second;
  };
  for (const std::string& text : against.texts()) {
    const io::Source source = io::parse_source(text);
    if (io::mentions_layer(source) || source.axes.find('L') != std::string::npos) continue;
    if (!source.name.empty() && !says(source.name)) refuse(text, source.name);
    if (!source.name.empty()) continue;
    for (const io::Entry& entry : against.open(source.path)->contents().tensors)
      if (!says(entry.name) && !result_stages(entry.name).empty() &&
          !is_of_model(result_stages(entry.name).front()))
        refuse(text, entry.name);
  }
}

std::vector<Reference> load_readings(const LoadedLayer& loaded, const ReferenceFiles& against,
                                     Effort& effort, const WholeModelOfLayer* model) {
  Reference reference = read_or_compute(loaded, against, effort, model);
  if (!model && reference.stages.empty() && reference.ambiguous.empty())
    fail("<against>: no stage of this layer's shape is in it: {}",
         joined_texts(reference.not_compared, "; ", &NotCompared::text));
  std::vector<Reference> readings;
  effort.compute_s +=
      seconds_of([&] { readings = settled(loaded.layer, std::move(reference), effort.threads); });
  return readings;
}

void report_reading(const Reference& reference, Common& common, bool notes, bool warnings) {
  if (common.strict && !reference.doubts.empty())
    fail("--against: {} (an error by --strict)", reference.doubts[0]);
  if (!reference.not_compared.empty()) {
    const std::string heads = reference.about_heads();
    const std::string text =
        "--against: " + (heads.empty() ? "not compared: " + joined_texts(reference.not_compared,
                                                                         "; ", &NotCompared::text)
                                       : heads);
    if (common.strict) fail("{} (an error by --strict)", text);
    if (warnings) print_note(text, common, Severity::warning);
  }
  if (notes)
    for (const std::string& note : reference.notes) print_note(note, common);
}

std::string retyped_against(const std::vector<std::string>& against) {
  std::string words;
  for (const std::string& source : against) words += " --against " + shell_word(source);
  return words;
}

} // namespace mha::app
