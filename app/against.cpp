#include "against.hpp"

#include "console.hpp"
#include "retype.hpp"
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/load/source.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/system/references.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mha::app {

void add_against(Cli& cli, std::vector<std::string>& against) {
  Option option;
  option.name = "--against";
  option.value_name = "REF";
  option.help = "the other implementation's stages: a file, a folder, or "
                "STAGE=FILE[:TENSOR][@AXES]; may be repeated. Names used by other tools, tokens "
                "before heads and packed heads are recognised. textbook: compare with "
                "<mha/textbook.hpp>, which computes every stage of attention in float64";
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

/// The first file of a reference that contains token numbers under a name of their own, or "".
std::string file_of_tokens(const std::vector<std::string>& against) {
  for (const std::string& text : against) {
    const io::Source source = io::parse_source(text);
    if (!source.name.empty() || io::mentions_layer(source) || is_textbook(text)) continue;
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
        print_note(
            fmt::format("no text given: using the reference's own, --ids {}", io::shown(path)),
            common);
        return model;
      } catch (const Error&) { // two dumps have no layers to compute
      }
    }
    fail("{}; or compare the whole model: give the reference's text with --text or --ids",
         error.message());
  }
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

namespace {

/// An order is accepted if its cosine with the reference exceeds `similar`, and the other order's
/// by `margin`.
constexpr double similar = 0.5, margin = 0.2;

/// The request with these bindings, which replace those without axes or are added to its files.
RunRequest with_bindings(RunRequest request, const std::vector<std::string>& bindings) {
  for (const std::string& binding : bindings) {
    const std::string typed = binding.substr(0, binding.rfind('@'));
    const auto at = std::ranges::find(request.sources, typed);
    if (at == request.sources.end())
      request.sources.push_back(binding);
    else
      *at = binding;
  }
  return request;
}

/// The smallest cosine between a stage and the reference; 1 if all agree.
double least_cosine(const Diff& found) {
  if (found.equal()) return 1;
  double least = 1;
  for (const StageDiff& row : found.stages) least = std::min(least, row.difference.cosine);
  return least;
}

} // namespace

bool takes_other_order(OpenedModel& model, RunRequest& request, const LoadedLayer& loaded,
                       const Diff* found, const ReferenceFiles& against, Common& common) {
  if (model.texts() || loaded.other_order.empty() || (found && found->equal())) return false;
  const double cosine = found ? least_cosine(*found) : -1;
  try {
    RunRequest other = with_bindings(request, loaded.other_order);
    OpenedModel other_model(other);
    const LoadedLayer turned = other_model.load(loaded.id);
    CommonEffort effort(common);
    const Reference reference = load_readings(turned, against, effort).front();
    const double turned_cosine = least_cosine(diff(turned.layer, reference, {}, common.threads));
    if (turned_cosine == 1 || (turned_cosine > similar && turned_cosine > cosine + margin)) {
      print_note(fmt::format(
                     "the reference has heads and tokens in the other order, which is now used: {}",
                     fmt::join(loaded.other_order, " ")),
                 common);
      request = std::move(other);
      model = std::move(other_model);
      return true;
    }
  } catch (const Error&) { // the other order does not fit the other tensors
  }
  if (cosine < similar)
    print_note(fmt::format("if heads and tokens are stored in the other order, give {}",
                           fmt::join(loaded.other_order, " ")),
               common);
  return false;
}

} // namespace mha::app
