//===- CheckOptions.cpp - options that fit each other and the module -----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tandem {

/// Iterations of a Repeat (tandem_rt/program.h).
static constexpr int64_t kMaxAccumulate = int64_t(1) << 20;

/// Every stage that is named is there, and those that are to be seen run.
LogicalResult Compilation::checkStages() {
  std::vector<std::string> names = getStageNames();
  SmallVector<std::string> given(options.printAfter.begin(),
                                 options.printAfter.end());
  given.append({options.fromStage, options.stopAfter});
  auto from = llvm::find(names, options.fromStage);
  for (const std::string &name : given) {
    auto stage = llvm::find(names, name);
    if (!name.empty() && stage == names.end())
      return fail("unknown stage '" + Twine(name) + "', expected one of " +
                  llvm::join(names, ", "));
    if (!name.empty() && name != options.fromStage && from != names.end() &&
        stage < from)
      return fail("stage '" + Twine(name) + "' does not run behind '" +
                  options.fromStage + "', expected a later one");
  }
  if (!options.fromStage.empty() && options.stopAfter == options.fromStage)
    return fail("stage '" + Twine(options.fromStage) +
                "' is left already, expected a later one to stop after");
  return success();
}

/// The stage accumulate cuts sections, and orders their actions.
LogicalResult Compilation::checkCut() {
  const Stage *from = findStage(options.fromStage);
  if (!from || from < findStage("accumulate"))
    return success();
  StringRef given = !options.order.empty()      ? "an order"
                    : !options.sections.empty() ? "sections"
                                                : "";
  return given.empty()
             ? success()
             : fail(Twine("found ") + given +
                    ", which the stage accumulate reads: the module has left "
                    "that stage, expected none");
}

/// Of the gradients of sections.
LogicalResult Compilation::failNoSections() {
  return fail("sum-piece is " + Twine(options.sumPiece) +
              ", but the step is no pipeline, expected one with sections on "
              "an axis 'pipe'");
}

LogicalResult Compilation::checkOptions() {
  if (failed(checkStages()) || failed(checkCut()))
    return failure();
  const std::string &given =
      options.preset.empty() ? options.planFile : options.preset;
  if (!options.search.empty() && !given.empty())
    return fail("search '" + Twine(options.search) + "' beside the plan '" +
                given + "', expected one of the two");
  if (options.mesh == "auto" && !given.empty())
    return fail("mesh 'auto' beside the plan '" + given +
                "', expected a search, which tries meshes");
  if (!options.planFile.empty() && !options.pins.empty())
    return fail("pin '" + Twine(options.pins.front()) +
                "' beside the plan file '" + options.planFile +
                "', which names all forms, expected one of the two: change the "
                "form there, or search with the file as a start");
  bool isLimited = options.searchTimeLimit > 0 && !options.explain;
  if ((isLimited || (!options.start.empty() && !given.empty())) &&
      options.search.empty() && options.mesh != "auto" &&
      (!isLimited || options.order != "search"))
    return fail(Twine("found ") +
                (isLimited ? "a search time limit" : "a start") +
                " without a search, expected 'tandem' or another one" +
                (isLimited ? ", or an explanation" : ""));
  if (options.micro < 1)
    return fail("micro is " + Twine(options.micro) + ", expected at least 1");
  if (options.accumulate < 1 || options.accumulate > kMaxAccumulate)
    return fail("accumulate is " + Twine(options.accumulate) +
                ", expected an integer from 1 to " + Twine(kMaxAccumulate));
  pipe = takePipe(ofStages, error);
  if (!error.empty())
    return failure();
  ofStages.memory = getFirstLimit();
  // How long a step takes is said of its Program. Where there will be none, the
  // schedule is priced as its plan was.
  if (pipe || options.stopAfter.empty())
    ofStages.timeline = false;
  if (!pipe)
    ofStages.cost |= options.timeline;
  // The search of the plan leaves some time to that of the order.
  if (pipe && pipe->isSearched)
    ofStages.searchTimeLimit /= 2;
  if (!pipe && options.sumPiece >= 0 && options.fromStage.empty())
    return failNoSections();
  return success();
}

} // namespace tandem
