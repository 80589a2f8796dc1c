#pragma once
// Names as people spell them: what is one in other letters, and what was meant by one that is none.

#include <mha/system/message.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mha {

/// The name of the table (or of a stage) that this one is in other letters: `WQ`, `wq`, `W_Query`
/// are W_q, `Mask` is mask, `keyPaddingMask` is key_padding_mask. "" where it is none, or where
/// letters decide (`Q` is packed, `q` per head). Prefixes such as `layers.0.` are seen through.
std::string same_name(std::string_view name);

/// Why a name that is clearly a part of a layer is not understood, and how to write it.
struct Misspelt {
  std::string meant; ///< the nearest name: "W_q"
  std::string why;   ///< "that is W_q here; nn.Linear stores (out, in), so name the axes"
  std::string axes;  ///< what a binding should add: "@OI", or ""
};
/// What is meant by `name`, which is neither a name nor one in other letters: `q_proj`,
/// `k_bias`, `query`, `maks`. Nothing where it need not be a part of a layer (`loss`, `W_1`).
std::optional<Misspelt> misspelt(std::string_view name);

/// One head's weight or bias, as lecture notes number heads: W_q1, `Wk_2`, b_q1.
struct NumberedHead {
  std::string weight; ///< "W_q", "b_q"
  std::size_t number;
};
std::optional<NumberedHead> numbered_head(std::string_view name);

/// The setting that a name is in other letters (`numHeads`), or "".
std::string same_setting(std::string_view name);
/// What to do about the name of a width of heads, which is not a setting (`d_head`), or "".
std::string about_setting(std::string_view name);

/// Where all names are listed: for every message that doubts a name.
extern const Message names_hint;

} // namespace mha
