#pragma once
// Folders: of .npy files, or a checkpoint (config.json with safetensors or PyTorch files).

#include <mha/files/contents.hpp>
#include <mha/files/writer.hpp>

namespace mha::io {

/// Reads the folder `folder.name`; its bytes are not used.
Contents read_folder(const Bytes& folder);
/// The same, with 2-byte void elements read as bfloat16.
Contents read_folder(const Bytes& folder, bool void_is_bf16);
std::unique_ptr<Writer> create_folder(const std::string& path, const Output& output);

/// A config.json, flattened as Contents::config is.
std::map<std::string, std::string> read_config(const std::string& path);
/// Whether one of these files in a folder is a model's weights or their index.
bool holds_weights(const std::vector<std::string>& names);
/// Reads a checkpoint folder; `names` are its files.
Contents read_checkpoint(const std::string& path, const std::vector<std::string>& names);

} // namespace mha::io
