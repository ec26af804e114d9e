//===- ChooseLayout.h - pipelines among the layouts of a mesh ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `--mesh auto --search tandem` weighs pipelines as well. Layouts are priced
// from the FLOPs of layers first (Search/Pipeline/Layouts.h), and most are
// never compiled. The best of them, Megatron's rule, the presets and the meshes
// without a pipe axis become Programs without kernels. The one whose Program is
// predicted to be fastest is compiled.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_CHOOSELAYOUT_H
#define TANDEM_LIB_EXECUTION_CHOOSELAYOUT_H

#include "tandem/Execution/Compile.h"
#include "tandem/Transforms/Cut/Cut.h"
#include <optional>

namespace tandem {

/// Whether the options leave open if there is a pipeline.
bool weighsLayouts(const CompileOptions &options);

/// Of a step: its layers in the order of the data, and the rows of its batch.
struct StepLayers {
  std::vector<ChainLayer> layers;
  int64_t rows = 0;
  /// The element type of most FLOPs.
  std::string type = "f32";
  /// Bytes of parameters, gradients and states by those of parameters.
  double states = 1;
};

struct LayoutChoice {
  /// What the layout was compiled with, the text of its plan, and what was said
  /// of it.
  CompileOptions options;
  std::string plan;
  std::vector<std::string> remarks;
  /// A line for each layout, the fastest first.
  std::vector<std::string> table;
};

/// None, with one line in `error`, if no layout has a Program that fits.
std::optional<LayoutChoice> chooseLayout(std::string_view module,
                                         std::string_view name,
                                         const CompileOptions &options,
                                         const StepLayers &step,
                                         std::string &error);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_CHOOSELAYOUT_H
