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
                           (format.create ? "; also written" : "; not written"));
  out += roff::entry(roff::bold("checkpoint"),
                     "a folder with model.safetensors or pytorch_model.bin, or its shards and "
                     "their index, and the model's config.json; not written");
  out += roff::entry(roff::bold("raw bytes"), "NAME=FILE:DTYPE[SHAPE]; not written");
  out +=
      roff::paragraph("The extension determines the format; without a known extension, and for "
                      "standard input (-), the first bytes do. If the extension and the bytes of a "
                      "file contradict each other, that is an error. For ONNX and HDF5 files that "
                      "cannot be read, the error gives a line of Python that converts them.");
  return out + roff::subheading("Element types") + roff::text(names_of_dtypes() + ".") + "\n" +
         roff::paragraph(
             "NumPy files cannot declare bfloat16; a binding can: W_q=weights.npy:bf16.");
}

std::string bindings_section() {
  const auto example = [](std::string_view binding, std::string_view meaning) {
    return roff::entry(roff::bold(binding), meaning);
  };
  return roff::heading("BINDINGS") +
         roff::text(
             "A binding gives one tensor by name and overrides a file that also contains it: "
             "NAME=FILE[:TENSOR][[SLICE]][@AXES], or NAME=FILE:DTYPE[SHAPE][@AXES] for raw "
             "bytes.") +
         "\n" + example("X=hidden.npz:layers.0", "the tensor layers.0 in a file") +
         example("X=hidden.npz:layers.{layer}", "a tensor for each layer") +
         example("k=kv.pt:k[0]", "a part of a tensor, in NumPy's slices") +
         example("W_q=wq.npy@OI", "a weight stored (out, in)") +
         example("q=q.bin:bf16[2,512,12,64]@BTHD",
                 "raw bytes as written by a kernel; the size must match exactly") +
         roff::paragraph(
             "Letters of AXES: L layer, B batch, H head, T query, S key, D width of one head, C "
             "all widths, I in, O out. Without AXES, a tensor has the axes in brackets below.");
}

std::string tensors_section() {
  std::string out = roff::heading("TENSORS OF A LAYER");
  for (const TensorInfo& info : tensor_names())
    out +=
        roff::entry(roff::bold(info.name), fmt::format("{} [{}]: {}{}", shape_text(info), info.axes,
                                                       info.text, also_called(info.aliases)));
  out += roff::entry(roff::bold("tokens"), "T: labels of the queries: a list of text, or numbers");
  out += roff::entry(roff::bold("key_tokens"), "S: labels of the keys, where they differ");
  return out +
         roff::paragraph(
             "Stages may also be given; they replace the computed ones: mha-inspect-stages(7).");
}

std::string settings_section() {
  std::string out =
      roff::heading("SETTINGS") +
      roff::text("Settings are values in JSON, arrays without axes in NumPy files, metadata in "
                 "safetensors, and options on the command line: num_heads is --num-heads.") +
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
      roff::text("A stage is the result of one step of a layer's computation. It is printed, "
                 "written, drawn and compared by name, and may be given as a tensor, which "
                 "replaces the computed one.") +
      "\n" +
      roff::paragraph(
          "T: query tokens; S: key tokens (from k_all on including past, extra and zero keys); H: "
          "query heads; H_kv: key/value heads; d_model: width of input and output; d_k, d_v: "
          "widths of one head. A batch axis comes first if and only if the input has one.") +
      roff::paragraph("A step that a layer lacks has the value of its input.") +
      roff::heading("STAGES");
  for (const StageInfo& info : stages()) out += stage_entry(info);
  out += roff::heading("MADE OF SEVERAL HEADS OR LAYERS") +
         roff::text("Computed only when named; they cannot be given or patched.") + "\n";
  for (const StageInfo& info : derived_stages()) out += stage_entry(info);
  out += roff::heading("WORDS THAT MEAN SEVERAL THINGS");
  for (std::string_view word : ambiguous_words())
    out += roff::entry(roff::bold(word), joined_names(readings_of(word), " or "));
  return out + roff::see_also({{"mha-inspect", 1}, {"mha-inspect-stages", 1}, {formats_page, 5}});
}

} // namespace mha::app
