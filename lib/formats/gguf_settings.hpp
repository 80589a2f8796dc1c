#pragma once
// A config.json in the making, from the keys of a GGUF file: private to the files that present it.

#include <mha/formats/gguf.hpp>
#include <mha/formats/gguf_tables.hpp>

#include <set>

namespace mha::io {

/// Keys are named as after "llama."; messages get them whole.
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
  void set_flag(const std::string& name, bool value) { set(name, value ? "true" : "false"); }

  /// The value of a key, which counts as read from then on; throws Error for a list longer than
  /// models have layers.
  const GgufValue* value(std::string_view key) const;
  /// A number; of a list of one a layer, the first.
  std::optional<double> number(std::string_view key) const;
  /// The same, where 0 stands for none.
  std::optional<double> number_but_0(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  bool was_read(std::string_view key) const { return read_.contains(key); }
  const GgufTensor* tensor(std::string_view name) const;
  bool has(std::string_view name) const { return tensor(name) != nullptr; }

  /// The value of a key as config.json's `name`, if it is there.
  void copy(std::string_view key, std::string_view name);
  /// A key that nothing here reads, under its own name.
  void keep(const std::string& whole_key, const GgufValue& value);
  /// No layer is computed, as `key` says what is not computed here; `why` goes on after its value.
  void refuse(std::string_view key, std::string_view why);
  /// The same of a tensor.
  void refuse_tensor(std::string_view tensor, std::string_view why);
  /// `why` is told with the key.
  void doubt(std::string_view key, std::string_view why);

private:
  const Gguf& file_;
  std::string architecture_, prefix_;
  mutable std::set<std::string, std::less<>> read_;
};

/// Refuses heads and widths that the first block's tensors do not have.
void require_gguf_widths(GgufSettings& settings);

/// Rotation, its scaling, and what multiplies queries by their positions.
void take_gguf_rotary(GgufSettings& settings);

/// The keys of a file as a config.json, flattened as Contents::config is.
std::map<std::string, std::string> config_of_gguf(const Gguf& file,
                                                  const GgufArchitecture& architecture);

} // namespace mha::io
