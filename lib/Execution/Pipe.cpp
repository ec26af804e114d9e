//===- Pipe.cpp - a pipeline among the options ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipe.h"
#include "PipeLines.h"
#include "tandem/Cost/Cluster.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Points.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/FormText.h"
#include "tandem/Support/TextFile.h"
#include "tandem/Transforms/Cut/Cut.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/Outline/Outline.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <set>

using namespace mlir;

namespace tandem {

namespace {
/// `layers.[0-5].*:pipe=at(0),data=gather(0)`.
struct PinParts {
  StringRef globs, axis;
  /// No point: the pin is none of a section.
  std::optional<int64_t> point;
  /// Forms on other axes, with commas between.
  std::string others;
};
} // namespace

static PinParts splitPin(StringRef text) {
  PinParts parts;
  StringRef forms;
  std::tie(parts.globs, forms) = text.rsplit(':');
  for (StringRef form : llvm::split(forms, ',')) {
    auto [axis, place] = form.split('=');
    auto code = form::parse(place.trim().str());
    if (code && *code <= form::kAtFirst && !parts.point) {
      parts.axis = axis.trim();
      parts.point = form::kAtFirst - *code;
    } else {
      parts.others += (parts.others.empty() ? "" : ",") + form.str();
    }
  }
  return parts;
}

/// The mesh of a section that is not split.
static constexpr StringLiteral kOneDevice = "data=1";

/// Takes `axis` out of a text such as `pipe=2,data=4`; its size, or 0 where it
/// is not there. What is no mesh stays, for the plan to report.
static int64_t takeAxis(std::string &mesh, StringRef axis) {
  SmallVector<StringRef> kept;
  int64_t size = 0;
  for (StringRef entry : llvm::split(mesh, ',')) {
    auto [name, number] = entry.split('=');
    if (name.trim() != axis || size > 0)
      kept.push_back(entry);
    else if (number.trim().getAsInteger(10, size) || size < 1)
      return 0;
  }
  if (size > 0)
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
  bool takeLines();
  bool checkLines();
  bool checkCompared();
  bool readOrder();
  bool takePlaces();
  bool takeSearched();
  std::vector<unsigned> listPlaces() const;
  bool parseRows();
  bool takeSections();
  bool checkOthers();
  std::optional<std::vector<unsigned>> findPlaces(size_t number);

  Options &options;
  std::string &error;
  Pipe pipe;
  bool isPreset = false;
  /// Of a plan file.
  std::optional<PipeLines> lines;
  /// What asks for a pipe axis.
  std::string who;
  /// Of an order with a name.
  const orders::Schedule *schedule = nullptr;
  /// What the file of an order says.
  std::optional<orders::Order> order;
};
} // namespace

/// The order that is searched for.
static constexpr StringLiteral kSearchedOrder = "search";

/// The pipe axis, where no pin names another one.
static constexpr StringLiteral kAxis = "pipe";

bool PipeTaker::takePins() {
  std::vector<std::string> others;
  for (const std::string &text : options.pins) {
    PinParts pin = splitPin(text);
    if (!pin.point || !pin.others.empty())
      others.push_back(pin.point ? (pin.globs + ":" + pin.others).str() : text);
    if (!pin.point)
      continue;
    if (!options.sections.empty())
      return fail("pin '" + text +
                  "' beside sections, expected one of the two");
    if (!pipe.axis.empty() && pipe.axis != pin.axis)
      return fail("pin '" + text + "' places a section on axis '" + pin.axis +
                  "', and another one on axis '" + pipe.axis +
                  "', expected one axis for all sections");
    pipe.axis = pin.axis.str();
    pipe.sections += (pipe.sections.empty() ? "" : ";") +
                     (pin.globs.trim() + ":" + Twine(*pin.point)).str();
  }
  options.pins = std::move(others);
  who = "pins place sections on axis '" + pipe.axis + "'";
  return true;
}

