//===- FitMemory.cpp - plans again until the Program fits ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"
#include "HostLimit.h"
#include "PipeLines.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Support/ByteSize.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tandem {

/// How often a step is planned again whose Program exceeds its limit.
static constexpr unsigned kMaxRepeats = 3;
/// Of a pipeline, each limit of a plan as a share of the one above.
static constexpr double kRung = 0.9;
/// A plan within so much of the best one gains nothing by another offer.
static constexpr double kNear = 0.02;

//===----------------------------------------------------------------------===//
// Recomputation
//===----------------------------------------------------------------------===//

/// Whether a user gives a limit of memory, or a cluster that has one.
bool Compilation::hasMemoryLimit() const {
  return options.memory >= 0 || !options.cluster.empty();
}

/// Whether a file has a plan, which may be of a step with the offer.
bool Compilation::isGiven() const {
  return !options.planFile.empty() || !options.start.empty();
}

LogicalResult Compilation::keepSource(const Stage *first) {
  auto step = module->lookupSymbol<func::FuncOp>("step");
  recompute.pins = ofStages.pins;
  if (first->name != "import" || !step)
    return success();
  error = findMissingPin(options);
  if (!error.empty())
    return failure();
  markStored(options, step);
  ofStages.hostMemory = findHostLimit(options, step, error);
  ofStages.recompute |= llvm::any_of(options.pins, [&](StringRef pin) {
    return asksAgain(pin) || asksToSend(step, pin);
  });
  if (hasMemoryLimit() || isGiven())
    recompute.step = module->clone();
  recompute.hostMemory = ofStages.hostMemory;
  recompute.remedy = isGiven() ? "" : suggestHost(options, step);
  if (ofStages.hostMemory <= 0 || isGiven())
    return success(error.empty());
  recompute.mayWithdraw = recompute.competes = llvm::none_of(
      options.pins, [&](StringRef pin) { return asksToSend(step, pin); });
  recompute.statePins = listStatePins(step);
  return success(error.empty());
}

/// What plan files of the other step are read for. It says nothing.
ModuleOp Compilation::getOtherOffer() {
  if (recompute.other || !recompute.step)
    return recompute.other.get();
  ScopedDiagnosticHandler silent(context.get(),
                                 [](Diagnostic &) { return success(); });
  recompute.other = recompute.step->clone();
  std::swap(module, recompute.other);
  ofStages.recompute = !ofStages.recompute;
  bool isMade = true;
  for (const Stage *stage = findStage("import"); stage->name != "plan"; ++stage)
    isMade = isMade && succeeded(runPasses(*stage));
  ofStages.recompute = !ofStages.recompute;
  std::swap(module, recompute.other);
  return isMade ? recompute.other.get() : ModuleOp();
}

/// From here on nothing waits on the host; says so.
std::string Compilation::withdraw() {
  recompute.mayWithdraw = false;
  ofStages.hostMemory = 0;
  return "no value waits on the host";
}

/// Where no plan fits, one thing more that the next one may do; says which.
/// Empty: there is none.
std::string Compilation::offerMore() {
  if (!ofStages.recompute) {
    ofStages.recompute = true;
    return "no plan fits that holds all that is saved: the backward pass may "
           "make values again";
  }
  if (recompute.mayWithdraw)
    return "no Program fits that sends values to the host: " + withdraw();
  if (recompute.statePins.empty())
    return "";
  return "no plan fits that holds the states of the optimizer: " +
         storeStates();
}

/// From here on states lie on the host, and values may wait there again; says
/// so.
std::string Compilation::storeStates() {
  std::vector<std::string> pins = std::exchange(recompute.statePins, {});
  recompute.mayWithdraw = false;
  ofStages.hostMemory = recompute.hostMemory;
  llvm::append_range(recompute.pins, pins);
  ofStages.pins = recompute.pins;
  return "they lie on the host, as with the pins '" + llvm::join(pins, "', '") +
         "'";
}

/// The step as it was in front of the stage import.
void Compilation::offer(const std::string &remark) {
  error.clear();
  module = recompute.step->clone();
  recompute.other = nullptr;
  recompute.lacksMemory = recompute.isOfOther = false;
  repeats = Repeats();
  if (pipe && options.planFile.empty())
    pipe->joined.clear();
  ofStages.memory = getFirstLimit();
  result.ir.clear();
  result.remarks.clear();
  if (!remark.empty())
    result.remarks.push_back("remark: " + remark);
}

