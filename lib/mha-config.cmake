# find_package(mha): the target mha::mha.
include("${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/mha-targets.cmake")
