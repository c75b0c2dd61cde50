# What a kernel object leaves for the linker to choose from may only be its table: one test a level.
get_property(levels GLOBAL PROPERTY FLASHBULB_LEVELS)
foreach(level ${levels})
  add_test(
    NAME kernel_symbols_${level}
    COMMAND
      ${CMAKE_COMMAND} -E env "NM=${CMAKE_NM}" ${PROJECT_SOURCE_DIR}/tools/check_kernel_symbols.sh
      ${level} $<TARGET_OBJECTS:flashbulb_kernels_${level}>)
endforeach()
