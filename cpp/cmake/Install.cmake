# `cmake --install` (component "development"): the library, the public headers, and what
# find_package(flashbulb) and pkg-config read. No path of this machine enters; the prefix may move.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flashbulb)
install(
  TARGETS flashbulb_core
  EXPORT flashbulbTargets
  COMPONENT development
  INCLUDES
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(
  DIRECTORY include/flashbulb
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development)
install(
  EXPORT flashbulbTargets
  NAMESPACE flashbulb::
  DESTINATION ${package_dir}
  COMPONENT development)

configure_package_config_file(
  cmake/flashbulbConfig.cmake.in ${PROJECT_BINARY_DIR}/flashbulbConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/flashbulbConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/flashbulbConfig.cmake
        ${PROJECT_BINARY_DIR}/flashbulbConfigVersion.cmake
  DESTINATION ${package_dir}
  COMPONENT development)

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(cmake/flashbulb.pc.in ${PROJECT_BINARY_DIR}/flashbulb.pc @ONLY)
install(
  FILES ${PROJECT_BINARY_DIR}/flashbulb.pc
  DESTINATION ${pkgconfig_dir}
  COMPONENT development)

install(
  FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT development)