/// Whether one of the forms of a pin is on `axis`.
static bool namesAxis(StringRef pin, StringRef axis) {
  for (StringRef form : llvm::split(pin.rsplit(':').second, ','))
    if (form.contains('=') && form.split('=').first.trim() == axis)
      return true;
  return false;
}

/// A plan file may say what the options do not, and the same.
bool PipeTaker::takeLines() {
  if (options.planFile.empty())
    return true;
  lines = readPipeLines(options.planFile, error);
  if (!lines)
    return error.empty();
  auto clash = [&](const Twine &what, StringRef found, StringRef given) {
    return fail("plan file '" + options.planFile + "', line " +
                Twine(lines->line) + ": a pipeline with " + what + " '" +
                found + "', but " + what + " is '" + given +
                "', expected the same, or none beside the file");
  };
  std::string order = lines->order.empty() ? "of rows" : lines->order;
  if (!options.sections.empty())
    return fail(
        "plan file '" + options.planFile + "', line " + Twine(lines->line) +
        ": a pipeline with sections of its own, but sections is '" +
        llvm::join(options.sections, ";") + "', expected none beside the file");
  if (!options.mesh.empty() && options.mesh != lines->mesh)
    return clash("mesh", lines->mesh, options.mesh);
  if (!options.order.empty() && options.order != order)
    return clash("order", order, options.order);
  if (options.accumulate > 1 && lines->accumulate > 0 &&
      options.accumulate != lines->accumulate)
    return clash("accumulate", std::to_string(lines->accumulate),
                 std::to_string(options.accumulate));
  if (options.micro > 1 && options.micro != lines->strands)
    return clash("micro", std::to_string(lines->strands),
                 std::to_string(options.micro));
  if (options.sumPiece >= 0 && lines->sumPiece >= 0 &&
      options.sumPiece != lines->sumPiece)
    return clash("sum-piece", std::to_string(lines->sumPiece),
                 std::to_string(options.sumPiece));
  if (options.sumPiece < 0)
    options.sumPiece = lines->sumPiece;
  options.accumulate = std::max(options.accumulate, lines->accumulate);
  options.micro = lines->strands;
  pipe.joined = lines->joined;
  options.mesh = lines->mesh;
  pipe.axis = lines->axis;
  for (const PipeLines::Section &section : lines->sections)
    pipe.sections += section.globs + ":" + std::to_string(section.point) + ";";
  who = "plan file '" + options.planFile + "' places sections on axis '" +
        pipe.axis + "'";
  return true;
}

bool PipeTaker::takePreset() {
  isPreset = options.preset == kPipelinePreset;
  if (isPreset)
    options.preset.clear();
  return true;
}

/// Takes the axis out of the mesh. No axis and no error: there is no pipeline.
bool PipeTaker::findAxis() {
  if (!pipe.axis.empty()) {
  } else if (!options.sections.empty()) {
    who = "sections is given";
  } else if (isPreset) {
    who = "plan '" + std::string(kPipelinePreset) + "' is given";
  } else {
    who = options.order.empty() ? "" : "order is '" + options.order + "'";
  }
  if (pipe.axis.empty())
    pipe.axis = kAxis;
  pipe.given = options.mesh;
  pipe.points = takeAxis(options.mesh, pipe.axis);
  if (pipe.points < 1 && !who.empty())
    return fail(who + ", but the mesh is '" + pipe.given +
                "', expected one with '" + pipe.axis + "', such as '" +
                pipe.axis + "=2'");
  if (pipe.points >= orders::kMaxNumber)
    return fail("the mesh is '" + pipe.given + "', expected fewer than " +
                Twine(orders::kMaxNumber) + " points of the pipe axis '" +
                pipe.axis + "'");
  return true;
}

