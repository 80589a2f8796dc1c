#include "patches.hpp"

#include <mha/model/patcher.hpp>

namespace mha::app {

void add_patches(Cli& cli, RunRequest& request) {
  Option option;
  option.name = "--patch";
  option.value_name = "PLACE=VALUE";
  option.help = "what a stage holds is replaced, added to (+=, -=) or multiplied (*=) while it is "
                "computed: 'layers.3.head_out[0] = zero', 'weights[2,-1,0] *= 0.5'; VALUE: a "
                "number, zero, mean, a file, from 'another text', 4 * from 'one' - 'another'; "
                "again: several";
  option.repeats = true;
  option.set = [&request](const std::string& text) {
    if (!request.patches) request.patches = std::make_shared<Patcher>();
    request.patches->add(text);
  };
  cli.add(std::move(option));
  cli.at_end([&request] {
    if (request.patches) request.patches->require_read();
  });
}

std::vector<std::string> typed_patches(const RunRequest& request) {
  return request.patches ? request.patches->typed() : std::vector<std::string>();
}

} // namespace mha::app
