#pragma once
// GGUF as a checkpoint: private to the files that present it.

#include <mha/formats/gguf.hpp>
#include <mha/formats/gguf_architectures.hpp>

namespace mha::io {

/// The keys of a file as a config.json, flattened as Contents::config is.
std::map<std::string, std::string> config_of_gguf(const Gguf& file,
                                                  const GgufArchitecture& architecture);

} // namespace mha::io
