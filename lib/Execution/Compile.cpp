//===- Compile.cpp - from a training step to a Program -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Execution/Compile.h"
#include "ChooseLayout.h"
#include "Compilation.h"
#include "tandem/Support/TextFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;

namespace tandem {

std::vector<std::string> getStageNames() {
  std::vector<std::string> names;
  for (const Stage &stage : getStages())
    names.push_back(stage.name.str());
  return names;
}

bool findTarget(const CompileOptions &options, rt::Target &target,
                std::string &error) {
  CompiledProgram unused;
  Compilation compilation(options, unused);
  bool done = compilation.findTarget(target);
  error = compilation.getError();
  return done;
}

bool hashModule(std::string_view module, std::string_view name,
                std::string &hash, std::string &error) {
  CompileOptions options;
  CompiledProgram unused;
  Compilation compilation(options, unused);
  bool done = compilation.hash(module, name, hash);
  error = compilation.getError();
  return done;
}

/// By the plan that was priced, which a search might not find again.
static bool compileChoice(std::string_view module, std::string_view name,
                          const LayoutChoice &choice, CompiledProgram &result,
                          std::string &error) {
  SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("layout", "plan", path)) {
    error = "cannot write a plan into the folder for temporary files";
    return false;
  }
  llvm::FileRemover remover(path);
  if (!writeTextFile(path.str().str(), kPlanFile, choice.plan, error))
    return false;
  CompileOptions own = choice.options;
  own.planFile = path.str();
  for (std::string *text : {&own.mesh, &own.search, &own.preset, &own.order})
    text->clear();
  own.pins.clear();
  own.sections.clear();
  own.searchTimeLimit = 0;
  own.usesCache = false; // the whole choice is kept
  if (!StringRef(choice.plan).contains("\npipeline "))
    own.sumPiece = -1;
  if (!compile(module, name, own, result, error))
    return false;
  // What the plan costs was said when it was found.
  llvm::erase_if(result.remarks, [&](const std::string &remark) {
    return StringRef(remark).contains(path) ||
           llvm::is_contained(choice.remarks, remark);
  });
  result.remarks.insert(result.remarks.begin(), choice.remarks.begin(),
                        choice.remarks.end());
  return true;
}

/// The fastest layout, and then its Program. What explains the plan is that of
/// the layout, behind the table of layouts.
static bool compileFastest(std::string_view module, std::string_view name,
                           const CompileOptions &options,
                           CompiledProgram &result, std::string &error) {
  ProgramCache cache(module, name, options);
  if (!cache.check(error))
    return false;
  {
    StageTimer timer(result, "cache");
    if (cache.lookup(result))
      return true;
  }
  StepLayers step;
  {
    CompiledProgram unused;
    Compilation compilation(options, unused);
    // A pipeline of as many points as a cluster has nodes, with two sections.
    constexpr int64_t kLeastLayers = 8;
    if (!compilation.listLayers(module, name, kLeastLayers, step)) {
      error = compilation.getError();
      return false;
    }
  }
  auto choice = chooseLayout(module, name, options, step, error);
  if (!choice || !compileChoice(module, name, *choice, result, error))
    return false;
  result.layouts = llvm::join(choice->table, "\n") + "\n";
  std::vector<std::string> remarks;
  for (const std::string &line : choice->table)
    remarks.push_back("remark: " + line);
  if (options.explain)
    result.explanation = result.layouts + "\n" + result.explanation;
  else
    result.remarks.insert(result.remarks.begin(), remarks.begin(),
                          remarks.end());
  cache.store(result);
  return true;
}

bool compile(std::string_view module, std::string_view name,
             const CompileOptions &options, CompiledProgram &result,
             std::string &error) {
  result = CompiledProgram();
  if (weighsLayouts(options))
    return compileFastest(module, name, options, result, error);
  Compilation compilation(options, result);
  bool done = compilation.run(module, name);
  error = compilation.getError();
  return done;
}

} // namespace tandem
