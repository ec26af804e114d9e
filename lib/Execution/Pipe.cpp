//===- Pipe.cpp - a pipeline among the options ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipe.h"
#include "tandem/Support/FormText.h"
#include "tandem/Transforms/Cut/Cut.h"
#include "tandem/Transforms/Outline/Outline.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tandem {

namespace {
/// `layers.[0-5].*:pipe=at(0)`.
struct SectionPin {
  StringRef globs, axis;
  int64_t point = 0;
};
} // namespace

static std::optional<SectionPin> parseSectionPin(StringRef text) {
  auto [globs, form] = text.rsplit(':');
  auto [axis, place] = form.split('=');
  auto code = form::parse(place.trim().str());
  if (!code || *code > form::kAtFirst)
    return std::nullopt;
  return SectionPin{globs.trim(), axis.trim(), form::kAtFirst - *code};
}

/// The mesh of a section that is not split.
static constexpr StringLiteral kOneDevice = "data=1";

/// Takes `axis` out of a text such as `pipe=2,data=4`; its size, or 0 if it is
/// not there.
static int64_t takeAxis(std::string &mesh, StringRef axis) {
  SmallVector<StringRef> kept;
  int64_t size = 0;
  for (StringRef entry : llvm::split(mesh, ',')) {
    auto [name, number] = entry.split('=');
    if (name.trim() == axis)
      number.trim().getAsInteger(10, size);
    else if (!entry.trim().empty())
      kept.push_back(entry);
  }
  mesh = llvm::join(kept, ",");
  return size;
}

std::optional<Pipe> takePipe(Options &options, std::string &error) {
  if (!options.sections.empty()) {
    error = "sections is given, expected pins such as "
            "'layers.[0-5].*:pipe=at(0)'";
    return std::nullopt;
  }
  Pipe pipe;
  std::vector<std::string> others;
  for (const std::string &text : options.pins) {
    auto pin = parseSectionPin(text);
    if (!pin) {
      others.push_back(text);
      continue;
    }
    if (!pipe.axis.empty() && pipe.axis != pin->axis) {
      error = "pin '" + text + "' places a section on axis '" +
              pin->axis.str() + "', and another one on axis '" + pipe.axis +
              "', expected one axis for all sections";
      return std::nullopt;
    }
    pipe.axis = pin->axis.str();
    pipe.sections += (pipe.sections.empty() ? "" : ";") +
                     (pin->globs + ":" + Twine(pin->point)).str();
  }
  if (pipe.axis.empty())
    return std::nullopt;
  pipe.mesh = options.mesh;
  pipe.order = options.order.empty() ? "1f1b" : options.order;
  pipe.points = takeAxis(options.mesh, pipe.axis);
  options.pins = std::move(others);
  if (pipe.points < 1) {
    error = "pins place sections on axis '" + pipe.axis +
            "', but the mesh is '" + pipe.mesh + "', expected one with '" +
            pipe.axis + "'";
    return std::nullopt;
  }
  if (options.micro > 1) {
    error = "micro is " + std::to_string(options.micro) +
            " beside sections on axis '" + pipe.axis +
            "', expected 1: the microbatches of a pipeline are those of "
            "accumulate";
    return std::nullopt;
  }
  // A plan is of a mesh, if only of one device.
  if (options.mesh.empty()) {
    options.mesh = kOneDevice;
    pipe.mesh += (Twine(",") + kOneDevice).str();
  }
  return pipe;
}

void addPipePasses(OpPassManager &manager, const Pipe &pipe, StringRef stage) {
  if (stage == "accumulate")
    manager.addPass(
        createAssignSectionsPass({pipe.axis, pipe.points, pipe.sections}));
  if (stage == "shard")
    manager.addPass(createPlaceSectionsPass({pipe.mesh}));
  if (stage == "localize")
    manager.addPass(createOutlineActionsPass({pipe.order}));
}

bool isOfActions(StringRef stage) {
  return stage == "duplex" || stage == "schedule" || stage == "lower";
}

} // namespace tandem