/// After an error, with an offer of more where no plan fits; with or without
/// one to make values again, as the step has it that a file has a plan of.
/// False if it is of no use.
bool Compilation::offerAgain() {
  // A plan that is given stays as it is.
  recompute.lacksMemory &= options.planFile.empty();
  if (!recompute.step || isCancelled() ||
      !(recompute.lacksMemory || recompute.isOfOther))
    return false;
  std::string remark;
  ofStages.pins = recompute.pins;
  if (recompute.isOfOther)
    ofStages.recompute = !ofStages.recompute;
  else if (remark = offerMore(); remark.empty())
    return false;
  offer(remark);
  return true;
}

/// Of a step: of its Program, or else of its plan, in s.
double Compilation::predictStep() const {
  if (result.bytes.empty())
    return repeats.cost;
  auto report = simulateMade(result.bytes, options.cluster);
  return report.ok() ? report->seconds : std::numeric_limits<double>::max();
}

/// Of two ways to fit a step into memory, the one whose Program is predicted to
/// be faster; of equal ones the first. True: the other one.
bool Compilation::tryOther(llvm::function_ref<bool()> make) {
  double seconds = predictStep(), cost = repeats.cost;
  CompiledProgram first = result;
  std::optional<Pipe> ofFirst = pipe;
  result.bytes.clear();
  bool isMade = make();
  error.clear();
  bool isAlike = result.bytes.empty() == first.bytes.empty();
  if (isMade && isAlike && predictStep() < seconds)
    return true;
  first.seconds = result.seconds;
  result = std::move(first);
  pipe = std::move(ofFirst);
  repeats.cost = cost;
  return false;
}

/// The step from its import on, with the offer as it is now and no further one.
bool Compilation::tryOffer(const std::string &remark) {
  std::vector<std::string> states = std::exchange(recompute.statePins, {});
  bool isFaster = tryOther([&] {
    ofStages.pins = recompute.pins;
    offer(remark);
    return complete(compileFrom(findStage("import")));
  });
  recompute.statePins = std::move(states);
  return isFaster;
}

/// The search for a plan that may send values to the host finds another one,
/// and not always a better one.
void Compilation::tryWithout() {
  if (recompute.mayWithdraw && !isCancelled())
    tryOffer("plans that send values to the host are slower than what fits "
             "without: " +
             withdraw());
}

/// Whether the limit may have made the plan dearer: it takes most of the limit,
/// and is not known to be near the best of all. Of one that is proven to be the
/// best, that is of those that fit. Searches with a limit of time, and those of
/// layouts that are compared, get no further one.
bool Compilation::isBound() const {
  ModuleOp planned = module.get();
  auto limit = getInteger(planned, spmd::kMemoryAttrName);
  return !pipe && limit && 2 * repeats.peak >= *limit &&
         (repeats.gap == 0 || repeats.gap > kNear) && options.triesSizes &&
         options.searchTimeLimit == 0 && !isCancelled();
}

/// Where a limit binds, what holds all that is saved competes with what makes
/// values again. Where no pin says what lies on the host, all that may lie
/// there, or be made again in its place, competes, too: each by its Program.
void Compilation::tryOthers() {
  if (!recompute.step || !isSearched())
    return;
  if (!ofStages.recompute && isBound()) {
    ofStages.recompute = true;
    tryOffer("plans that hold all that is saved are slower: the backward pass "
             "may make values again");
    return;
  }
  if (!recompute.competes || !ofStages.recompute)
    return;
  tryWithout();
  if (recompute.statePins.empty() || isCancelled())
    return;
  if (!tryOffer("plans that hold the states of the optimizer are slower: " +
                storeStates()))
    return;
  recompute.mayWithdraw = repeats.sent > 0;
  tryWithout();
}

/// Plans that hold less may be faster than joined passes.
void Compilation::trySplit() {
  if (!pipe || pipe->joined.empty() || joins.excess.empty() || isCancelled())
    return;
  tryOther([&] {
    joins.isAllowed = false;
    pipe->joined.clear();
    repeats.count = 0;
    std::tie(repeats.held, repeats.limit, repeats.peak, repeats.excess) =
        std::tie(joins.held, joins.limit, joins.peak, joins.excess);
    return complete(planLess());
  });
}

