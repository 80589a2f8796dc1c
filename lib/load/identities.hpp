#pragma once
// Projections that a layer lacks. They are the identity where no other tensor could be meant.

#include <mha/load/assemble.hpp>
#include <mha/load/source.hpp>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

class Guesses;
struct UnknownTensor;

/// The projections that the user declares to be the identity: "W_o".
using Identities = std::set<std::string, std::less<>>;

/// "W_q", "W_k", "W_v", "W_o".
bool is_projection_name(std::string_view name);
/// The projection that a value in a file declares to be the identity, "W_o" of {"W_o": "identity"};
/// "" for any other value.
std::string projection_as_identity(std::string_view name, std::string_view value);
/// The projection that a binding declares so, "W_o" of W_o=identity, unless a file has that name.
std::string projection_as_identity(const io::Source& binding);

/// Throws Error where an absent projection that is not among `identities` would be taken as the
/// identity although an unread tensor could be it by its shape. The message has bindings for all
/// absent ones, or how to give numbered heads. `columns` is the setting.
void require_no_other_projection(const std::vector<UnknownTensor>& unknown_tensors,
                                 const NamedTensors& parts, const Identities& identities,
                                 bool columns, Guesses& guesses);

/// Warns of each of W_q, W_k and W_v that is the identity although others are there, unless the
/// user declares it: that is rarely meant.
void note_identities(const NamedTensors& parts, const Identities& identities,
                     std::vector<Note>& notes);

} // namespace mha
