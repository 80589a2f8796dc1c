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

namespace mha::app {

void add_against(Cli& cli, std::vector<std::string>& against) {
  Option option;
  option.name = "--against";
  option.value_name = "REF";
  option.help = "a file or folder of stages, or STAGE=FILE[:TENSOR][@AXES]; may be given again. "
                "Names of other tools are understood, tokens first and packed heads too. textbook: "
                "every stage of attention by <mha/textbook.hpp> in float64";
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