//===----------------------------------------------------------------------===//
// The limit of memory
//===----------------------------------------------------------------------===//

/// Whether another limit makes another plan. `hidup` knows none; a preset
/// chooses sources.
bool Compilation::isSearched() const {
  if (options.search == "hidup" || !options.planFile.empty())
    return false;
  return !options.search.empty() || options.mesh == "auto" ||
         ofStages.recompute;
}

void Compilation::keepStep() {
  bool isLimited = hasMemoryLimit() || options.hostMemory >= 0;
  if (!isLimited || !isSearched() || repeats.step)
    return;
  repeats.step = module->clone();
  repeats.numRemarks = result.remarks.size();
  repeats.numIR = result.ir.size();
}

/// Where computation may wait for memory that other queues use.
void Compilation::keepDuplexed() {
  auto mesh = (*module)->getAttrOfType<spmd::MeshAttr>(spmd::kMeshAttrName);
  bool isAlone = (!mesh || mesh.getNumRanks() == 1) && repeats.sent == 0;
  if (!(*module)->hasAttr(spmd::kMemoryAttrName) || pipe || isAlone ||
      (*module)->hasAttr(sched::kInFlightAttrName))
    return;
  repeats.duplexed = module->clone();
  repeats.numEarlyRemarks = result.remarks.size();
  repeats.numEarlyIR = result.ir.size();
}

std::string Compilation::describeHeld() const {
  return "the Program holds " + printByteSize(repeats.held) +
         " on each rank, " + printByteSize(repeats.held - repeats.limit) +
         " more than the limit of " + printByteSize(repeats.limit);
}

/// The peak of a plan is of all sections, so that it has no limit at first: the
/// points of its Program do.
int64_t Compilation::getFirstLimit() const {
  return pipe && hasMemoryLimit() ? std::numeric_limits<int64_t>::max()
                                  : options.memory;
}

FailureOr<std::vector<int64_t>> Compilation::getLimitsOfPipe() {
  if (!pipe || !hasMemoryLimit())
    return std::vector<int64_t>();
  std::string why;
  auto mesh = (*module)->getAttrOfType<spmd::MeshAttr>(spmd::kMeshAttrName);
  std::vector<int64_t> limits = getLimits(options, mesh.getNumRanks(), why);
  if (!why.empty())
    return fail(why);
  return limits;
}

/// Of what does not fit, the nearest is kept in mind.
void Compilation::noteExcess(int64_t bytes, const std::string &why) {
  if (bytes >= result.excess && !nearest.empty())
    return;
  result.excess = bytes;
  nearest = why;
}

/// What the Program holds too much; empty: it fits.
FailureOr<std::string> Compilation::findExcess() {
  FailureOr<std::vector<int64_t>> limits = getLimitsOfPipe();
  if (failed(limits))
    return failure();
  if (!limits->empty())
    return describeExcess(*module, program, *limits, repeats.held,
                          repeats.limit);
  auto limit = getInteger(*module, spmd::kMemoryAttrName);
  if (pipe || !limit || repeats.held <= *limit)
    return std::string();
  repeats.limit = *limit;
  return describeHeld();
}

/// Computation does not wait for collectives whose results it does not read,
/// nor for the last copies to the host: what these read stays. Where it holds
/// too much, computation waits, as plans have it. True: so the Program fits.
FailureOr<bool> Compilation::waitForMemory() {
  std::string why = repeats.excess;
  EmitOptions namesOnly;
  namesOnly.namesKernels = true;
  for (int64_t inFlight : {1, 0}) {
    if (!repeats.duplexed || (inFlight == 0 && repeats.sent == 0))
      return false;
    module = repeats.duplexed->clone();
    setInteger(*module, sched::kInFlightAttrName, inFlight);
    result.remarks.resize(repeats.numEarlyRemarks);
    result.ir.resize(repeats.numEarlyIR);
    if (failed(runStages(findStage("schedule"))))
      return failure();
    FailureOr<EmittedProgram> emitted = emitProgram(*module, namesOnly);
    if (failed(emitted))
      return failure();
    repeats.held = emitted->heldBytes;
    FailureOr<std::string> excess = findExcess();
    if (failed(excess))
      return failure();
    if (excess->empty()) {
      result.remarks.push_back(
          "remark: " + why + ": computation waits for collectives" +
          (repeats.sent > 0 ? " and copies to the host" : "") +
          ", and then has their memory");
      return failed(emit()) ? FailureOr<bool>(failure()) : true;
    }
    repeats.excess = std::move(*excess);
  }
  return false;
}

