// info: lists the contents of files, the detected layers and the settings in effect.

#include "commands/commands.hpp"
#include "inventory.hpp"
#include "layer_notes.hpp"
#include "output.hpp"
#include <mha/load/as_naming.hpp>
#include <mha/load/draft_naming.hpp>
#include <mha/load/read_description.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/ranges.h>

namespace mha::app {

namespace {

struct Info {
  RunRequest request;
  OutputOptions output;
  bool headers = false, schema = false, as_naming = false;
  std::shared_ptr<const std::vector<std::string>> given; ///< options
  std::vector<std::string> of_layer;                     ///< options that concern one layer
  Common common;

  int run();

private:
  int print_description();
  void note_unused(const Inventory& inventory) const;
  std::string description_of(const Sources& sources) const;
};

/// The description of the model's family, or a draft if no family of whole models has these names.
std::string Info::description_of(const Sources& sources) const {
  const auto draft = [&]() -> std::optional<std::string> {
    for (const io::Contents& file : sources.contents())
      if (std::optional<std::string> text = draft_naming(file)) {
        print_note("a draft from names and shapes: check block, activation, norm, causal, "
                   "num_heads, the order of fused queries, keys and values, and factors of the "
                   "embedding against the model's code, then compare a layer with diff",
                   common);
        return text;
      }
    return std::nullopt;
  };
  const bool described = !sources.found().empty() && sources.found()[0].group.description;
  const bool whole = described || (!sources.found().empty() &&
                                   naming::has_whole_model(*sources.found()[0].family));
  if (!whole)
    if (std::optional<std::string> text = draft()) return *std::move(text);
  try {
    return mha::as_naming(sources);
  } catch (const Error& error) {
    std::optional<std::string> text = described ? std::nullopt : draft();
    if (!text) throw;
    print_note(fmt::format("not the description of its family: {}", console_text(error)), common);
    return *std::move(text);
  }
}

/// Prints the schema of --naming FILE.json, or the model's family as such a description.
int Info::print_description() {
  if (schema && as_naming)
    throw UsageError("--schema and --as-naming contradict each other; give one of them");
  if (schema && !request.sources.empty())
    throw UsageError("--schema does not depend on a model: it takes no SOURCE");
  if (as_naming && request.sources.empty()) throw UsageError("--as-naming needs a SOURCE");
  std::string reason;
  const std::string text =
      schema ? description_schema() : description_of(open_one_or_all(request, reason).sources());
  write_text(output.path, text);
  return 0;
}

/// Notes options without effect: labels are not listed, settings and stages are those of one layer.
void Info::note_unused(const Inventory& inventory) const {
  if (common.quiet) return;
  const bool one = !inventory.headline.empty();
  std::vector<std::string> idle;
  for (const std::string& name : *given) {
    const bool labels = name == "--tokens" || name == "--key-tokens";
    if (labels || (!one && is_one_of(name, of_layer))) idle.push_back(name);
  }
  if (idle.empty()) return;
  print_note(fmt::format("{}: no effect on the list{}", fmt::join(idle, ", "),
                         one ? "; `show` prints labels"
                             : ", because no single layer is listed; choose one with --layer"),
             common.color);
}

int Info::run() {
  if (schema || as_naming) return print_description();
  if (request.sources.empty()) throw UsageError("info needs a SOURCE");
  Inventory inventory = [&] {
    const Stopwatch watch(common.read_s);
    return take_inventory(request, !headers, common.threads);
  }();
  if (common.strict) require_no_warning(inventory.notes);
  if (common.strict && !inventory.findings.empty())
    fail("{} (an error by --strict)", inventory.findings[0].text);
  note_unused(inventory);
  write_text(output.path,
             inventory_text(inventory, form_of(output), text_style_of_output(common.color)));
  return 0;
}

} // namespace

Run declare_info(Cli& cli) {
  const auto info = std::make_shared<Info>();
  cli.about("Lists every tensor of the files with its type, shape and range, the detected layers "
            "and the naming they follow, the origin of each tensor of the chosen layer, and the "
            "settings in effect with their origins. Likely mistakes are listed as worth a look; "
            "with --strict they are errors. Files without a layer are also listed.");
  add_output(cli, info->output, result_formats(), "write to a file");
  cli.flag("--headers", info->headers,
           "list only names, types and shapes, without reading numbers");
  cli.flag("--no-values", info->headers, "the same as --headers");
  cli.flag(
      "--as-naming", info->as_naming,
      "print the naming of the model as a description for --naming, or a draft for unknown names");
  cli.flag("--schema", info->schema, "print the JSON schema of such descriptions");
  add_layer(cli, info->request, false);
  info->given = cli.given();
  // --layer, --prefix and --naming choose the layers, so they are not among these.
  for (const Option& option : cli.options())
    if (option.group.starts_with("A text") || option.group.starts_with("Settings of the layer") ||
        option.name == "--patch" || option.name == "--dtype" || option.name == "--tokens" ||
        option.name == "--key-tokens")
      info->of_layer.push_back(option.name);
  add_common(cli, info->common);
  cli.example("info data/induction", "list a checkpoint's tensors and layers");
  cli.example("info data/induction --layer 1 X=data/induction/hidden.npz:layers.1",
              "list one of its layers with all origins");
  cli.example("info data/quickstart.json --format json", "print it for another program");
  cli.example("info data/bard-gpt2 --as-naming",
              "print its naming, as a start for describing another model");
  return [info] { return info->run(); };
}

} // namespace mha::app
