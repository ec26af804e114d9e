//===- AssignSections.cpp - the section of each operator ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sections are numbered in the order of the data. So a forward operator is in
// the last section that it reads of, and no edge of the forward pass leads
// back. The backward pass goes the other way: an operator is in the section
// that reads its result, unless it reads a parameter or a kept value of a later
// one. So a gradient crosses points where its activation did, once.
//
//===----------------------------------------------------------------------===//

#include "ChooseSections.h"
#include "Crossings.h"
#include "Flow.h"
#include "LateOperators.h"
#include "SectionText.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/Gradients.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Transforms/Cut/Cut.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

namespace tandem {
#define GEN_PASS_DEF_ASSIGNSECTIONSPASS
#include "tandem/Transforms/Cut/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// No section: every point has it.
constexpr int64_t kNone = -1;
/// A reader that is in no section.
constexpr int64_t kSeveral = -2;

/// Finds the sections of one step.
class SectionFinder {
public:
  SectionFinder(func::FuncOp step, ArrayRef<SectionEntry> sections)
      : step(step), block(step.getBody().front()), sections(sections) {}
  LogicalResult run(const llvm::DenseMap<unsigned, int64_t> &named);

private:
  int64_t get(Value value) const {
    auto found = values.find(value);
    return found == values.end() ? kNone : found->second;
  }
  void set(Operation &op, int64_t section);
  void findForward();
  void moveViews();
  void findDependent();
  bool adoptParameter();
  void followParameters();
  void findUpdates();
  void placeFetch(Operation &fetch);
  void followMade();
  Value waitThere(nn::EitherOp either, int64_t section);
  bool takeSent(Operation &op);
  void findBackward();
  int64_t getKept(Operation &op) const;
  int64_t getRead(Operation &op) const;
  int64_t getOnlyOperand(Operation &op) const;
  void joinGradients();
  LogicalResult checkFlow() const;
  LogicalResult checkUsed();
  LogicalResult checkReaders(const llvm::DenseMap<unsigned, int64_t> &named);
  void write();

  func::FuncOp step;
  Block &block;
  ArrayRef<SectionEntry> sections;
  llvm::DenseMap<Value, int64_t> values;
  llvm::DenseMap<Operation *, int64_t> ops;
  /// What reads, through others, a value of a section.
  llvm::DenseSet<Operation *> dependent;
  /// New values of what is stored, and gradients, that the step returns.
  llvm::DenseMap<Value, int64_t> returned;
  /// What comes back from the host in a section that a value was sent to.
  llvm::DenseMap<std::pair<Value, int64_t>, Value> fetched;
};

struct AssignSectionsPass
    : tandem::impl::AssignSectionsPassBase<AssignSectionsPass> {
  using AssignSectionsPassBase::AssignSectionsPassBase;
  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
  LogicalResult run();
};
} // namespace

static bool isUpdate(Operation &op) {
  return nn::getPass(&op) == nn::PassKind::Update;
}

static bool isParameter(func::FuncOp step, unsigned index) {
  return nn::getRole(step.getArgAttrDict(index)) == nn::Role::Parameter;
}

void SectionFinder::set(Operation &op, int64_t section) {
  if (section == kNone)
    return;
  ops[&op] = section;
  for (Value result : op.getResults())
    values[result] = section;
}

//===----------------------------------------------------------------------===//
// The forward pass
//===----------------------------------------------------------------------===//

void SectionFinder::findForward() {
  for (Operation &op : block) {
    if (!isForward(op))
      continue;
    int64_t section = kNone;
    for (Value operand : op.getOperands())
      section = std::max(section, get(operand));
    set(op, section);
  }
}

/// The first reader, of those that have a section, of what is made of `value`
/// alone.
static int64_t findReader(Value value,
                          const llvm::DenseMap<Operation *, int64_t> &ops) {
  int64_t first = kNone;
  SmallVector<Value> todo{value};
  llvm::DenseSet<Operation *> seen;
  while (!todo.empty())
    for (Operation *user : todo.pop_back_val().getUsers()) {
      if (!isForward(*user) || !seen.insert(user).second)
        continue;
      if (auto found = ops.find(user); found == ops.end())
        llvm::append_range(todo, user->getResults());
      else if (first == kNone || found->second < first)
        first = found->second;
    }
  return first;
}

/// Gives one parameter that is in no section that of its first reader.
bool SectionFinder::adoptParameter() {
  for (BlockArgument argument : block.getArguments()) {
    if (!isParameter(step, argument.getArgNumber()) || values.count(argument))
      continue;
    if (int64_t section = findReader(argument, ops); section != kNone) {
      values[argument] = section;
      return true;
    }
  }
  return false;
}

