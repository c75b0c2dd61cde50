#pragma once

/// @file
/// The version of the library, for the preprocessor and for programs. Until 1.0, a change of the
/// minor version may change this interface.

#define FLASHBULB_VERSION_MAJOR 0  ///< changes when the interface breaks, from 1.0 on
#define FLASHBULB_VERSION_MINOR 1  ///< changes with new features; until 1.0 also when it breaks
#define FLASHBULB_VERSION_PATCH 0  ///< changes with repairs
#define FLASHBULB_VERSION "0.1.0"  ///< all three
