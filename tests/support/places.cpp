#include "support/places.hpp"

namespace mha::test {

std::string source_folder() {
  return MHA_SOURCE_DIR;
}

std::string program_path() {
  return MHA_PROGRAM;
}

std::string build_folder() {
  return MHA_BUILD_DIR;
}

std::string faults_path() {
  return MHA_FAULTS;
}

std::string starter_path() {
  return MHA_STARTER;
}

} // namespace mha::test
