# What the program counts, reports and draws with, beside what the library computes: the library `mha-studies`.

# The font of pictures becomes part of the program unchanged (render/font.cpp).
configure_file(render/font_data.S.in font_data.S @ONLY)
set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/font_data.S PROPERTIES OBJECT_DEPENDS ${MHA_FONT})

mha_objects(mha-maps ${mha_studies})
mha_unity(mha-maps)
mha_objects(mha-reports ${mha_reports} ${CMAKE_CURRENT_BINARY_DIR}/report_template.cpp ${CMAKE_CURRENT_BINARY_DIR}/font_data.S)
mha_unity(mha-reports)
target_compile_options(mha-reports PRIVATE ${mha_words_optimised})
target_include_directories(mha-reports SYSTEM PRIVATE ${MHA_STB_INCLUDE_DIR})
target_link_libraries(mha-reports PRIVATE nlohmann_json::nlohmann_json PNG::PNG mha::fribidi)
add_library(mha-studies STATIC $<TARGET_OBJECTS:mha-maps> $<TARGET_OBJECTS:mha-reports>)
set_target_properties(mha-studies PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(mha-studies PUBLIC mha PRIVATE ${CMAKE_DL_LIBS} PNG::PNG mha::fribidi)