/// A plan counts what tensors hold, by stages; buffers are aligned, leave gaps
/// and overlap stages, and kernels have scratch. False: the step has to be
/// planned again. A plan that was given may exceed the memory of a cluster,
/// with a warning, as many a cluster prices it, and no limit that somebody asks
/// for.
FailureOr<bool> Compilation::fits() {
  if (HostExcess excess = findHostExcess(options, program); excess.bytes > 0)
    return sendLess(excess);
  FailureOr<std::string> excess = findExcess();
  if (failed(excess) || excess->empty())
    return failed(excess) ? FailureOr<bool>(failure()) : true;
  repeats.excess = std::move(*excess);
  for (auto spare : {&Compilation::waitForMemory, &Compilation::joinPasses}) {
    FailureOr<bool> isSpared = (this->*spare)();
    if (failed(isSpared) || *isSpared)
      return isSpared;
  }
  if (pipe || repeats.step || options.memory >= 0)
    return planLess();
  module->emitWarning() << repeats.excess
                        << ", into which its plan fits: leave room with "
                           "'reserved' in the cluster file";
  return true;
}

/// The points that are full run the backward pass of a microbatch as one
/// action: then they hold little for gradients of parameters, and a gradient
/// leaves later. True: so the Program fits.
FailureOr<bool> Compilation::joinPasses() {
  if (!pipe || !joins.isAllowed || !options.planFile.empty() || !unordered.step)
    return false;
  if (pipe->joined.empty())
    joins = {true, repeats.held, repeats.limit, repeats.peak, repeats.excess};
  FailureOr<std::vector<int64_t>> limits = getLimitsOfPipe();
  if (failed(limits))
    return failure();
  auto join = [&] {
    std::vector<int64_t> found = findJoinable(*module, program, *limits);
    llvm::append_range(pipe->joined, found);
    llvm::sort(pipe->joined);
    return !found.empty();
  };
  FailureOr<bool> fits = false;
  while (succeeded(fits) && !*fits && join())
    fits = failed(outlineAgain()) ? FailureOr<bool>(failure()) : lowerAgain();
  if (failed(fits) || !*fits)
    return fits;
  result.plan = addPipe(*pipe, *module, repeats.plan);
  result.remarks.push_back("remark: " + joins.excess +
                           ": the backward pass of a microbatch is one "
                           "action on points " +
                           printPoints(pipe->joined));
  return true;
}

/// Plans again, so that less waits on the host: of what the device then cannot
/// hold more is made again. The Program packs values as it did, so the share
/// that is sent falls as the limit asks.
FailureOr<bool> Compilation::sendLess(const HostExcess &excess) {
  if (!repeats.step || repeats.count >= kMaxRepeats || repeats.sent == 0 ||
      excess.sent <= excess.bytes) {
    recompute.lacksMemory = true;
    noteExcess(excess.bytes, excess.why);
    return fail(excess.why);
  }
  double share = double(excess.sent - excess.bytes) / double(excess.sent);
  auto bytes = int64_t(share * double(repeats.sent));
  setInteger(*repeats.step, spmd::kSentLimitAttrName, bytes);
  ++repeats.count;
  repeats.excess = excess.why;
  restart("remark: " + excess.why + "; planned again, for at most " +
          printByteSize(bytes) + " of values there");
  return false;
}

/// False: the step has to be planned again.
FailureOr<bool> Compilation::planLess() {
  noteExcess(repeats.held - repeats.limit, describeTooLarge());
  if (!repeats.step || repeats.count >= kMaxRepeats || repeats.numPinned > 0) {
    recompute.lacksMemory = true;
    return fail(nearest);
  }
  planAgain(getNextLimit());
  return false;
}

/// Where it is the buckets of updates on the host that do not fit, one line.
std::string Compilation::describeBuckets() const {
  int64_t bytes = countBuckets(program),
          room = repeats.limit - (repeats.held - bytes);
  if (bytes == 0 || room < 0)
    return "";
  return "buckets of updates on the host take " + printByteSize(bytes) +
         " on each rank, two at a time, and " + printByteSize(room) +
         " are free beside what else it holds: expected a bucket of at most " +
         printByteSize(room / 2) + ", or memory of at least " +
         printByteSize(repeats.held);
}

