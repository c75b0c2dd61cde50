# The one list of SIMD levels and their flags. A level is compiled only where the target and the
# compiler know every flag of it; which of the compiled ones runs is decided at load time.
include(CheckCXXCompilerFlag)

set(FLASHBULB_LEVELS base)
set(FLASHBULB_FLAGS_base "")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(FLASHBULB_FLAGS_v3 -mavx2 -mfma -mf16c)
  set(FLASHBULB_FLAGS_v3_vnni ${FLASHBULB_FLAGS_v3} -mavxvnni)
  set(FLASHBULB_FLAGS_v4
      ${FLASHBULB_FLAGS_v3}
      -mavx512f
      -mavx512bw
      -mavx512dq
      -mavx512vl
      -mprefer-vector-width=512)
  set(FLASHBULB_FLAGS_v4_vnni ${FLASHBULB_FLAGS_v4} -mavx512vnni)
  set(FLASHBULB_FLAGS_v4_amx ${FLASHBULB_FLAGS_v4_vnni} -mamx-tile -mamx-int8)
  set(levels v3 v3_vnni v4 v4_vnni v4_amx)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(FLASHBULB_FLAGS_dotprod -march=armv8.2-a+dotprod)
  set(levels dotprod)
endif()

foreach(level ${levels})
  set(known TRUE)
  foreach(flag ${FLASHBULB_FLAGS_${level}})
    string(MAKE_C_IDENTIFIER "FLASHBULB_HAS${flag}" variable)
    check_cxx_compiler_flag(${flag} ${variable})
    if(NOT ${variable})
      set(known FALSE)
    endif()
  endforeach()
  if(known)
    list(APPEND FLASHBULB_LEVELS ${level})
  endif()
endforeach()

set_property(GLOBAL PROPERTY FLASHBULB_LEVELS ${FLASHBULB_LEVELS})

# Adds to `target` one object library per level, built from the same sources.
function(flashbulb_add_kernels target)
  foreach(level ${FLASHBULB_LEVELS})
    set(library flashbulb_kernels_${level})
    add_library(${library} OBJECT src/kernels/table.cpp)
    target_include_directories(${library} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
    target_compile_definitions(${library} PRIVATE FLASHBULB_LEVEL=${level})
    # No kernel reads errno or traps: without these two, GCC leaves the loops with an exp scalar.
    # They change no result.
    target_compile_options(${library} PRIVATE ${FLASHBULB_FLAGS_${level}} -fno-exceptions
                                              -fno-math-errno -fno-trapping-math)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC's own AVX-512 headers set these off (bug 105593).
      target_compile_options(${library} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
    target_link_libraries(${library} PRIVATE flashbulb_options)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${library}>)
    target_compile_definitions(${target} PRIVATE FLASHBULB_WITH_LEVEL_${level})
  endforeach()
endfunction()
