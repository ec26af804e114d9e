//===- TakeApartParameters.cpp - packed parameters become several ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedParameter.h"
#include "Pieces.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {
#define GEN_PASS_DEF_TAKEAPARTPARAMETERSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

namespace {
/// One weight that makes query, key and value, as most code writes it, has rows
/// of the query only on the first of two devices: no split of it is Megatron's.
/// Its parts are parameters of their own, with their own gradients and states.
struct TakeApartParametersPass
    : tandem::StepPass<
          tandem::impl::TakeApartParametersPassBase<TakeApartParametersPass>> {
  using StepPass::StepPass;
  LogicalResult runOnStep(func::FuncOp step) override;
};

/// A parameter with its states, and how they are packed.
struct Packed {
  SmallVector<BlockArgument> wholes;
  PackedParameter packing;
};

/// Takes parameters apart. Indices of arguments and results change meanwhile,
/// so that `updated` says which argument a result updates.
class Surgeon {
public:
  explicit Surgeon(func::FuncOp step) : step(step) {}

  void run(ArrayRef<Packed> packed);

private:
  struct Part {
    int64_t dim, begin, end;
    BlockArgument argument;
  };

  void noteUpdates();
  void addParts(BlockArgument whole, const PackedParameter &packing);
  DictionaryAttr describePart(DictionaryAttr whole, ArrayRef<int64_t> shape,
                              unsigned number, const Part &part);
  void rewrite(const PackedUse &end, ArrayRef<int64_t> cuts);
  void sumOverParts(LibraryOpInterface op, const PackedUse &end,
                    ArrayRef<int64_t> cuts);
  Value createPart(LibraryOpInterface op, int64_t from, int64_t to);
  BlockArgument findWhole(unsigned result, ArrayRef<Packed> packed);
  void splitResult(unsigned result, BlockArgument whole);
  void eraseWhole(BlockArgument whole);
  void setUpdates();

  func::FuncOp step;
  Pieces pieces;
  llvm::DenseMap<Value, SmallVector<Part>> parts;
  SmallVector<BlockArgument> updated;
};
} // namespace

