#include "patches.hpp"

#include <mha/model/patcher.hpp>

namespace mha::app {

namespace {

std::shared_ptr<Patcher> patcher; // of the command that runs

} // namespace

void add_patches(Cli& cli, Request& request) {
  Option option;
  option.name = "--patch";
  option.value_name = "PLACE=VALUE";
  option.help = "what a stage holds is replaced, added to (+=) or multiplied (*=) while it is "
                "computed: 'layers.3.head_out[0] = zero', 'weights[2,-1,0] *= 0.5'; VALUE: a "
                "number, zero, mean, a file, from 'another text'; again: several";
  option.repeats = true;
  option.set = [&request](const std::string& text) {
    if (!patcher) patcher = std::make_shared<Patcher>();
    patcher->add(text);
    request.patches.push_back(text);
    request.patch_layer = [](Layer& layer, const std::string& id, const Sources& sources,
                             const std::vector<Note>& said) {
      return patcher->patch(layer, id, sources, said);
    };
  };
  cli.add(std::move(option));
}

void require_patches_read() {
  if (patcher) patcher->require_read();
}

} // namespace mha::app
