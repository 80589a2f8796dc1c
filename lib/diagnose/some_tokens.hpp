#pragma once
// Shorter layers of the same text, for screening. Where nothing sees later tokens, the first
// tokens' rows are those of the whole text; behind the last layer every token is by itself.

#include <mha/layer/layer.hpp>

#include <optional>

namespace mha {

/// The layer with the first `count` tokens alone; nothing where one of its tensors counts tokens in
/// another way than its input, or a text ends before that. The bits need not be those of the whole.
std::optional<Layer> of_first_tokens(const Layer& layer, std::size_t count);

/// A stage in the form of Layer::given whose rows behind the end of a shorter text are 0, as they
/// are here, whatever others leave there.
Tensor without_padding(const Tensor& theirs, Stage stage, const std::vector<std::size_t>& lengths);

/// The rows of some tokens, of a tensor (B, T, width) or (B, T).
Tensor token_rows(const Tensor& tensor, const std::vector<std::size_t>& tokens);
/// The model's ends with some tokens alone. Those of a batch have texts of one length.
Layer ends_of_tokens(const Layer& ends, const std::vector<std::size_t>& tokens);

} // namespace mha