/// States follow the parameter whose name they have, and so do results.
void SectionFinder::followParameters() {
  llvm::StringMap<int64_t> named;
  for (BlockArgument argument : block.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (isParameter(step, index) && get(argument) != kNone)
      named[nn::getTensorName(step.getArgAttrDict(index))] = get(argument);
  }
  for (BlockArgument argument : block.getArguments()) {
    DictionaryAttr attributes = step.getArgAttrDict(argument.getArgNumber());
    StringRef of = getText(attributes, nn::kOfAttrName);
    if (auto found = named.find(of); found != named.end())
      values[argument] = found->second;
  }
  Operation *ret = block.getTerminator();
  for (auto [index, value] : llvm::enumerate(ret->getOperands())) {
    DictionaryAttr attributes = step.getResultAttrDict(index);
    auto gradient = named.find(nn::getTensorName(attributes));
    int64_t section = kNone;
    if (auto updated = nn::getUpdates(attributes))
      section = get(step.getArgument(*updated));
    else if (nn::getRole(attributes) == nn::Role::Gradient &&
             gradient != named.end())
      section = gradient->second;
    if (section != kNone)
      returned[value] = section;
  }
}

/// A view of a parameter is in the section that reads it: the parameter itself
/// goes there, once for all its views.
void SectionFinder::moveViews() {
  for (Operation &op : llvm::reverse(block)) {
    if (!isForward(op) || !op.hasTrait<nn::View>() || op.use_empty() ||
        !isa<BlockArgument>(skipViews(op.getResult(0))))
      continue;
    SmallVector<int64_t> readers;
    for (Operation *user : op.getUsers())
      readers.push_back(ops.contains(user) ? ops.lookup(user) : kSeveral);
    if (llvm::all_equal(readers) && readers.front() >= 0)
      set(op, readers.front());
  }
}

/// What depends on no section, as a constant or a mask, is where it is read.
void SectionFinder::findDependent() {
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return get(operand) != kNone ||
                 dependent.contains(operand.getDefiningOp());
        }))
      dependent.insert(&op);
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

/// The only section among those that are not none; none if there are several.
static int64_t getOnly(ArrayRef<int64_t> sections) {
  int64_t only = kNone;
  for (int64_t section : sections) {
    if (only != kNone && section != kNone && section != only)
      return kNone;
    only = std::max(only, section);
  }
  return only;
}

int64_t SectionFinder::getOnlyOperand(Operation &op) const {
  SmallVector<int64_t> sections;
  for (Value operand : op.getOperands()) {
    // A sum over several sections, which none has.
    if (get(operand) == kNone && dependent.contains(operand.getDefiningOp()))
      return kNone;
    sections.push_back(get(operand));
  }
  return getOnly(sections);
}

/// What leads to the new values of one section alone is in it, and so is what
/// reads one section alone. What several read, as the norm of all gradients, is
/// in none.
void SectionFinder::findUpdates() {
  for (Operation &op : llvm::reverse(block)) {
    if (!isUpdate(op) || ops.contains(&op) || !dependent.contains(&op))
      continue;
    SmallVector<int64_t> readers;
    for (Value result : op.getResults()) {
      if (auto found = returned.find(result); found != returned.end())
        readers.push_back(found->second);
      for (Operation *user : result.getUsers())
        if (!user->hasTrait<OpTrait::IsTerminator>())
          readers.push_back(ops.contains(user) ? ops.lookup(user) : kSeveral);
    }
    if (!llvm::is_contained(readers, kSeveral))
      set(op, getOnly(readers));
  }
  for (Operation &op : block)
    if (isUpdate(op) && !ops.contains(&op))
      set(op, getOnlyOperand(op));
}

//===----------------------------------------------------------------------===//
// The backward pass
//===----------------------------------------------------------------------===//

/// What is kept, of `value`: of a choice the value that all others stand for.
static Value skipChoices(Value value) {
  value = skipViews(value);
  while (auto either = value.getDefiningOp<nn::EitherOp>())
    value = skipViews(either.getSources().front());
  return value;
}

/// The last section whose parameters or kept values `op` reads.
int64_t SectionFinder::getKept(Operation &op) const {
  int64_t section = kNone;
  for (Value operand : op.getOperands()) {
    Value kept = skipChoices(operand);
    Operation *maker = kept.getDefiningOp();
    if (!maker || isForward(*maker))
      section = std::max(section, get(kept));
  }
  return section;
}

/// The last section that reads a result of `op` behind the forward pass. Of a
/// gradient this is that of its parameter.
int64_t SectionFinder::getRead(Operation &op) const {
  int64_t section = kNone;
  for (Operation *user : op.getUsers())
    if (auto found = ops.find(user); found != ops.end() && !isForward(*user))
      section = std::max(section, found->second);
  for (Value result : op.getResults())
    if (auto found = returned.find(result); found != returned.end())
      section = std::max(section, found->second);
  return section;
}

