//===- Pipe.cpp - a pipeline among the options ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipe.h"
#include "tandem/Orders/Order.h"
#include "tandem/Support/FormText.h"
#include "tandem/Support/TextFile.h"
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

namespace {
/// Takes what is said of a pipeline out of options.
class PipeTaker {
public:
  PipeTaker(Options &options, std::string &error)
      : options(options), error(error) {}
  std::optional<Pipe> run();

private:
  bool fail(const Twine &message) {
    error = message.str();
    return false;
  }
  bool takePins();
  bool takePreset();
  bool findAxis();
  bool readOrder();
  bool takeSections();
  bool checkOthers();
  std::optional<std::vector<unsigned>> findPlaces(size_t number);

  Options &options;
  std::string &error;
  Pipe pipe;
  bool isPreset = false;
  /// What the file of an order says; nothing of an order with a name.
  std::optional<orders::Order> order;
};
} // namespace

/// The preset that is the default one inside of sections.
static constexpr StringLiteral kPreset = "pipeline";
/// The pipe axis, where no pin names another one.
static constexpr StringLiteral kAxis = "pipe";

bool PipeTaker::takePins() {
  std::vector<std::string> others;
  for (const std::string &text : options.pins) {
    auto pin = parseSectionPin(text);
    if (!pin) {
      others.push_back(text);
      continue;
    }
    if (!options.sections.empty())
      return fail("pin '" + text +
                  "' beside sections, expected one of the two");
    if (!pipe.axis.empty() && pipe.axis != pin->axis)
      return fail("pin '" + text + "' places a section on axis '" + pin->axis +
                  "', and another one on axis '" + pipe.axis +
                  "', expected one axis for all sections");
    pipe.axis = pin->axis.str();
    pipe.sections += (pipe.sections.empty() ? "" : ";") +
                     (pin->globs + ":" + Twine(pin->point)).str();
  }
  options.pins = std::move(others);
  return true;
}

bool PipeTaker::takePreset() {
  isPreset = options.preset == kPreset;
  if (isPreset)
    options.preset.clear();
  return true;
}

/// Takes the axis out of the mesh. No axis and no error: there is no pipeline.
bool PipeTaker::findAxis() {
  bool isPinned = !pipe.axis.empty();
  if (!isPinned)
    pipe.axis = kAxis;
  pipe.mesh = options.mesh;
  pipe.points = takeAxis(options.mesh, pipe.axis);
  std::string expected = "the mesh is '" + pipe.mesh +
                         "', expected one with '" + pipe.axis + "', such as '" +
                         pipe.axis + "=2'";
  if (pipe.points > 0)
    return true;
  pipe.axis.clear();
  if (isPinned)
    return fail("pins place sections on an axis, but " + expected);
  if (!options.sections.empty())
    return fail("sections is given, but " + expected);
  if (isPreset)
    return fail("plan '" + kPreset + "' is given, but " + expected);
  if (!options.order.empty())
    return fail("order is '" + options.order + "', but " + expected);
  return true;
}

bool PipeTaker::readOrder() {
  pipe.order = options.order.empty() ? "1f1b" : options.order;
  if (pipe.order == "1f1b" || pipe.order == "gpipe")
    return true;
  std::string why;
  auto text = readTextFile(pipe.order, why);
  if (!text)
    return fail("cannot read the order '" + pipe.order + "': " + why);
  order = orders::parseOrder(*text, pipe.order, error);
  if (!order)
    return false;
  int64_t rows = order->points.size();
  if (rows != pipe.points)
    return fail(pipe.order + ": found " + Twine(rows) + " rows, but axis '" +
                pipe.axis + "' has " + Twine(pipe.points) +
                " points, expected a row for each");
  return true;
}

/// The point of each section: that in whose row it stands, or else the next one
/// in turn.
std::optional<std::vector<unsigned>> PipeTaker::findPlaces(size_t number) {
  std::vector<unsigned> places;
  for (size_t section = 0; section < number; ++section)
    places.push_back(section % pipe.points);
  if (!order)
    return places;
  std::vector<bool> isFound(number);
  for (auto [point, row] : llvm::enumerate(order->points))
    for (const orders::Action &action : row) {
      if (action.section >= number) {
        fail(pipe.order + ":" + Twine(point + 1) + ": found section " +
             Twine(action.section) + ", but there are " + Twine(number) +
             " sections");
        return std::nullopt;
      }
      places[action.section] = point;
      isFound[action.section] = true;
    }
  if (auto missing = llvm::find(isFound, false); missing != isFound.end()) {
    fail(pipe.order + ": section " + Twine(missing - isFound.begin()) +
         " stands in no row, expected the actions of all " + Twine(number) +
         " sections");
    return std::nullopt;
  }
  return places;
}

/// As many sections as an order names.
static size_t countSections(const orders::Order &order) {
  size_t number = 0;
  for (const auto &row : order.points)
    for (const orders::Action &action : row)
      number = std::max<size_t>(number, action.section + 1);
  return number;
}

/// Globs of parameters, or a number; without either a section for each point,
/// or as many as the order has.
bool PipeTaker::takeSections() {
  if (!pipe.sections.empty())
    return true; // of pins
  size_t number = order ? countSections(*order) : pipe.points;
  bool isNumber =
      options.sections.empty() ||
      (options.sections.size() == 1 &&
       !StringRef(options.sections.front()).trim().getAsInteger(10, number));
  if (!isNumber)
    number = options.sections.size();
  if (int64_t(number) < pipe.points || number >= orders::kMaxNumber)
    return fail("sections is " + Twine(number) + ", but axis '" + pipe.axis +
                "' has " + Twine(pipe.points) +
                " points, expected at least one for each");
  auto places = findPlaces(number);
  if (!places)
    return false;
  if (isNumber) {
    pipe.sections = std::to_string(number) + "@" +
                    llvm::join(llvm::map_range(*places,
                                               [](unsigned point) {
                                                 return std::to_string(point);
                                               }),
                               ",");
    return true;
  }
  for (auto [globs, point] : llvm::zip_equal(options.sections, *places))
    pipe.sections += globs + ":" + std::to_string(point) + ";";
  return true;
}

bool PipeTaker::checkOthers() {
  if (options.micro > 1)
    return fail("micro is " + Twine(options.micro) +
                " beside sections on axis '" + pipe.axis +
                "', expected 1: the microbatches of a pipeline are those of "
                "accumulate");
  return true;
}

std::optional<Pipe> PipeTaker::run() {
  if (!takePins() || !takePreset() || !findAxis() || pipe.axis.empty() ||
      !readOrder() || !takeSections() || !checkOthers())
    return std::nullopt;
  // A plan is of a mesh, if only of one device.
  if (options.mesh.empty()) {
    options.mesh = kOneDevice;
    pipe.mesh += (Twine(",") + kOneDevice).str();
  }
  return std::move(pipe);
}

std::optional<Pipe> takePipe(Options &options, std::string &error) {
  return PipeTaker(options, error).run();
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