static std::string getPartName(StringRef whole, unsigned part) {
  return (whole + ".part" + Twine(part)).str();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// The whole's attributes under the part's name, with its place in the whole.
DictionaryAttr Surgeon::describePart(DictionaryAttr whole,
                                     ArrayRef<int64_t> shape, unsigned number,
                                     const Part &part) {
  Builder builder(step.getContext());
  StringRef name = getTensorName(whole);
  NamedAttrList attributes(whole);
  attributes.set(kNameAttrName,
                 builder.getStringAttr(getPartName(name, number)));
  attributes.set(kPartAttrName, PartAttr::get(step.getContext(), name, shape,
                                              part.dim, part.begin));
  if (StringRef of = getText(whole, kOfAttrName); !of.empty())
    attributes.set(kOfAttrName, builder.getStringAttr(getPartName(of, number)));
  // Tied names are the whole's.
  attributes.erase(kAliasesAttrName);
  return attributes.getDictionary(step.getContext());
}

/// Arguments for the parts, behind the whole one.
void Surgeon::addParts(BlockArgument whole, const PackedParameter &packing) {
  auto type = cast<RankedTensorType>(whole.getType());
  auto &own = parts[whole];
  for (auto cut = packing.cuts.begin(); std::next(cut) != packing.cuts.end();
       ++cut) {
    Part part{packing.dim, *cut, *std::next(cut), {}};
    SmallVector<int64_t> shape(type.getShape());
    shape[part.dim] = part.end - part.begin;
    unsigned number = own.size(), at = whole.getArgNumber();
    DictionaryAttr attributes =
        describePart(step.getArgAttrDict(at), type.getShape(), number, part);
    unsigned index = at + 1 + number;
    (void)step.insertArgument(
        index, RankedTensorType::get(shape, type.getElementType()), attributes,
        whole.getLoc());
    part.argument = step.getArgument(index);
    pieces.give(whole, {part.dim, part.begin, part.end}, part.argument);
    own.push_back(part);
  }
}

/// What is still computed from the whole, if anything, joins the parts.
void Surgeon::eraseWhole(BlockArgument whole) {
  if (!whole.use_empty()) {
    auto builder = OpBuilder::atBlockBegin(whole.getOwner());
    SmallVector<Value> inputs;
    for (const Part &part : parts[whole])
      inputs.push_back(part.argument);
    auto joined = CatOp::create(builder, whole.getLoc(), whole.getType(),
                                inputs, parts[whole].front().dim);
    inheritPass(joined, *llvm::min_element(whole.getUsers(),
                                           [](auto *one, auto *other) {
                                             return one->isBeforeInBlock(other);
                                           }));
    whole.replaceAllUsesWith(joined);
  }
  (void)step.eraseArgument(whole.getArgNumber());
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// The operator on a range of what it sums over.
Value Surgeon::createPart(LibraryOpInterface op, int64_t from, int64_t to) {
  OperationState state(op.getLoc(), op->getName());
  for (OpOperand &operand : op->getOpOperands()) {
    auto dim = op.getSummedDim(operand.getOperandNumber());
    state.operands.push_back(
        dim ? pieces.get(operand.get(), {*dim, from, to}, op) : operand.get());
  }
  state.addTypes(op->getResultTypes());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  Operation *part = OpBuilder(op).create(state);
  inheritPass(part, op);
  return part->getResult(0);
}

/// The operator on each part, added up.
void Surgeon::sumOverParts(LibraryOpInterface op, const PackedUse &end,
                           ArrayRef<int64_t> cuts) {
  int64_t size = getShape(end.operand->get())[end.place.dim];
  OpBuilder builder(op);
  Value sum;
  for (auto [begin, behind] : llvm::zip(cuts.drop_back(), cuts.drop_front())) {
    int64_t from = *end.place.getIndex(begin);
    int64_t to = *end.place.getIndex(behind);
    // The operand may hold some of the parts only.
    if (from < 0 || to > size)
      continue;
    Value part = createPart(op, from, to);
    if (sum) {
      part = AddOp::create(builder, op.getLoc(), part.getType(), sum, part);
      inheritPass(part.getDefiningOp(), op);
    }
    sum = part;
  }
  op->getResult(0).replaceAllUsesWith(sum);
}

void Surgeon::rewrite(const PackedUse &end, ArrayRef<int64_t> cuts) {
  Operation *op = end.operand->getOwner();
  // A weight and its bias end at the same slices.
  if (op->use_empty())
    return;
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return sumOverParts(library, end, cuts);
  auto slice = cast<SliceOp>(op);
  slice.replaceAllUsesWith(pieces.get(
      slice.getInput(),
      {end.place.dim, int64_t(slice.getStart()), int64_t(slice.getStop())},
      op));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void Surgeon::noteUpdates() {
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    std::optional<int64_t> updates = getUpdates(step.getResultAttrDict(i));
    updated.push_back(updates ? step.getArgument(*updates) : BlockArgument());
  }
}

void Surgeon::setUpdates() {
  Builder builder(step.getContext());
  for (auto [index, argument] : llvm::enumerate(updated))
    if (argument)
      step.setResultAttr(index, kUpdatesAttrName,
                         builder.getI64IntegerAttr(argument.getArgNumber()));
}

/// What the result is a new value or the gradient of; null if it stays.
BlockArgument Surgeon::findWhole(unsigned result, ArrayRef<Packed> packed) {
  if (updated[result])
    return parts.contains(updated[result]) ? updated[result] : BlockArgument();
  DictionaryAttr attributes = step.getResultAttrDict(result);
  if (getRole(attributes) != Role::Gradient)
    return {};
  for (const Packed &one : packed)
    if (getTensorName(step.getArgAttrDict(one.wholes.front().getArgNumber())) ==
        getTensorName(attributes))
      return one.wholes.front();
  return {};
}

/// Results for the parts in the place of the whole one.
void Surgeon::splitResult(unsigned result, BlockArgument whole) {
  Operation *terminator = step.getBody().front().getTerminator();
  Value value = terminator->getOperand(result);
  SmallVector<int64_t> shape(getShape(value));
  DictionaryAttr attributes = step.getResultAttrDict(result);
  bool isUpdate = static_cast<bool>(updated[result]);
  for (auto [number, part] : llvm::enumerate(parts[whole])) {
    Value piece =
        pieces.get(value, {part.dim, part.begin, part.end}, terminator);
    unsigned index = result + 1 + number;
    terminator->insertOperands(index, piece);
    (void)step.insertResult(index, piece.getType(),
                            describePart(attributes, shape, number, part));
    updated.insert(updated.begin() + index,
                   isUpdate ? part.argument : BlockArgument());
  }
  terminator->eraseOperand(result);
  (void)step.eraseResult(result);
  updated.erase(updated.begin() + result);
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

static void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void Surgeon::run(ArrayRef<Packed> packed) {
  noteUpdates();
  for (const Packed &one : packed)
    for (BlockArgument whole : one.wholes)
      addParts(whole, one.packing);
  for (const Packed &one : packed)
    for (const PackedUse &end : one.packing.ends)
      rewrite(end, llvm::to_vector(one.packing.cuts));
  for (unsigned i = step.getNumResults(); i-- > 0;)
    if (BlockArgument whole = findWhole(i, packed))
      splitResult(i, whole);
  eraseDead(step.getBody().front());
  for (const Packed &one : packed)
    for (BlockArgument whole : one.wholes)
      eraseWhole(whole);
  setUpdates();
}

/// Parameters, each with its states.
static SmallVector<SmallVector<BlockArgument>> getFamilies(func::FuncOp step) {
  llvm::StringMap<SmallVector<BlockArgument>> states;
  for (BlockArgument argument : step.getArguments()) {
    DictionaryAttr attributes = step.getArgAttrDict(argument.getArgNumber());
    if (StringRef of = getText(attributes, kOfAttrName); !of.empty())
      states[of].push_back(argument);
  }
  SmallVector<SmallVector<BlockArgument>> families;
  for (BlockArgument argument : step.getArguments()) {
    DictionaryAttr attributes = step.getArgAttrDict(argument.getArgNumber());
    if (getRole(attributes) != Role::Parameter)
      continue;
    auto &family = families.emplace_back(1, argument);
    llvm::append_range(family, states.lookup(getTensorName(attributes)));
  }
  return families;
}

/// Whether all have one shape, and no argument has a part's name already.
static bool canBeTakenApart(func::FuncOp step, ArrayRef<BlockArgument> family,
                            const llvm::StringSet<> &names) {
  return llvm::all_of(family, [&](BlockArgument argument) {
    StringRef name =
        getTensorName(step.getArgAttrDict(argument.getArgNumber()));
    return getShape(argument) == getShape(family.front()) &&
           !names.contains(getPartName(name, 0));
  });
}

//===----------------------------------------------------------------------===//
// As another step stores them
//===----------------------------------------------------------------------===//

/// The rows of a dimension where parts begin, but for the first one.
struct StoredCuts {
  int64_t dim;
  SmallVector<int64_t> rows;
};

/// By the names of parameters, from `NAME:DIM:ROW,ROW;...`; names may have
/// colons.
static std::optional<llvm::StringMap<StoredCuts>> parseStored(StringRef text) {
  llvm::StringMap<StoredCuts> stored;
  SmallVector<StringRef> entries, rows;
  text.split(entries, ';', -1, /*KeepEmpty=*/false);
  for (StringRef entry : entries) {
    auto [front, list] = entry.rsplit(':');
    auto [name, dim] = front.rsplit(':');
    StoredCuts cuts;
    rows.clear();
    list.split(rows, ',', -1, /*KeepEmpty=*/false);
    if (dim.getAsInteger(10, cuts.dim) || cuts.dim < 0)
      return std::nullopt;
    for (StringRef row : rows)
      if (row.getAsInteger(10, cuts.rows.emplace_back()))
        return std::nullopt;
    stored[name] = cuts;
  }
  return stored;
}

/// Whether the cuts are rows of the parameter, in order.
static bool areRowsOf(const StoredCuts &cuts, BlockArgument parameter) {
  ArrayRef<int64_t> shape = getShape(parameter);
  int64_t before = 0;
  for (int64_t row : cuts.rows) {
    if (cuts.dim >= int64_t(shape.size()) || row <= before ||
        row >= shape[cuts.dim])
      return false;
    before = row;
  }
  return true;
}

/// What has the parameter's shape comes apart with it. Slices end at the parts
/// only if they would have taken the parameter apart just so.
static Packed packAsStored(ArrayRef<BlockArgument> family,
                           const StoredCuts &cuts) {
  Packed packed;
  ArrayRef<int64_t> shape = getShape(family.front());
  llvm::copy_if(family, std::back_inserter(packed.wholes),
                [&](BlockArgument one) { return getShape(one) == shape; });
  PackedParameter as{cuts.dim, {0, shape[cuts.dim]}, {}};
  as.cuts.insert(cuts.rows.begin(), cuts.rows.end());
  auto found = findPacking(packed.wholes);
  bool isSame = found && found->dim == as.dim && found->cuts == as.cuts;
  packed.packing = isSame ? *found : as;
  return packed;
}

LogicalResult TakeApartParametersPass::runOnStep(func::FuncOp step) {
  auto stored = parseStored(storedParts);
  if (!stored)
    return step.emitError() << "stored-parts is '" << storedParts
                            << "', expected NAME:DIM:ROW,ROW;...";
  llvm::StringSet<> names;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    names.insert(getTensorName(step.getArgAttrDict(i)));
  SmallVector<Packed> packed;
  for (auto &family : getFamilies(step)) {
    StringRef name =
        getTensorName(step.getArgAttrDict(family.front().getArgNumber()));
    if (auto known = stored->find(name); known != stored->end()) {
      const StoredCuts &cuts = known->second;
      if (!areRowsOf(cuts, family.front()))
        return step.emitError()
               << "stored-parts cuts '" << name << "' where it has no rows";
      if (!cuts.rows.empty())
        packed.push_back(packAsStored(family, cuts));
    } else if (canBeTakenApart(step, family, names)) {
      if (auto packing = findPacking(family))
        packed.push_back({family, *packing});
    }
  }
  if (!packed.empty())
    Surgeon(step).run(packed);
  return success();
}