/// The copy of a parameter on the host is made where the parameter lies. What
/// reads it in a later section reads what the forward pass has sent there.
void SectionFinder::placeFetch(Operation &fetch) {
  int64_t own = get(fetch.getOperand(0));
  auto sent =
      llvm::find_if(fetch.getOperand(0).getUsers(), [](Operation *user) {
        return nn::fetchesArgument(user) && isForward(*user);
      });
  set(fetch, own);
  if (own == kNone || sent == fetch.getOperand(0).user_end())
    return;
  fetch.getResult(0).replaceUsesWithIf(sent->getResult(0), [&](OpOperand &use) {
    auto found = ops.find(use.getOwner());
    return found != ops.end() && found->second > own;
  });
}

/// What waits on the host is sent by the section that makes it.
void SectionFinder::followMade() {
  for (auto sent : block.getOps<nn::ToHostOp>())
    set(*sent.getOperation(), get(sent.getInput()));
}

/// The copy of `value` that waited on the host, among the sources of a choice.
static nn::FromHostOp findFetch(nn::EitherOp either, Value value) {
  for (Value source : either.getSources())
    if (auto fetch = source.getDefiningOp<nn::FromHostOp>()) {
      auto sent = fetch.getInput().getDefiningOp<nn::ToHostOp>();
      if (sent && sent.getInput() == value)
        return fetch;
    }
  return {};
}

/// What a later section reads of a value: what it was sent, or what waited in
/// the memory of its own host, if that was offered.
Value SectionFinder::waitThere(nn::EitherOp either, int64_t section) {
  Value saved = either.getSources().front();
  nn::FromHostOp fetch = findFetch(either, saved);
  if (!fetch)
    return saved;
  Value &back = fetched[{saved, section}];
  OpBuilder builder(either);
  if (!back) {
    builder.setInsertionPointAfter(fetch.getInput().getDefiningOp());
    Operation *sent = builder.clone(*fetch.getInput().getDefiningOp());
    builder.setInsertionPoint(fetch);
    Operation *copy = builder.clone(*fetch.getOperation());
    copy->setOperand(0, sent->getResult(0));
    set(*sent, section);
    set(*copy, section);
    back = copy->getResult(0);
  }
  builder.setInsertionPoint(either);
  auto own = nn::EitherOp::create(builder, either.getLoc(), saved.getType(),
                                  ValueRange{saved, back});
  own->setDiscardableAttrs(either->getDiscardableAttrDictionary());
  set(*own.getOperation(), section);
  return own;
}

/// What an earlier section has sent is held, or waits on the host, and is not
/// made again with its parameters. Then nothing is left of the offer.
bool SectionFinder::takeSent(Operation &op) {
  if (auto either = dyn_cast<nn::EitherOp>(op)) {
    Value saved = either.getSources().front();
    if (int64_t reader = getRead(op);
        get(saved) != kNone && reader > get(saved))
      op.getResult(0).replaceAllUsesWith(waitThere(either, reader));
  }
  bool isOffered = isa<nn::EitherOp>(op) || nn::isAgain(&op);
  if (!isOffered || !op.use_empty())
    return false;
  dependent.erase(&op);
  op.erase();
  return true;
}

void SectionFinder::findBackward() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isBackward(&op) || !dependent.contains(&op) || takeSent(op))
      continue;
    if (nn::fetchesArgument(&op))
      placeFetch(op);
    else
      set(op, std::max(getKept(op), getRead(op)));
  }
}

/// A sum of gradients of one section is made there, so that one tensor leaves
/// it and not several.
void SectionFinder::joinGradients() {
  for (Operation &op : block) {
    auto isPlaced = [&](Value operand) { return get(operand) != kNone; };
    if (!isBackward(&op) || getKept(op) != kNone ||
        llvm::count_if(op.getOperands(), isPlaced) < 2)
      continue;
    int64_t section = getOnlyOperand(op);
    auto found = ops.find(&op);
    if (section != kNone && (found == ops.end() || found->second < section))
      set(op, section);
  }
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

LogicalResult SectionFinder::checkFlow() const {
  for (const auto &[op, section] : ops) {
    if (!isBackward(op))
      continue;
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (maker && isBackward(maker) && get(operand) != kNone &&
          get(operand) < section)
        return op->emitError()
               << "a gradient of section " << get(operand)
               << " is read in section " << section
               << ", which follows it: sections form a cycle; expected "
                  "sections in the order of the data";
    }
  }
  return success();
}