/// What is said of a Program that does not fit, if none does.
std::string Compilation::describeTooLarge() const {
  if (std::string line = describeBuckets(); !line.empty())
    return line;
  if (pipe)
    return repeats.excess +
           "; expected more memory, more points, a search, or another cut or "
           "order";
  return repeats.excess + "; its plan holds " + printByteSize(repeats.peak) +
         ": expected memory of at least " + printByteSize(repeats.held) +
         ", or more ranks";
}

/// Of a pipeline the plan holds all sections and one microbatch, so that its
/// peak does not fall with what the fullest point holds. Its limits are rungs
/// below the peak of the first plan, from the share on that the point is to
/// hold of what it held. They are the same for all limits of memory.
int64_t Compilation::getNextRung() {
  if (repeats.count == 0)
    repeats.first = repeats.peak;
  auto first = static_cast<double>(repeats.first);
  double share = static_cast<double>(repeats.limit) / repeats.held,
         last = std::min(ofStages.memory, repeats.peak) / first;
  double most = repeats.count == 0 ? std::min(share, last) : last;
  double rung = 1;
  while (rung >= most && rung * first >= 1)
    rung *= kRung;
  return static_cast<int64_t>(rung * first);
}

/// With the excess less than what the plan was held to, or holds: so another
/// plan is found each time. Twice the step before where the Program followed
/// less than half of it.
int64_t Compilation::getNextLimit() {
  if (pipe)
    return getNextRung();
  int64_t last = ofStages.memory < 0 ? repeats.limit : ofStages.memory;
  last = std::min(last, repeats.peak);
  bool follows = 2 * (repeats.heldBefore - repeats.held) >= repeats.lowered;
  int64_t excess = repeats.held - repeats.limit;
  repeats.lowered = follows ? excess : std::max(excess, 2 * repeats.lowered);
  repeats.heldBefore = repeats.held;
  return std::max<int64_t>(0, last - repeats.lowered);
}

/// Where no plan was found for a repeat, the smallest one that was, once: its
/// Program may hold less than the plan before lets expect.
bool Compilation::planSmallest() {
  bool isSmaller =
      repeats.smallest > ofStages.memory && repeats.smallest < repeats.peak;
  if (!isSmaller || pipe || repeats.count == 0 || repeats.count > kMaxRepeats ||
      isCancelled())
    return false;
  error.clear();
  recompute.lacksMemory = false;
  planAgain(repeats.smallest);
  return true;
}

/// Where all else is too large, a pin has all values made again, or sent to the
/// host. Its plan has no limit, as the Program may hold less than it says: so
/// one has to be made, which is held to the limit.
bool Compilation::planPinned() {
  static constexpr llvm::StringLiteral kPins[] = {"*:again", "*:host"};
  if (repeats.limit == 0)
    repeats.limit = options.memory;
  bool isTooLarge = recompute.lacksMemory && repeats.limit > 0 &&
                    (repeats.held > 0 || repeats.smallest > 0);
  bool mayPin = isTooLarge && repeats.step && ofStages.recompute && !pipe &&
                options.stopAfter.empty();
  if (repeats.numPinned == 0 && !mayPin)
    return false;
  if (repeats.numPinned == 0)
    repeats.error = error;
  size_t number = repeats.numPinned++,
         size = ofStages.hostMemory > 0 ? std::size(kPins) : 1;
  if (number >= size || isCancelled()) {
    error = repeats.error;
    recompute.lacksMemory = true;
    return false;
  }
  error.clear();
  recompute.lacksMemory = false;
  ofStages.pins = recompute.pins;
  ofStages.pins.push_back(kPins[number].str());
  ofStages.memory = std::numeric_limits<int64_t>::max();
  restart(("remark: no plan was found whose Program fits: planned again with "
           "the pin '" +
           kPins[number] + "'")
              .str());
  return true;
}

void Compilation::planAgain(int64_t limit) {
  ofStages.memory = limit;
  ++repeats.count;
  restart("remark: " + repeats.excess + ": planned again, for at most " +
          printByteSize(ofStages.memory) + (pipe ? " of all sections" : ""));
}

void Compilation::restart(const std::string &remark) {
  module = repeats.step->clone();
  result.ir.resize(repeats.numIR);
  result.remarks.resize(repeats.numRemarks++);
  result.remarks.push_back(remark);
}

} // namespace tandem