/// Whether a plan file has sections for all points, and microbatches for its
/// order.
bool PipeTaker::checkLines() {
  if (!lines)
    return true;
  auto failAt = [&](const Twine &why) {
    return fail("plan file '" + options.planFile + "', line " +
                Twine(lines->line) + ": " + why);
  };
  llvm::SmallBitVector used(pipe.points);
  for (const PipeLines::Section &section : lines->sections)
    if (section.point >= 0 && section.point < pipe.points)
      used.set(section.point);
  if (int unused = used.flip().find_first(); unused >= 0)
    return failAt("no section lies on point " + Twine(unused) + " of axis '" +
                  pipe.axis + "', expected at least one on each of " +
                  Twine(pipe.points));
  for (int64_t point : lines->joined)
    if (point >= pipe.points)
      return failAt("joined has point " + Twine(point) + ", but axis '" +
                    pipe.axis + "' has " + Twine(pipe.points));
  const orders::Schedule *named = orders::findSchedule(lines->order);
  std::string why;
  bool isMade =
      !named || lines->accumulate == 0 ||
      named->make({unsigned(pipe.points), unsigned(lines->sections.size()),
                   unsigned(lines->accumulate)},
                  why);
  return isMade || failAt(why);
}

/// The plans that are compared are those inside of sections: these have to be
/// the same.
bool PipeTaker::checkCompared() {
  if (options.compareWith.empty())
    return true;
  auto others = readPipeLines(options.compareWith, error);
  if (others && lines)
    others->line = lines->line;
  return error.empty() &&
         (others == lines ||
          fail("plan files '" + options.planFile + "' and '" +
               options.compareWith +
               "' are of pipelines with other sections or orders, expected "
               "plans of one pipeline: --timeline says how long each takes"));
}

/// Leaves an order with a name to the pass.
bool PipeTaker::readOrder() {
  pipe.order = options.order.empty() ? orders::getSchedules().front().name
                                     : options.order;
  if (lines) {
    pipe.order =
        lines->order.empty() ? options.planFile + " rows" : lines->order;
    pipe.rows = lines->rows;
  }
  if (pipe.order == kSearchedOrder && !takeSearched())
    return false;
  schedule = orders::findSchedule(pipe.order);
  if (!schedule && pipe.rows.empty()) {
    std::string why;
    auto text = readTextFile(pipe.order, why);
    if (!text)
      return fail("cannot read the order '" + pipe.order + "': " + why +
                  "; expected the file of an order, or " +
                  orders::listSchedules());
    pipe.rows = std::move(*text);
  }
  return (schedule && pipe.rows.empty()) || parseRows();
}

/// `4@0,1,1,0` says where each of four sections lies.
bool PipeTaker::takePlaces() {
  if (options.sections.size() != 1)
    return true;
  auto [digits, places] = StringRef(options.sections.front()).split('@');
  unsigned number = 0;
  if (places.empty() || digits.trim().getAsInteger(10, number))
    return true;
  if (number < pipe.points || number != places.count(',') + 1)
    return fail("sections is '" + options.sections.front() +
                "', expected the point of each section, at least one for each "
                "of " +
                Twine(pipe.points) + " points");
  pipe.sections = options.sections.front();
  return true;
}

/// The point of each section: what pins, lines or a list of points say, else
/// section i lies on point i mod p. What is no point is left to the pass.
std::vector<unsigned> PipeTaker::listPlaces() const {
  std::vector<unsigned> places;
  auto add = [&](StringRef text) {
    if (text.trim().getAsInteger(10, places.emplace_back()))
      places.back() = pipe.points;
  };
  StringRef text = pipe.sections;
  if (text.contains('@'))
    for (StringRef point : llvm::split(text.split('@').second, ','))
      add(point);
  else
    for (StringRef section : llvm::split(text, ';'))
      if (!section.trim().empty())
        add(section.rsplit(':').second);
  size_t number = pipe.points;
  if (options.sections.size() == 1)
    StringRef(options.sections.front()).trim().getAsInteger(10, number);
  else if (!options.sections.empty())
    number = options.sections.size();
  // More are refused when they are taken.
  number = std::min<size_t>(number, orders::kMaxNumber + 1);
  for (size_t i = 0; text.empty() && i < number; ++i)
    places.push_back(i % pipe.points);
  return places;
}