LogicalResult SectionFinder::checkUsed() {
  SmallVector<bool> used(sections.size());
  llvm::DenseSet<Value> ofData = findOfData(step);
  for (const auto &[op, section] : ops)
    if (isForward(*op) && op->getNumResults() > 0 &&
        ofData.contains(op->getResult(0)))
      used[section] = true;
  for (auto [section, isUsed] : llvm::enumerate(used))
    if (!isUsed)
      return emitError(step.getLoc())
             << "section " << section << " ('"
             << llvm::join(sections[section].globs, ",")
             << "') has no operator: nothing reads its parameters, or what "
                "does reads a later section, too; expected sections in the "
                "order of the data";
  return success();
}

/// A parameter that is read in later sections alone is in the wrong one: sent
/// for nothing, and its layer computed elsewhere.
LogicalResult
SectionFinder::checkReaders(const llvm::DenseMap<unsigned, int64_t> &named) {
  for (BlockArgument argument : block.getArguments()) {
    auto own = named.find(argument.getArgNumber());
    int64_t reader = own == named.end() ? kNone : findReader(argument, ops);
    if (reader == kNone || reader == own->second)
      continue;
    return emitError(step.getLoc())
           << "parameter '"
           << nn::getTensorName(step.getArgAttrDict(argument.getArgNumber()))
           << "' is in section " << own->second
           << ", but what reads it also reads section " << reader
           << ": sections form a cycle; expected sections in the order of the "
              "data";
  }
  return success();
}

void SectionFinder::write() {
  for (const auto &[op, section] : ops)
    setInteger(op, spmd::kSectionAttrName, section);
  Builder builder(step.getContext());
  editArgAttrs(step, [&](unsigned index, NamedAttrList &attrs) {
    if (int64_t section = get(step.getArgument(index)); section != kNone)
      attrs.set(spmd::kSectionAttrName, builder.getI64IntegerAttr(section));
  });
}

LogicalResult
SectionFinder::run(const llvm::DenseMap<unsigned, int64_t> &named) {
  for (auto [argument, section] : named)
    values[step.getArgument(argument)] = section;
  findForward();
  while (adoptParameter())
    findForward();
  moveViews();
  for (auto [op, section] : findMoves(block, ops))
    set(*op, section);
  followMade();
  followParameters();
  findDependent();
  findUpdates();
  findBackward();
  joinGradients();
  for (auto [op, section] : findGradientMoves(block, ops))
    set(*op, section);
  findUpdates(); // of gradients, as the squares of each
  if (failed(checkFlow()) || failed(checkUsed()) || failed(checkReaders(named)))
    return failure();
  write();
  return success();
}

/// Says what each section has.
static void describe(func::FuncOp step, ArrayRef<int64_t> places) {
  std::vector<double> flops(places.size());
  double all = 0;
  for (Operation &op : step.getBody().front()) {
    auto section = getInteger(&op, spmd::kSectionAttrName);
    if (!section || !isForward(op))
      continue;
    flops[*section] += getFlops(&op);
    all += getFlops(&op);
  }
  for (auto [section, names] : llvm::enumerate(nameSections(step))) {
    std::string share;
    llvm::raw_string_ostream(share)
        << llvm::format("%.1f", all > 0 ? 100 * flops[section] / all : 0.0);
    emitRemark(step.getLoc())
        << "section " << section << " on point " << places[section] << ": "
        << printSectionNames(names) << "; " << share << " % of the FLOPs";
  }
}

LogicalResult AssignSectionsPass::run() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return module.emitError("module has no function @step");
  if (failed(verifyStepBody(step)))
    return failure();
  auto list = parseSections(step.getLoc(), sections, axis, points);
  if (failed(list))
    return failure();
  auto named = list->isNumber ? chooseSections(step, list->entries.size())
                              : matchSections(step, list->entries);
  if (failed(named) || failed(SectionFinder(step, list->entries).run(*named)))
    return failure();
  reduceCrossings(step);
  SmallVector<int64_t> places;
  for (const SectionEntry &entry : list->entries)
    places.push_back(entry.point);
  describe(step, places);
  Builder builder(&getContext());
  module->setAttr(spmd::kSectionsAttrName,
                  builder.getDenseI64ArrayAttr(places));
  module->setAttr(spmd::kPipeAttrName, builder.getStringAttr(axis));
  for (auto [name, text] : {std::pair(spmd::kWholeMeshAttrName, &mesh),
                            std::pair(spmd::kOrderAttrName, &order),
                            std::pair(spmd::kRowsAttrName, &rows)})
    if (!text->empty())
      module->setAttr(name, builder.getStringAttr(*text));
  if (strands > 1)
    module->setAttr(spmd::kStrandsAttrName, builder.getI64IntegerAttr(strands));
  return success();
}
