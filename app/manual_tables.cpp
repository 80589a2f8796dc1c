// The manual pages on file formats and on stages, generated from the tables of the library.

#include "manual.hpp"
#include "options.hpp"
#include "roff.hpp"
#include <mha/formats/formats.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/settings.hpp>
#include <mha/layer/stage.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

namespace mha::app {

namespace {

/// ". Also called: a, b" for the list of aliases "a b"; "" for an empty list.
std::string also_called(std::string_view aliases) {
  return aliases.empty() ? ""
                         : fmt::format(". Also called: {}", fmt::join(words_of(aliases), ", "));
}

/// The names of all element types; `boolean` is the last enumerator of DType.
std::string names_of_dtypes() {
  std::vector<std::string_view> names;
  for (int dtype = 0; dtype <= static_cast<int>(DType::boolean); ++dtype)
    names.push_back(mha::name_of(static_cast<DType>(dtype)));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string files_section() {
  std::string out = roff::heading("FILES THAT ARE READ");
  for (const io::Format& format : io::formats())
    out += roff::entry(roff::bold(format.name),
                       fmt::format("{}{}{}", format.title, format.extensions.empty() ? "" : ": ",
                                   format.extensions) +
                           (format.create ? "; written, too" : "; not written"));
  out += roff::entry(roff::bold("checkpoint"),
                     "a folder with model.safetensors or pytorch_model.bin, or its shards and "
                     "their index, and the model's config.json; not written");
  out += roff::entry(roff::bold("raw bytes"), "NAME=FILE:DTYPE[SHAPE]; not written");
  out += roff::paragraph(
      "The extension decides; where it says nothing, and for standard input (-), the first bytes "
      "do. A file whose extension and bytes contradict each other is an error. ONNX and HDF5 are "
      "refused with the line of Python that converts them.");
  return out + roff::subheading("Element types") + roff::text(names_of_dtypes() + ".") + "\n" +
         roff::paragraph(
             "NumPy's files have no bfloat16: a binding says it, W_q=weights.npy:bf16.");
}

std::string bindings_section() {
  const auto example = [](std::string_view binding, std::string_view meaning) {
    return roff::entry(roff::bold(binding), meaning);
  };
  return roff::heading("BINDINGS") +
         roff::text("One tensor by its name, which wins over a file that also has it: "
                    "NAME=FILE[:TENSOR][@AXES], or NAME=FILE:DTYPE[SHAPE][@AXES] for raw bytes.") +
         "\n" + example("X=hidden.npz:layers.0", "the tensor layers.0 of a file") +
         example("X=hidden.npz:layers.{layer}", "each layer's own") +
         example("W_q=wq.npy@OI", "a weight stored (out, in)") +
         example("q=q.bin:bf16[2,512,12,64]@BTHD",
                 "bytes as a kernel writes them, the size checked exactly") +
         roff::paragraph("Letters of AXES: L layer, B batch, H head, T query, S key, D width of "
                         "one head, C all widths, I in, O out. Without AXES, a tensor's axes are "
                         "those in brackets below.");
}

std::string tensors_section() {
  std::string out = roff::heading("TENSORS OF A LAYER");
  for (const TensorInfo& info : tensor_names())
    out +=
        roff::entry(roff::bold(info.name), fmt::format("{} [{}]: {}{}", shape_text(info), info.axes,
                                                       info.text, also_called(info.aliases)));
  out += roff::entry(roff::bold("tokens"), "T: labels of the queries: a list of text, or numbers");
  out += roff::entry(roff::bold("key_tokens"), "S: labels of the keys, where they differ");
  return out + roff::paragraph("Every stage may be given, too, and replaces its computation: "
                               "mha-inspect-stages(7).");
}

std::string settings_section() {
  std::string out =
      roff::heading("SETTINGS") +
      roff::text("In JSON as values, in NumPy's files as arrays without axes, in safetensors as "
                 "metadata, on the command line as options: num_heads is --num-heads.") +
      "\n";
  for (const SettingInfo& info : settings_table()) {
    const bool is_boolean = info.kind == SettingKind::boolean;
    out += roff::entry(roff::bold(info.name) + " " +
                           roff::italic(is_boolean ? "true|false" : info.values),
                       std::string(info.text) + also_called(info.aliases));
  }
  return out;
}

std::string stage_entry(const StageInfo& info) {
  const std::string inputs = info.inputs.empty() ? "" : "; from " + joined_names(info.inputs, ", ");
  return roff::entry(roff::bold(info.name) + " (" + roff::text(joined_names(info.letters, ", ")) +
                         ")",
                     fmt::format("{}: {}{}; {}{}", info.value, info.text, inputs, info.part,
                                 also_called(info.aliases)));
}

} // namespace

std::string manual_of_formats() {
  return roff::title(formats_page, 5, "files that mha-inspect reads and writes") +
         roff::heading("DESCRIPTION") + roff::text(sources_help) + "\n" + files_section() +
         bindings_section() + tensors_section() + settings_section() +
         roff::see_also({{"mha-inspect", 1}, {"mha-inspect-names", 1}, {stages_page, 7}});
}

std::string manual_of_stages() {
  std::string out =
      roff::title(stages_page, 7, "every step of multi-head attention, by its name") +
      roff::heading("DESCRIPTION") +
      roff::text("A stage is the value of one step of a layer's computation. It is printed, "
                 "written, drawn and compared by its name, and may be given as a tensor, which "
                 "replaces its computation.") +
      "\n" +
      roff::paragraph("T: query tokens; S: key tokens (from k_all on, past, extra and zero ones, "
                      "too); H: query heads; H_kv: key/value heads; d_model: width of input and "
                      "output; d_k, d_v: widths of one head. A batch axis stands before all "
                      "others exactly when the input has one.") +
      roff::paragraph("A step that a layer does not have stands for what it is computed from.") +
      roff::heading("STAGES");
  for (const StageInfo& info : stages()) out += stage_entry(info);
  out += roff::heading("MADE OF SEVERAL HEADS OR LAYERS") +
         roff::text("Computed where they are named, never given and not patched.") + "\n";
  for (const StageInfo& info : derived_stages()) out += stage_entry(info);
  out += roff::heading("WORDS THAT MEAN SEVERAL THINGS");
  for (std::string_view word : ambiguous_words())
    out += roff::entry(roff::bold(word), joined_names(readings_of(word), " or "));
  return out + roff::see_also({{"mha-inspect", 1}, {"mha-inspect-stages", 1}, {formats_page, 5}});
}

} // namespace mha::app
