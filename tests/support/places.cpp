#include "support/places.hpp"

#include <cstdlib>

namespace mha::test {

namespace {

/// What stands for the program while its command lines are recorded (replay/client.cpp).
const char* stand_in() {
  return std::getenv("MHA_TEST_PROGRAM");
}

} // namespace

std::string source_folder() {
  return MHA_SOURCE_DIR;
}

std::string program_path() {
  return stand_in() ? stand_in() : MHA_PROGRAM;
}

std::string build_folder() {
  return MHA_BUILD_DIR;
}

std::string faults_path() {
  return MHA_FAULTS;
}

std::string starter_path() {
  return stand_in() ? "" : MHA_STARTER;
}

} // namespace mha::test
