# Writes OUT, a file that compiles the test files SOURCES as one: what they include is
# read once, before them, and each is in a namespace of its own, so that their hidden names do not meet.
# Their paths begin at this folder, so that a compiler cache knows them in every clone.
set(directives "")
set(files "")
foreach(source IN LISTS SOURCES)
  file(STRINGS ${source} lines REGEX "^#(include|if|elif|else|endif|define|undef)")
  list(JOIN lines "\n" lines)
  string(APPEND directives "${lines}\n")
  string(REGEX MATCH "[^/]+/[^/]+$" name ${source})
  string(MAKE_C_IDENTIFIER ${name} name)
  file(RELATIVE_PATH path ${CMAKE_CURRENT_LIST_DIR} ${source})
  string(APPEND files "namespace ${name} {\n#include \"${path}\"\n}\n")
endforeach()
file(WRITE ${OUT} "${directives}\n${files}")
