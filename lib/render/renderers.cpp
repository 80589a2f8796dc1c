#include <mha/render/renderers.hpp>

namespace mha::render {

namespace {

constexpr Form every_form[] = {
    {"table", ".txt", "for eyes: rounded, labelled, as wide as the terminal", make_table},
    {"csv", ".csv", "one number a line, or bare rows with --matrix", make_csv},
    {"tsv", ".tsv", "the same, separated by tabs", make_tsv},
    {"json", ".json", "one object: shape, dtype and nested data of every stage", make_json},
    {"ndjson", ".ndjson,.jsonl", "one object a row", make_ndjson},
};

} // namespace

std::span<const Form> forms() {
  return every_form;
}

} // namespace mha::render
