#pragma once
// A request of a command to a model: layers, texts and patches.

#include <mha/load/load.hpp>
#include <mha/model/text.hpp>

#include <memory>
#include <optional>

namespace mha {

class Patcher;

/// Layers of files, the texts that they are computed for, and patches.
struct RunRequest : Request {
  /// The texts that a whole model's layers are computed for; without one, files give the inputs.
  Text text;
  std::shared_ptr<Patcher> patches; ///< null: none
  /// Bytes that the packed weights kept from one pass to the next may take; none: half of what is
  /// free.
  std::optional<std::size_t> memory;

  /// Whether layers get their inputs from texts. Throws Error as Text::given() does.
  bool has_text() const { return text.given() || for_texts; }
};

} // namespace mha
