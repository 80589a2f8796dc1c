#include <mha/tokenizers/tokenizer_files.hpp>

#include <mha/tokenizers/gguf.hpp>
#include <mha/tokenizers/special_tokens.hpp>
#include <mha/tokenizers/tokenizer.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/inputs.hpp>
#include <mha/files/text.hpp>
#include <mha/system/error.hpp>

#include <filesystem>

namespace mha::tokenizers {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t largest = std::uintmax_t{256} << 20; // bytes of a file

bool has(const std::string& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / name, ignored);
}

[[noreturn]] void refuse_folder(const std::string& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    const std::string around = fs::path(folder).parent_path().string();
    fail("{}: is a file, but a tokenizer is read from a checkpoint's folder; give {}",
         io::shown(folder), around.empty() ? "." : io::shown(around));
  }
  if (!fs::is_directory(folder, error)) fail("{}: no such folder", io::shown(folder));
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (has(folder, name))
      fail("{}: the tokenizer is only in {}, which is not supported; write its tokenizer.json: "
           "python3 -c "
           "\"from transformers import AutoTokenizer as A; "
           "A.from_pretrained('.', use_fast=True).save_pretrained('.')\"",
           io::shown(folder), name);
  fail("{}: no tokenizer in this folder (tokenizer.json, vocab.json with merges.txt, or "
       "vocab.txt); give the numbers of the tokens instead",
       io::shown(folder));
}

} // namespace

std::optional<io::Bytes> read_file_of(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(folder) / name;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return std::nullopt;
  if (!fs::is_regular_file(status)) fail("{}: not a regular file", io::shown(path.string()));
  const std::uintmax_t size = fs::file_size(path, error);
  if (!error && size > largest)
    fail("{}: {} bytes, more than any tokenizer has", io::shown(path.string()), size);
  io::Bytes bytes = io::read_bytes(path.string());
  io::refuse_pointer(bytes);
  return bytes;
}

bool has_tokenizer(const std::string& folder) {
  return has_gguf_tokenizer(folder) || has(folder, "tokenizer.json") || has(folder, "vocab.txt") ||
         (has(folder, "vocab.json") && has(folder, "merges.txt"));
}

Tokenizer load_tokenizer(const std::string& folder) {
  if (has_gguf_tokenizer(folder)) return Tokenizer(read_gguf_tokenizer(folder));
  std::shared_ptr<Pipeline> parts;
  if (const auto bytes = read_file_of(folder, "tokenizer.json"))
    parts = read_tokenizer_json(bytes->name, bytes->text()), follow_config(folder, *parts);
  else
    parts = read_vocabulary_files(folder);
  if (!parts) refuse_folder(folder);
  io::note_folder(folder);
  read_special_tokens(folder, *parts);
  return Tokenizer(parts);
}

Tokenizer read_tokenizer(const std::string& name, std::string_view json) {
  return Tokenizer(read_tokenizer_json(name, json));
}

} // namespace mha::tokenizers
