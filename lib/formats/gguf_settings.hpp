#pragma once
// Builds the entries of a config.json from the keys of a GGUF file. Private to the files that
// present GGUF.

#include <mha/formats/gguf.hpp>
#include <mha/formats/gguf_tables.hpp>

#include <set>

namespace mha::io {

/// Keys are given without the prefix "llama."; messages have it.
class GgufSettings {
public:
  GgufSettings(const Gguf& file, std::string_view architecture)
      : file_(file), architecture_(architecture), prefix_(architecture_ + ".") {}
  std::map<std::string, std::string> config;

  const Gguf& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  /// Whether the file's architecture is one of these words.
  bool is(std::string_view architectures) const;
  std::string whole(std::string_view key) const { return prefix_ + std::string(key); }

  void set(const std::string& name, std::string_view value) { config[name] = value; }
  void set_number(const std::string& name, double value);
  /// Sets the part of a head that is rotated, which config.json has instead of the dimensions: a
  /// little more than it, because its product with the width is cut off.
  void set_rotated_part(const std::string& name, double dims, double width);
  void set_flag(const std::string& name, bool value) { set(name, value ? "true" : "false"); }

  /// The value of a key, which then counts as read; throws Error for a list longer than the number
  /// of layers of any model.
  const GgufValue* value(std::string_view key) const;
  /// A number; the first one of a list with one element per layer.
  std::optional<double> number(std::string_view key) const;
  /// The same, but nothing for 0.
  std::optional<double> number_but_0(std::string_view key) const;
  /// The last blocks that predict further tokens and are not layers; 0 in most architectures.
  double further_blocks() const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  bool was_read(std::string_view key) const { return read_.contains(key); }
  const GgufTensor* tensor(std::string_view name) const;
  bool has(std::string_view name) const { return tensor(name) != nullptr; }

  /// Sets `name` to the value of a key, if the key exists.
  void copy(std::string_view key, std::string_view name);
  /// Keeps a key that is not read under its own name.
  void keep(const std::string& whole_key, const GgufValue& value);
  /// Records that no layer can be computed because of the value of `key`; `why` follows the value
  /// in the message.
  void refuse(std::string_view key, std::string_view why);
  /// The same for a tensor.
  void refuse_tensor(std::string_view tensor, std::string_view why);
  /// Records a doubt about `key` for a warning.
  void doubt(std::string_view key, std::string_view why);

private:
  const Gguf& file_;
  std::string architecture_, prefix_;
  mutable std::set<std::string, std::less<>> read_;
};

/// Refuses numbers of heads and widths that do not match the tensors of the first block.
void require_gguf_widths(GgufSettings& settings);

/// Sets the windows of layers.
void take_gguf_windows(GgufSettings& settings);
/// Sets what layers with a window have otherwise than the others: numbers of heads, rotation.
/// After take_gguf_rotary.
void take_gguf_kinds_of_layers(GgufSettings& settings);

/// Sets what Gemma 4's files have in their tensors; `windowed` has an entry a layer.
void take_gguf_gemma4(GgufSettings& settings, const std::vector<bool>& windowed);

/// Sets the rotation, its scaling, and the factors of queries that depend on their positions.
void take_gguf_rotary(GgufSettings& settings);

/// The keys of a file as a config.json, flattened as Contents::config is.
std::map<std::string, std::string> config_of_gguf(const Gguf& file,
                                                  const GgufArchitecture& architecture);

} // namespace mha::io
