#pragma once
// Lists of arrays that were saved without a name: torch.save(out.hidden_states).

#include <mha/files/contents.hpp>
#include <mha/load/source.hpp>

namespace mha {

/// Names the arrays of a list that has no names but numbers by what their shapes say: three axes
/// are a pass's hidden_states, four its attentions, pairs of four the keys and values of a cache.
/// Other files stay as they are. Throws Error for lists of lists, as generate() returns them.
void name_bare_list(io::Contents& contents);

/// What `hidden_states=FILE` or `attentions=FILE` names: those of the file, a list without names,
/// or the one array that it holds.
io::Contents states_named(const io::Source& source);

} // namespace mha
