//===- PassOptions.h - options of stages' pipelines -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of Options.def as options of a pipeline: what one of these macros makes
// of a row belongs into a struct of mlir::PassPipelineOptions.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_PASSOPTIONS_H
#define TANDEM_TRANSFORMS_PASSOPTIONS_H

#include "mlir/Pass/PassOptions.h"
#include "tandem/Support/Options.h"
#include "llvm/ADT/StringExtras.h"

namespace tandem {

template <typename T> const T &asPassOption(const T &value) { return value; }

/// Several texts are one, with `;` between.
inline std::string asPassOption(const std::vector<std::string> &texts) {
  return llvm::join(texts, ";");
}

/// A member of the row's name.
#define TANDEM_PASS_OPTION(TYPE, MEMBER, DEFAULT, ...)                         \
  Option<std::decay_t<decltype(asPassOption(TYPE()))>> MEMBER{                 \
      *this, OptionTexts{__VA_ARGS__}.name,                                    \
      llvm::cl::desc(OptionTexts{__VA_ARGS__}.help),                           \
      llvm::cl::init(asPassOption(Options().MEMBER))};

/// Sets such a member from the record `options`.
#define TANDEM_TAKE_OPTION(TYPE, MEMBER, DEFAULT, ...)                         \
  MEMBER = asPassOption(options.MEMBER);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_PASSOPTIONS_H
