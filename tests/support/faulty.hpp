#pragma once
// The program with a fault in one of its calls of the system (faults/shim.cpp).

#include "support/places.hpp"
#include "support/run.hpp"

namespace mha::test {

/// Runs with a fault in the N-th call; `happened` tells whether there were that many.
struct Faulty {
  const Folder& folder;
  std::string what;       ///< FAULT_DO
  std::string calls = {}; ///< FAULT_CALLS
  bool happened = false;
  std::map<std::string, std::string> env = {};

  Result operator()(const std::vector<std::string>& arguments, int at) {
    std::filesystem::remove(folder.path("mark"));
    Setting setting{.env = env, .folder = folder.path()};
    setting.env["LD_PRELOAD"] = faults_path();
    setting.env["FAULT_DO"] = what;
    setting.env["FAULT_CALLS"] = calls;
    setting.env["FAULT_AT"] = std::to_string(at);
    setting.env["FAULT_MARK"] = folder.path("mark");
    const Result result = mha::test::run(arguments, setting);
    happened = folder.has("mark");
    return result;
  }
};

} // namespace mha::test
