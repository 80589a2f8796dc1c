#pragma once
// JSON: an object of tensors, settings and labels, or one bare list.

#include <mha/files/contents.hpp>
#include <mha/files/writer.hpp>

#include <optional>

namespace mha::io {

Contents read_json(const Bytes& bytes);
std::unique_ptr<Writer> create_json(const std::string& path, const Output& output);

/// A JSON list of strings on its own, or nothing: labels inside other formats' metadata.
std::optional<std::vector<std::string>> labels_of_json(std::string_view text);
/// ["the","cat"], with the escapes of json_string().
std::string json_of_labels(const std::vector<std::string>& labels);
/// Likewise a list of lists, one of each batch item.
std::optional<std::vector<std::vector<std::string>>> item_labels_of_json(std::string_view text);
std::string json_of_item_labels(const std::vector<std::vector<std::string>>& lists);

} // namespace mha::io
