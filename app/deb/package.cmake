# `cpack -G DEB` in a release build makes a package for each component: the program, the library, the
# Python module.
set(CPACK_PACKAGE_NAME mha-inspect)
set(CPACK_PACKAGE_CONTACT "mha-inspect developers <mha-inspect@example.org>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program development)
if(TARGET mha-python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/finish.cmake)
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME mha-inspect)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "liblapack3 | liblapack.so.3") # loaded when `stats` needs it
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "every step of multi-head attention, visible
Reads an attention layer's input and weights from files (JSON, NumPy,
safetensors, checkpoint folders, raw bytes) and prints, writes or explains
every intermediate result: queries, keys and values of each head, scores before
and after scaling and masking, attention weights, the output.

Example layers are in /usr/share/mha-inspect/data.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmha-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfmt-dev, zlib1g-dev, libutf8proc-dev, libonig-dev")
if(TARGET mha-shared) # the soname, and so the package, changes with the minor version
  set(soname ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  list(APPEND CPACK_COMPONENTS_ALL shared)
  set(CPACK_DEBIAN_SHARED_PACKAGE_NAME libmha${soname})
  set(CPACK_DEBIAN_SHARED_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_SHARED_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/triggers.cmake)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libmha${soname} (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_SHARED_DESCRIPTION "multi-head attention, step by step: the shared library
Required by programs that are linked with libmha, which computes an attention
layer and returns every intermediate result.")
endif()
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "multi-head attention, step by step: the library
Headers, library, CMake package and pkg-config file of the library used by
mha-inspect, which reads a layer from files and returns every intermediate
result of multi-head attention.")
set(CPACK_COMPONENT_PROGRAM_REQUIRED ON)

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-mha-inspect)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
if(TARGET mha-python) # only the interpreter that it was built for
  get_target_property(version mha-python MHA_INTERPRETER_VERSION)
  string(REPLACE "." ";" parts ${version})
  list(GET parts 1 minor)
  math(EXPR next "${minor} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.${minor}~), python3 (<< 3.${next}), python3-numpy")
endif()
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/python/postinst ${CMAKE_CURRENT_LIST_DIR}/python/prerm)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "multi-head attention, step by step: the Python module
The module mha computes every intermediate result of multi-head attention from
NumPy arrays, files, or a model's checkpoint and a text, and returns NumPy
arrays without a copy.")

include(CPack)
