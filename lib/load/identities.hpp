#pragma once
// Projections that a layer lacks: the identity, where nothing that is there could have been meant.

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

/// The projections that are said to be the identity: "W_o".
using Identities = std::set<std::string, std::less<>>;

/// "W_q", "W_k", "W_v", "W_o".
bool is_projection_name(std::string_view name);
/// The projection of which a file says that it is the identity, "W_o" of {"W_o": "identity"}; "" of
/// any other value.
std::string projection_as_identity(std::string_view name, std::string_view value);
/// The same of a binding, "W_o" of W_o=identity, unless there is a file of that name.
std::string projection_as_identity(const io::Source& binding);

/// Throws Error where a projection that is absent, and none of `identities`, would be taken as the
/// identity though a tensor that was passed over could be it by its shape: with the bindings of all
/// that are absent, or with how heads that are numbered are given. `columns`: as the setting.
void require_no_other_projection(const std::vector<UnknownTensor>& unknown_tensors,
                                 const NamedTensors& parts, const Identities& identities,
                                 bool columns, Guesses& guesses);

/// A warning of each of W_q, W_k and W_v that is the identity beside others that are there, unless
/// it is said: that is rarely meant.
void note_identities(const NamedTensors& parts, const Identities& identities,
                     std::vector<Note>& notes);

} // namespace mha
