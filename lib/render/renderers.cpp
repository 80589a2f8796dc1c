#include <mha/render/renderers.hpp>

namespace mha::render {

namespace {

constexpr Form every_form[] = {
    {"table", ".txt", make_table},
    {"csv", ".csv", make_csv},
    {"tsv", ".tsv", make_tsv},
    {"json", ".json", make_json},
    {"ndjson", ".ndjson,.jsonl", make_ndjson},
};

} // namespace

std::span<const Form> forms() {
  return every_form;
}

} // namespace mha::render
