#include <mha/load/families/own_names.hpp>

#include <mha/files/contents.hpp>

namespace mha::naming {

namespace {

/// The members of a section: the rest of their names, and what they say.
std::vector<std::pair<std::string, std::string>> members_of(const Config& config,
                                                            std::string_view section) {
  std::vector<std::pair<std::string, std::string>> members;
  for (auto at = config.lower_bound(std::string(section));
       at != config.end() && at->first.starts_with(section); ++at)
    members.emplace_back(at->first.substr(section.size()), at->second);
  return members;
}

} // namespace

void require_computed(const Group& group) {
  if (group.description) return; // which says what its keys mean
  for (const auto& [key, why] : members_of(*group.config, io::refused_section))
    fail("{}: {} {}; describe the model by <naming> FILE.json<draft naming>", group.contents->name,
         key, why);
}

std::optional<std::string> name_in_file(const Group& group, std::string_view key,
                                        std::string_view value) {
  if (group.contents->format != "gguf") return std::string(key);
  const auto own = group.config->find(std::string(io::own_key_section) + std::string(key));
  if (own == group.config->end() || value == "0" || value == "false") return std::nullopt;
  return own->second;
}

std::vector<Note> doubts_of(const Group& group) {
  std::vector<Note> notes;
  for (const auto& [key, why] : members_of(*group.config, io::doubted_section))
    notes.push_back(warning(fmt::format("{}: {} {}", group.contents->name, key, why)));
  return notes;
}

} // namespace mha::naming
