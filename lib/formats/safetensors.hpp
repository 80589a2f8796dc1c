#pragma once
// Safetensors: a JSON header, then the tensors' bytes without holes.

#include <mha/files/contents.hpp>
#include <mha/formats/flat.hpp>

namespace mha::io {

/// The metadata that holds Output::run.
inline constexpr std::string_view run_metadata = "mha-inspect.run";

Contents read_safetensors(const Bytes& bytes);
std::unique_ptr<Writer> create_safetensors(const std::string& path, const Output& output);
Layout safetensors_layout(const std::string& path, const Output& output);

/// The format's name of a dtype: "BF16" for bf16.
std::string_view safetensors_name(DType dtype);

} // namespace mha::io
