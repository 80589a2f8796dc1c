# What the library is built from. The build includes this, and so does the package that
# find_package(mha) finds: a program that links the static library links these too.
include(CMakeFindDependencyMacro)
foreach(package fmt Threads ZLIB)
  find_dependency(${package})
endforeach()

# A library of Debian's that has no CMake package, as mha::NAME: its header, its library, and the
# package that has both.
macro(mha_find_library name header package)
  string(TOUPPER MHA_${name} mha_variable)
  find_path(${mha_variable}_INCLUDE_DIR ${header})
  find_library(${mha_variable}_LIBRARY ${name})
  if(NOT ${mha_variable}_INCLUDE_DIR OR NOT ${mha_variable}_LIBRARY)
    message(FATAL_ERROR "mha: ${name} is missing (${header}): Debian's package ${package} has it")
  endif()
  mark_as_advanced(${mha_variable}_INCLUDE_DIR ${mha_variable}_LIBRARY)
  if(NOT TARGET mha::${name})
    add_library(mha::${name} UNKNOWN IMPORTED)
    set_target_properties(mha::${name} PROPERTIES IMPORTED_LOCATION ${${mha_variable}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${${mha_variable}_INCLUDE_DIR})
  endif()
endmacro()
mha_find_library(utf8proc utf8proc.h libutf8proc-dev)
mha_find_library(onig oniguruma.h libonig-dev)
