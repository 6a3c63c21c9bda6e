# One library per layer: lockstep_layer(NAME tensor SRCS a.cc HDRS a.h TESTS a_test.cc DEPS base LIBS fmt::fmt)
#
# DEPS names other layers, LIBS third-party targets that the layer keeps to itself. Every header listed in HDRS
# must compile alone (target all_verify_interface_header_sets). Each file in TESTS becomes one test program;
# TEST_DEPS and TEST_LIBS add layers and third-party targets that only the tests see, TEST_LABELS sets CTest labels
# for all of them. THREAD_TESTS names further test files: those that use several threads, labelled `threads` and built
# by the target thread_tests. FUZZED marks a layer that reads hostile input: with LS_FUZZ it is built so that libFuzzer
# sees which of its branches an input takes.
add_custom_target(thread_tests)

# What most files include, parsed once for each layer and once for its tests (LS_PRECOMPILE). The preset dev builds
# without, so that a file which forgets an include is found there.
set(lockstep_common_headers
    <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex> <optional>
    <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(lockstep_test_headers ${lockstep_common_headers} <filesystem> <fstream> <sstream> <gmock/gmock.h> <gtest/gtest.h>)

function(lockstep_layer)
  cmake_parse_arguments(ARG "FUZZED" "NAME" "SRCS;HDRS;TESTS;DEPS;LIBS;TEST_DEPS;TEST_LIBS;TEST_LABELS;THREAD_TESTS" ${ARGN})
  set(target lockstep_${ARG_NAME})
  list(TRANSFORM ARG_DEPS PREPEND lockstep::)
  list(TRANSFORM ARG_TEST_DEPS PREPEND lockstep::)
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS})
    target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_LIBS})
    lockstep_compile_options(${target} PRIVATE)
    if(LS_PRECOMPILE)
      target_precompile_headers(${target} PRIVATE ${lockstep_common_headers})
    endif()
    if(ARG_FUZZED AND LS_FUZZ)
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    target_compile_features(${target} PUBLIC cxx_std_20)
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HDRS})
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  endif()
  add_library(lockstep::${ARG_NAME} ALIAS ${target})
  if(NOT LS_TESTS)
    return()
  endif()
  set(first_test)
  foreach(source IN LISTS ARG_TESTS ARG_THREAD_TESTS)
    string(REGEX REPLACE "\\.cc$" "" stem ${source})
    string(REPLACE "/" "_" stem ${stem})
    set(test ${ARG_NAME}_${stem})
    add_executable(${test} ${source})
    target_link_libraries(${test} PRIVATE lockstep::${ARG_NAME} ${ARG_TEST_DEPS} ${ARG_LIBS} ${ARG_TEST_LIBS} fmt::fmt
                                          GTest::gtest GTest::gtest_main GTest::gmock)
    lockstep_compile_options(${test} PRIVATE)
    # Test code is compiled far more often than it is run.
    target_compile_options(${test} PRIVATE -O0)
    target_compile_definitions(${test} PRIVATE LS_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(LS_PRECOMPILE AND first_test)
      target_precompile_headers(${test} REUSE_FROM ${first_test})
    elseif(LS_PRECOMPILE)
      target_precompile_headers(${test} PRIVATE ${lockstep_test_headers})
      set(first_test ${test})
    endif()
    set_target_properties(${test} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${test} COMMAND ${test} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(labels ${ARG_TEST_LABELS})
    if(source IN_LIST ARG_THREAD_TESTS)
      list(APPEND labels threads)
      add_dependencies(thread_tests ${test})
    endif()
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" ENVIRONMENT "OMP_NUM_THREADS=1")
  endforeach()
endfunction()

# The sanitizers of this build, if any.
function(lockstep_sanitize target scope)
  if(LS_SANITIZE)
    target_compile_options(${target} ${scope} -fsanitize=${LS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${LS_SANITIZE})
    if(LS_SANITIZE STREQUAL thread)
      target_compile_definitions(${target} ${scope} LS_THREAD_SANITIZER)
    endif()
  endif()
endfunction()

# The warnings and sanitizers that all of our own code is built with.
function(lockstep_compile_options target scope)
  target_compile_options(${target} ${scope} -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -fno-math-errno)
  if(LS_WERROR)
    target_compile_options(${target} ${scope} -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # False positives of GCC 12 inside std::string (GCC bug 105651).
    target_compile_options(${target} ${scope} -Wno-restrict)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} ${scope} -Wthread-safety -Wno-unknown-pragmas -Wno-pass-failed)
  endif()
  lockstep_sanitize(${target} ${scope})
endfunction()
