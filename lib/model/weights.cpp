#include <mha/model/weights.hpp>

#include <filesystem>

namespace mha {

namespace {

DType precision_of(const WholeModel& model, std::optional<DType> asked) {
  const bool is_double = model.embedding().tokens.dtype() == DType::f64;
  const DType precision = asked.value_or(is_double ? DType::f64 : DType::f32);
  if (precision != DType::f32 && precision != DType::f64)
    fail("dtype is {}: models are computed in float32 or float64", name_of(precision));
  return precision;
}

/// The place of a model's tokenizer: its folder, its GGUF file, or the folder of its graph.
std::string place_of(const io::Contents& file) {
  if (!file.graph) return file.name;
  const std::filesystem::path folder = std::filesystem::path(file.name).parent_path();
  return folder.empty() ? "." : folder.string();
}

} // namespace

Weights::Weights(const Sources& sources, std::optional<std::size_t> memory)
    : model_(sources.model()),
      notes_of_sources_(sources.notes_of_model()),
      folder_(place_of(model_->file())),
      dtype_(precision_of(*model_, sources.request().dtype)),
      wording_(sources.request().wording),
      kept_(std::make_shared<KeptWeights>(memory)) {}

std::vector<Note> Weights::notes() const {
  std::vector<Note> notes = model_->notes();
  notes.insert(notes.end(), notes_of_sources_.begin(), notes_of_sources_.end());
  return notes;
}

const tokenizers::Tokenizer& Weights::tokenizer() const {
  const std::lock_guard hold(reading_);
  if (!tokenizer_) tokenizer_ = tokenizers::load_tokenizer(folder_);
  return *tokenizer_;
}

} // namespace mha