/// The search starts at an order with I and W: of a schedule that has such
/// sections, or one microbatch behind the other.
bool PipeTaker::takeSearched() {
  if (!options.stopAfter.empty())
    return fail("order is 'search', but compilation ends behind the stage " +
                options.stopAfter +
                ", expected all stages: the search times a Program");
  pipe.isSearched = true;
  std::vector<unsigned> places = listPlaces();
  if (options.sections.empty() && pipe.sections.empty())
    options.sections = {std::to_string(places.size())};
  if (places.size() * options.accumulate > orders::kMaxNumber)
    return fail("order is 'search', with " + Twine(places.size()) +
                " sections or more and " + Twine(options.accumulate) +
                " microbatches, expected a product of at most " +
                Twine(orders::kMaxNumber));
  auto numMicrobatches = static_cast<unsigned>(options.accumulate);
  for (StringRef name : {"zb-h1", "interleaved-zb", "zb-v"}) {
    std::string why;
    pipe.order = name.str();
    if (orders::findSchedule(name.str())
            ->place(places, pipe.points, numMicrobatches, why))
      return true;
  }
  auto isPoint = [&](unsigned point) { return point < pipe.points; };
  if (llvm::all_of(places, isPoint)) {
    pipe.order = kSearchedOrder;
    pipe.rows =
        orders::print(orders::makeInTurn(places, pipe.points, numMicrobatches));
  }
  return true;
}

bool PipeTaker::parseRows() {
  order = orders::parseOrder(pipe.rows, pipe.order, error);
  if (!order)
    return false;
  int64_t rows = order->points.size();
  if (rows != pipe.points)
    return fail(
        pipe.order + ": found " + Twine(rows) + " rows, but axis '" +
        pipe.axis + "' has " + Twine(pipe.points) +
        " points, expected a row for each" +
        (order->points.back().empty() ? "; a blank line is a row" : ""));
  return true;
}

/// The point of each section: that of the schedule, or that in whose row it
/// stands.
std::optional<std::vector<unsigned>> PipeTaker::findPlaces(size_t number) {
  std::vector<unsigned> places(number);
  if (schedule) {
    for (size_t section = 0; section < number; ++section)
      places[section] = schedule->getPoint(section, pipe.points);
    return places;
  }
  std::vector<bool> isFound(number);
  for (auto [point, row] : llvm::enumerate(order->points))
    for (const orders::Action &action : row) {
      if (action.section >= number) {
        fail(pipe.order + ":" + Twine(point + 1) + ": found section " +
             Twine(action.section) + ", but sections is " + Twine(number) +
             ", expected as many as the order has, or none beside it");
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

/// Globs of parameters, or a number; without either as many as the order has.
bool PipeTaker::takeSections() {
  if (!pipe.sections.empty())
    return true; // of pins, or lines
  int64_t number =
      order ? countSections(*order) : schedule->getDefaultSections(pipe.points);
  bool isNumber =
      options.sections.empty() ||
      (options.sections.size() == 1 &&
       !StringRef(options.sections.front()).trim().getAsInteger(10, number));
  if (!isNumber)
    number = options.sections.size();
  if (number < pipe.points || number >= int64_t(orders::kMaxNumber))
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
  for (auto [section, globs] : llvm::enumerate(options.sections))
    if (StringRef(globs).trim().empty())
      return fail("section " + Twine(section) +
                  " of sections is empty, expected names of parameters");
  for (auto [globs, point] : llvm::zip_equal(options.sections, *places))
    pipe.sections += globs + ":" + std::to_string(point) + ";";
  return true;
}

bool PipeTaker::checkOthers() {
  for (const std::string &pin : options.pins)
    if (namesAxis(pin, pipe.axis))
      return fail("pin '" + pin + "' splits a tensor over the pipe axis '" +
                  pipe.axis + "', expected '" + pipe.axis +
                  "=at(POINT)', or a form on another axis");
  int64_t product = 0;
  if (llvm::MulOverflow(options.accumulate, options.micro, product))
    return fail("accumulate is " + Twine(options.accumulate) +
                " and micro is " + Twine(options.micro) +
                ", expected fewer microbatches");
  if (options.timeline && !options.stopAfter.empty())
    return fail("timeline is given beside sections on axis '" + pipe.axis +
                "' and an end behind the stage " + options.stopAfter +
                ", expected all stages: it is the timeline of the Program");
  return true;
}

std::optional<Pipe> PipeTaker::run() {
  if (!takePins() || !takeLines() || !checkCompared() || !takePreset() ||
      !findAxis() || pipe.points < 1 || !checkLines() || !takePlaces() ||
      !readOrder() || !takeSections() || !checkOthers())
    return std::nullopt;
  // A plan is of a mesh, if only of one device.
  pipe.mesh = pipe.given;
  pipe.accumulate = options.accumulate;
  pipe.sumPiece = options.sumPiece;
  if (options.micro > 1)
    pipe.strands = std::exchange(options.micro, 1);
  options.accumulate *= pipe.strands;
  if (options.mesh.empty()) {
    options.mesh = kOneDevice;
    pipe.mesh += (Twine(",") + kOneDevice).str();
  }
  // The stages in front of the points know the orders that have a name.
  options.order = order && orders::runsForwardFirst(*order)
                      ? orders::getForwardFirstSchedule().name
                      : pipe.order;
  return std::move(pipe);
}

std::optional<Pipe> takePipe(Options &options, std::string &error) {
  return PipeTaker(options, error).run();
}

std::optional<Pipe> readPipe(ModuleOp module, std::string &mesh) {
  auto get = [&](StringRef name) {
    auto text = module->getAttrOfType<StringAttr>(name);
    return text ? text.str() : std::string();
  };
  Pipe pipe;
  pipe.axis = get(spmd::kPipeAttrName);
  if (pipe.axis.empty())
    return std::nullopt;
  pipe.order = get(spmd::kOrderAttrName);
  pipe.rows = get(spmd::kRowsAttrName);
  pipe.mesh = pipe.given = get(spmd::kWholeMeshAttrName);
  std::string ofPlan = pipe.mesh;
  pipe.points = takeAxis(ofPlan, pipe.axis);
  if (mesh.empty())
    mesh = ofPlan;
  if (auto strands = module->getAttrOfType<IntegerAttr>(spmd::kStrandsAttrName))
    pipe.strands = strands.getInt();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (step && !step.isExternal())
    pipe.accumulate = spmd::getIterations(step) / pipe.strands;
  return pipe;
}

/// The axes of `mesh`, a text, by the prices of a cluster; none if it does not
/// fit, which the plan reports.
static std::vector<cost::Axis> priceAxes(StringRef mesh,
                                         const std::string &path) {
  std::vector<cost::Axis> axes;
  for (StringRef entry : llvm::split(mesh, ',')) {
    auto [name, size] = entry.split('=');
    axes.emplace_back().name = name.trim().str();
    if (size.trim().getAsInteger(10, axes.back().size))
      return {};
  }
  std::string error;
  auto cluster = cost::readCluster(path, error);
  bool isPriced = cluster && cost::priceMesh(*cluster, axes, error);
  return isPriced ? axes : std::vector<cost::Axis>();
}

/// Axes over whose devices a part of a transfer each, and an all-gather where
/// they arrive, take less time than the whole from each of them: by their
/// bytes, where all points send at once.
static SmallVector<std::string> findSplitting(const Pipe &pipe,
                                              const std::string &cluster) {
  SmallVector<std::string> found;
  if (cluster.empty())
    return found;
  std::vector<cost::Axis> axes = priceAxes(pipe.mesh, cluster);
  auto getRate = [](const cost::Axis &axis) {
    return axis.rates[size_t(cost::Change::AllGather)].secondsPerByte;
  };
  auto own = llvm::find_if(
      axes, [&](const cost::Axis &axis) { return axis.name == pipe.axis; });
  if (own == axes.end() || own->size < 2)
    return found;
  // An all-gather moves all but a device's own.
  auto points = static_cast<double>(own->size);
  double whole = getRate(*own) * points / (points - 1);
  for (const cost::Axis &axis : axes) {
    double saved = whole * (1 - 1 / static_cast<double>(axis.size));
    if (axis.name != pipe.axis && !axis.isTime && saved > getRate(axis))
      found.push_back(axis.name);
  }
  return found;
}

void addPassesBefore(OpPassManager &manager, const Pipe &pipe, StringRef stage,
                     const std::string &cluster) {
  if (stage == "localize")
    manager.addPass(
        createPlaceSectionsPass({pipe.mesh, findSplitting(pipe, cluster)}));
}

void addPassesBehind(OpPassManager &manager, const Pipe &pipe,
                     StringRef stage) {
  if (stage == "accumulate")
    manager.addPass(createAssignSectionsPass(
        {pipe.axis, pipe.points, pipe.sections, pipe.mesh, pipe.order,
         pipe.rows, pipe.strands}));
  if (stage == "localize") {
    manager.addPass(createOutlineActionsPass(
        {pipe.order, pipe.rows, llvm::to_vector(pipe.joined), pipe.strands}));
    manager.addPass(createNumberMovementsPass());
  }
}

std::string addPipe(const Pipe &pipe, ModuleOp module, StringRef plan) {
  PipeLines lines;
  lines.axis = pipe.axis;
  lines.mesh = pipe.given;
  lines.rows = pipe.rows;
  lines.accumulate = pipe.accumulate;
  lines.strands = pipe.strands;
  lines.joined = pipe.joined;
  lines.sumPiece = pipe.sumPiece;
  if (pipe.rows.empty())
    lines.order = pipe.order;
  auto step = module.lookupSymbol<func::FuncOp>("step");
  auto points =
      module->getAttrOfType<DenseI64ArrayAttr>(spmd::kSectionsAttrName);
  if (!step || !points || plan.empty())
    return plan.str();
  for (auto [names, point] :
       llvm::zip_equal(nameSections(step), points.asArrayRef()))
    lines.sections.push_back({point, llvm::join(names, ",")});
  return addPipeLines(plan, lines);
}

//===----------------------------------------------------------------------===//
// Memory of a point
//===----------------------------------------------------------------------===//

/// What a rank holds, the largest first: bytes and a name.
static std::vector<std::pair<int64_t, std::string>>
listHeld(const rt::Program &program, int64_t rank) {
  std::vector<std::pair<int64_t, std::string>> parts;
  int64_t others = rt::heldBytes(program, rank);
  auto add = [&](const auto &entry) {
    if (!rt::holds(program, entry.form, rank))
      return;
    parts.emplace_back(rt::localBytes(entry), "'" + entry.name + "'");
    others -= rt::localBytes(entry);
  };
  for (const rt::Argument &argument : program.arguments)
    add(argument);
  for (const rt::Result &result : program.results)
    if (result.place.space == rt::Space::Result)
      add(result);
  parts.emplace_back(others, "activations, gradients and what is received");
  llvm::sort(parts, std::greater<>());
  return parts;
}

/// The sections of a point: `section 1 (layers.1.*)`.
static std::string describeSections(ModuleOp module, int64_t point) {
  auto points =
      module->getAttrOfType<DenseI64ArrayAttr>(spmd::kSectionsAttrName);
  auto step = module.lookupSymbol<func::FuncOp>("step");
  std::string text;
  for (auto [section, names] : llvm::enumerate(nameSections(step)))
    if (points[section] == point)
      text += (text.empty() ? "" : ", ") + ("section " + Twine(section)).str() +
              " (" + printSectionNames(names) + ")";
  return text;
}

/// Section, microbatch.
using InFlight = std::pair<StringRef, uint64_t>;

/// `4 microbatches of section 0`.
static std::string printCounts(const std::set<InFlight> &all) {
  std::map<StringRef, unsigned> ofSections;
  for (auto [section, microbatch] : all)
    ++ofSections[section];
  std::string text;
  for (auto [section, count] : ofSections)
    text += (text.empty() ? "" : " and ") + std::to_string(count) +
            (count == 1 ? " microbatch" : " microbatches") + " of section " +
            section.str();
  return text;
}

/// From when on a point has the most microbatches between their first and last
/// passes: `0F3 on, with 4 microbatches of section 0 in flight`.
static std::string describeMoment(ModuleOp module, int64_t point) {
  auto function = module.lookupSymbol<func::FuncOp>(("p" + Twine(point)).str());
  auto passes = llvm::make_filter_range(
      function.getOps<sched::RunOp>(),
      [](sched::RunOp run) { return run.isOfSection(); });
  auto getKey = [](sched::RunOp run) {
    return InFlight(run.getSection(), run.getMicrobatch().value_or(0));
  };
  std::map<InFlight, Operation *> last;
  for (sched::RunOp run : passes)
    last[getKey(run)] = run;
  std::set<InFlight> inFlight, most;
  std::string moment;
  for (sched::RunOp run : passes) {
    inFlight.insert(getKey(run));
    if (inFlight.size() > most.size()) {
      most = inFlight;
      moment = run.getPassName();
    }
    if (last[getKey(run)] == run)
      inFlight.erase(getKey(run));
  }
  return moment + " on, with " + printCounts(most) + " in flight";
}

std::vector<int64_t> getLimits(const Options &options, int64_t numRanks,
                               std::string &error) {
  if (options.memory >= 0)
    return std::vector<int64_t>(numRanks, options.memory);
  if (options.cluster.empty())
    return {};
  auto cluster = cost::readCluster(options.cluster, error);
  if (!cluster)
    return {};
  std::vector<int64_t> limits = cluster->getMemory();
  if (int64_t(limits.size()) == numRanks)
    return limits;
  error = "cluster '" + cluster->name + "' has " +
          std::to_string(limits.size()) + " devices, expected " +
          std::to_string(numRanks) + ", one for each rank";
  return {};
}

std::vector<int64_t> findJoinable(ModuleOp module, const rt::Program &program,
                                  ArrayRef<int64_t> limits) {
  auto isInput = [](sched::RunOp run) {
    return run.isOfSection() && run.getAction().ends_with(".I");
  };
  std::set<int64_t> found;
  for (auto [rank, limit] : llvm::enumerate(limits)) {
    int64_t point = program.rankToProgram[rank]; // each point has one
    auto function =
        module.lookupSymbol<func::FuncOp>(("p" + Twine(point)).str());
    if (rt::heldBytes(program, rank) > limit &&
        llvm::any_of(function.getOps<sched::RunOp>(), isInput))
      found.insert(point);
  }
  return {found.begin(), found.end()};
}

std::string describeExcess(ModuleOp module, const rt::Program &program,
                           ArrayRef<int64_t> limits, int64_t &held,
                           int64_t &limit) {
  int64_t rank = 0, excess = 0;
  for (auto [other, limit] : llvm::enumerate(limits))
    if (int64_t over = rt::heldBytes(program, other) - limit; over > excess) {
      rank = other;
      excess = over;
    }
  if (excess == 0)
    return "";
  limit = limits[rank];
  held = limit + excess;
  int64_t point = program.rankToProgram[rank]; // each point has one
  constexpr size_t kMostListed = 3;
  std::string largest;
  auto parts = listHeld(program, rank);
  for (auto &[size, name] : ArrayRef(parts).take_front(kMostListed))
    largest += (largest.empty() ? "" : ", ") + name + " " + printByteSize(size);
  return ("point " + Twine(point) + " holds " + printByteSize(held) +
          " on each rank, " + printByteSize(excess) +
          " more than the limit of " + printByteSize(limit) + ": it has " +
          describeSections(module, point) + "; most is held from " +
          describeMoment(module, point) + "; largest: " + largest)
      .str();
}

bool isOfActions(StringRef stage) {
  return stage == "duplex" || stage == "schedule" || stage == "lower";
}

} // namespace tandem
