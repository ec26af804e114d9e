//===- ProofTest.cpp - every combination of forms of every operator ---===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits the operands of an operator in every combination of forms, runs the
// shards, puts the results together in every combination, and compares with the
// whole. What is right must be what the operator's rule gives, and what the
// verifier accepts. The same for operators on one point of two (`at`).
//
//===----------------------------------------------------------------------===//

#include "Cases.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "tandem/Reference/Compare.h"
#include "tandem/Reference/Interpreter.h"
#include "tandem/Reference/Layout.h"
#include "tandem/Reference/Operators.h"
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;
using namespace tandem::reference::test;
using spmd::AxisForm;
using spmd::Signature;

//===----------------------------------------------------------------------===//
// Exceptions: right, but not in the rule
//===----------------------------------------------------------------------===//

namespace {
struct Exception {
  const char *op;
  const char *signature;
  const char *reason;
};
} // namespace

static const Exception kExceptions[] = {
    {"nn.layer_norm", "full, reduce -> reduce, full, full",
     "linear in the weight, but only the first result depends on it; a weight "
     "is never a sum of terms"},
    {"nn.layer_norm", "full, reduce, reduce -> reduce, full, full",
     "linear in weight and bias together; as above"},
    {"nn.layer_norm_backward",
     "full, full, full, full, reduce -> reduce, full, full",
     "the gradient of the input is linear in the weight; as above"},
    {"nn.attention", "full, full, reduce -> reduce, full",
     "linear in the values, but only the first result depends on them; values "
     "are no sum of terms but behind a split width, which stays whole"},
    {"nn.attention", "full, full, reduce, full -> reduce, full", "as above"},
    {"nn.attention", "full, full, reduce, full, full -> reduce, full",
     "as above"},
    {"nn.attention", "full, full, reduce, full, full, full -> reduce, full",
     "as above"},
    {"nn.attention_backward",
     "full, full, full, reduce, reduce, full -> reduce, reduce, full",
     "linear in values and output together, but the last result does not "
     "depend on them; as above"},
    {"nn.attention_backward",
     "full, full, full, reduce, reduce, full, full, full -> reduce, reduce, "
     "full",
     "as above"},
    {"nn.attention", "full, full, gather(3) -> gather(3), full",
     "widths stay whole: every part computes all scores again"},
    {"nn.attention_backward",
     "gather(3), full, full, gather(3), gather(3), full -> reduce, reduce, "
     "gather(3)",
     "as above"},
    {"nn.attention_backward",
     "full, full, gather(2), gather(2), full, full -> reduce, gather(2), "
     "gather(2)",
     "key positions stay whole, as in the forward, which makes what it reads"},
};

static const Exception *findException(StringRef op, StringRef signature) {
  for (const Exception &exception : kExceptions)
    if (op == exception.op && signature == exception.signature)
      return &exception;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// One operator on one axis
//===----------------------------------------------------------------------===//

namespace {
using Shape = SmallVector<int64_t, 4>;

/// All forms that a tensor of `shape` can have on an axis of `axisSize` points.
std::vector<AxisForm> getAllForms(RankedTensorType type, int64_t axisSize) {
  std::vector<AxisForm> forms{AxisForm::full()};
  // A sum of truth values has no meaning.
  if (!type.getElementType().isInteger(1))
    forms.push_back(AxisForm::reduce());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) % axisSize == 0)
      forms.push_back(AxisForm::gather(dim));
  return forms;
}

/// Calls `visit` for every choice of one element of each of `choices`.
template <typename T>
void forEachChoice(const std::vector<std::vector<T>> &choices,
                   llvm::function_ref<void(ArrayRef<T>)> visit) {
  SmallVector<int64_t> sizes;
  for (const auto &choice : choices)
    sizes.push_back(choice.size());
  forEachIndex(sizes, [&](ArrayRef<int64_t> index, int64_t) {
    SmallVector<T, 8> chosen;
    for (auto [choice, i] : llvm::zip(choices, index))
      chosen.push_back(choice[i]);
    visit(chosen);
  });
}

bool isNear(const Tensor &expected, const Tensor &found, double tolerance) {
  std::string reason;
  return isClose(expected, found, tolerance, reason);
}

/// f32 terms do not add up to the value exactly.
double getTolerance(Operation *op) {
  return llvm::any_of(
             op->getOperandTypes(),
             [](Type type) { return getElementTypeOrSelf(type).isF32(); })
             ? 1e-5
             : 1e-9;
}

/// A splat's shard is a smaller splat: its value has the shape of the shard.
void resizeSplat(OperationState &state) {
  auto value = state.attributes.get("value");
  auto splat = dyn_cast_or_null<SplatElementsAttr>(value);
  if (splat)
    state.attributes.set(
        "value", splat.resizeSplat(cast<RankedTensorType>(state.types[0])));
}

class Prover {
public:
  Prover(Operation *op, const Instance &instance, int64_t axisSize,
         Generator &generator)
      : op(op), instance(instance), generator(generator), axisSize(axisSize) {
    auto name = StringAttr::get(op->getContext(), "x");
    mesh = spmd::MeshAttr::get(op->getContext(), name, axisSize, 0);
    for (Type type : op->getOperandTypes())
      operandTypes.push_back(cast<RankedTensorType>(type));
    for (Type type : op->getResultTypes())
      resultTypes.push_back(cast<RankedTensorType>(type));
  }
  ~Prover() {
    for (auto &[key, local] : locals)
      if (local)
        local->destroy();
  }

  /// Draws new values for the operands and runs the whole operator on them.
  void draw();
  /// Every combination that is right for the values drawn.
  std::vector<Signature> findRight();
  bool isRight(const Signature &signature);
  /// Whether the verifier accepts the operator with these forms.
  bool verifies(const Signature &signature);
  /// Calls `visit` for every combination of forms.
  void forEachSignature(llvm::function_ref<void(const Signature &)> visit);
  /// Calls `visit` for combinations with `at`: each tensor is `full` or on
  /// one point, and one of them at most has any other form.
  void forEachPlaced(llvm::function_ref<void(const Signature &)> visit);

private:
  std::vector<std::vector<AxisForm>> getChoices();
  Signature makeSignature(ArrayRef<AxisForm> forms);
  std::vector<AxisForm> getResultShapes(RankedTensorType type);
  Shards split(unsigned operand, AxisForm form);
  const Shards &getShards(unsigned operand, AxisForm form);
  Operation *getLocal(ArrayRef<Shape> operands, ArrayRef<Shape> results);
  Part getPart(RankedTensorType type, AxisForm form, int64_t point);
  std::optional<std::vector<Shards>> runShards(ArrayRef<AxisForm> operands,
                                               ArrayRef<AxisForm> results);
  bool holds(unsigned result, const Shards &shards, AxisForm form);

  Operation *op;
  const Instance &instance;
  Generator &generator;
  int64_t axisSize;
  spmd::MeshAttr mesh;
  SmallVector<RankedTensorType> operandTypes, resultTypes;
  std::vector<TensorRef> operands;
  std::vector<Tensor> results;
  std::map<std::pair<unsigned, int64_t>, Shards> shardsOf;
  /// The operator on local shapes; null where it does not verify.
  std::map<std::vector<int64_t>, Operation *> locals;
  std::vector<std::unique_ptr<Block>> blocks;
};
} // namespace

void Prover::draw() {
  operands.clear();
  shardsOf.clear();
  SmallVector<Part> operandParts, resultParts;
  for (Tensor &tensor : instance.makeOperands(generator)) {
    operandParts.push_back(Part::all(tensor.getShape()));
    operands.push_back(std::make_shared<Tensor>(std::move(tensor)));
  }
  for (RankedTensorType type : resultTypes)
    resultParts.push_back(Part::all(type.getShape()));
  auto whole = evaluate(op, operands, operandParts, resultParts);
  ASSERT_TRUE(succeeded(whole));
  results = std::move(*whole);
}

/// Random terms for all points but the last, which makes up the difference.
static Shards splitIntoTerms(const Tensor &whole, const Instance &instance,
                             unsigned operand, int64_t count,
                             Generator &generator) {
  Shards terms;
  Tensor rest = whole;
  for (int64_t point = 0; point + 1 < count; ++point) {
    Tensor term = instance.makeValue(operand, whole.getType(), generator);
    for (int64_t i = 0; i < rest.getNumElements(); ++i) {
      if (rest.isFloat())
        rest.setDouble(i, rest.getDouble(i) - term.getDouble(i));
      else
        rest.setInteger(i, rest.getInteger(i) - term.getInteger(i));
    }
    terms.push_back(std::make_shared<Tensor>(std::move(term)));
  }
  terms.push_back(std::make_shared<Tensor>(std::move(rest)));
  return terms;
}

Shards Prover::split(unsigned operand, AxisForm form) {
  const Tensor &whole = *operands[operand];
  if (form.isReduce())
    return splitIntoTerms(whole, instance, operand, axisSize, generator);
  return distribute(whole, Points(mesh), form);
}

const Shards &Prover::getShards(unsigned operand, AxisForm form) {
  if (instance.areEqual())
    operand = 0;
  Shards &shards = shardsOf[{operand, form.getCode()}];
  if (shards.empty())
    shards = split(operand, form);
  return shards;
}

Operation *Prover::getLocal(ArrayRef<Shape> operands, ArrayRef<Shape> results) {
  std::vector<int64_t> key;
  for (ArrayRef<Shape> shapes : {operands, results})
    for (const Shape &shape : shapes)
      key.insert(key.end(), shape.begin(), shape.end());
  auto [it, isNew] = locals.try_emplace(key, nullptr);
  if (!isNew)
    return it->second;
  Block &block = *blocks.emplace_back(std::make_unique<Block>());
  OperationState state(op->getLoc(), op->getName());
  for (auto [shape, type] : llvm::zip(operands, operandTypes))
    state.operands.push_back(block.addArgument(
        RankedTensorType::get(shape, type.getElementType()), op->getLoc()));
  for (auto [shape, type] : llvm::zip(results, resultTypes))
    state.types.push_back(RankedTensorType::get(shape, type.getElementType()));
  state.addAttributes(op->getAttrs());
  resizeSplat(state);
  Operation *local = Operation::create(state);
  if (succeeded(verify(local)))
    it->second = local;
  else
    local->destroy();
  return it->second;
}

Part Prover::getPart(RankedTensorType type, AxisForm form, int64_t point) {
  Part part;
  part.whole.assign(type.getShape().begin(), type.getShape().end());
  part.shape = getLocalShape(type.getShape(), mesh, form);
  part.offsets = getLocalOffsets(type.getShape(), mesh, form, point);
  return part;
}

/// Whether `point` holds the results: all of them, or none. An operator that
/// runs makes all of its results.
static std::optional<bool> holdsAll(ArrayRef<AxisForm> results, int64_t point) {
  auto isHere = [&](AxisForm form) { return spmd::isHeld(form, point); };
  if (llvm::all_of(results, isHere))
    return true;
  return llvm::any_of(results, isHere) ? std::nullopt : std::optional(false);
}

/// What the points that hold results compute, if the operator is legal on their
/// shapes, has its operands there, and does not fail. For results only the
/// shape in `results` counts, and who holds them.
std::optional<std::vector<Shards>>
Prover::runShards(ArrayRef<AxisForm> operandForms,
                  ArrayRef<AxisForm> resultForms) {
  std::vector<Shards> found(resultTypes.size());
  for (int64_t point = 0; point < axisSize; ++point) {
    SmallVector<Part> operandParts, resultParts;
    SmallVector<Shape> operandShapes, resultShapes;
    SmallVector<TensorRef> values;
    std::optional<bool> isHere = holdsAll(resultForms, point);
    if (!isHere)
      return std::nullopt;
    if (!*isHere) {
      for (Shards &shards : found)
        shards.push_back(nullptr);
      continue;
    }
    for (unsigned i = 0; i < operandTypes.size(); ++i) {
      values.push_back(getShards(i, operandForms[i])[point]);
      if (!values.back())
        return std::nullopt;
      operandParts.push_back(getPart(operandTypes[i], operandForms[i], point));
      operandShapes.push_back(operandParts.back().shape);
    }
    for (auto [type, form] : llvm::zip(resultTypes, resultForms)) {
      resultParts.push_back(getPart(type, form, point));
      resultShapes.push_back(resultParts.back().shape);
    }
    Operation *local = getLocal(operandShapes, resultShapes);
    if (!local)
      return std::nullopt;
    auto computed = evaluate(local, values, operandParts, resultParts);
    if (failed(computed))
      return std::nullopt;
    for (auto [shards, tensor] : llvm::zip(found, *computed))
      shards.push_back(std::make_shared<Tensor>(std::move(tensor)));
  }
  return found;
}

bool Prover::holds(unsigned result, const Shards &shards, AxisForm form) {
  const Tensor &whole = results[result];
  if (form.isReduce())
    return isNear(whole, sumOf(shards), getTolerance(op));
  Shards expected = distribute(whole, Points(mesh), form);
  return llvm::all_of(llvm::zip(expected, shards), [&](auto pair) {
    auto &[value, shard] = pair;
    return value && shard ? isNear(*value, *shard, getTolerance(op))
                          : !value && !shard;
  });
}

/// The forms that give a result different local shapes; `full` stands for
/// `reduce` as well.
std::vector<AxisForm> Prover::getResultShapes(RankedTensorType type) {
  auto forms = getAllForms(type, axisSize);
  llvm::erase(forms, AxisForm::reduce());
  return forms;
}

std::vector<Signature> Prover::findRight() {
  std::vector<std::vector<AxisForm>> operandChoices, resultChoices;
  for (RankedTensorType type : operandTypes)
    operandChoices.push_back(getAllForms(type, axisSize));
  for (RankedTensorType type : resultTypes)
    resultChoices.push_back(getResultShapes(type));
  std::vector<Signature> right;
  forEachChoice<AxisForm>(operandChoices, [&](ArrayRef<AxisForm> in) {
    forEachChoice<AxisForm>(resultChoices, [&](ArrayRef<AxisForm> shapes) {
      auto shards = runShards(in, shapes);
      if (!shards)
        return;
      std::vector<std::vector<AxisForm>> forms(resultTypes.size());
      for (unsigned i = 0; i < resultTypes.size(); ++i)
        for (AxisForm form : getAllForms(resultTypes[i], axisSize))
          if ((form == shapes[i] || (form.isReduce() && shapes[i].isFull())) &&
              holds(i, (*shards)[i], form))
            forms[i].push_back(form);
      forEachChoice<AxisForm>(forms, [&](ArrayRef<AxisForm> out) {
        right.push_back(
            {SmallVector<AxisForm, 4>(in), SmallVector<AxisForm, 2>(out)});
      });
    });
  });
  return right;
}

bool Prover::isRight(const Signature &signature) {
  auto shards = runShards(signature.operands, signature.results);
  if (!shards)
    return false;
  for (unsigned i = 0; i < resultTypes.size(); ++i)
    if (!holds(i, (*shards)[i], signature.results[i]))
      return false;
  return true;
}

bool Prover::verifies(const Signature &signature) {
  Block block;
  OperationState state(op->getLoc(), op->getName());
  for (auto [type, form] : llvm::zip(operandTypes, signature.operands))
    state.operands.push_back(
        block.addArgument(spmd::withForms(type, mesh, form), op->getLoc()));
  for (auto [type, form] : llvm::zip(resultTypes, signature.results))
    state.types.push_back(spmd::withForms(type, mesh, form));
  state.addAttributes(op->getAttrs());
  Operation *formed = Operation::create(state);
  bool accepted = succeeded(verify(formed));
  formed->destroy();
  return accepted;
}

std::vector<std::vector<AxisForm>> Prover::getChoices() {
  std::vector<std::vector<AxisForm>> choices;
  for (RankedTensorType type : operandTypes)
    choices.push_back(getAllForms(type, axisSize));
  for (RankedTensorType type : resultTypes)
    choices.push_back(getAllForms(type, axisSize));
  return choices;
}

Signature Prover::makeSignature(ArrayRef<AxisForm> forms) {
  return {SmallVector<AxisForm, 4>(forms.take_front(operandTypes.size())),
          SmallVector<AxisForm, 2>(forms.drop_front(operandTypes.size()))};
}

void Prover::forEachSignature(
    llvm::function_ref<void(const Signature &)> visit) {
  forEachChoice<AxisForm>(getChoices(), [&](ArrayRef<AxisForm> forms) {
    visit(makeSignature(forms));
  });
}

void Prover::forEachPlaced(llvm::function_ref<void(const Signature &)> visit) {
  auto choices = getChoices();
  for (int64_t point : {0, 1}) {
    AxisForm here = AxisForm::at(point), there = AxisForm::at(1 - point);
    std::vector<std::vector<AxisForm>> plain(choices.size(),
                                             {AxisForm::full(), here});
    forEachChoice<AxisForm>(plain, [&](ArrayRef<AxisForm> forms) {
      if (!llvm::is_contained(forms, here))
        return;
      visit(makeSignature(forms));
      for (auto [index, others] : llvm::enumerate(choices)) {
        SmallVector<AxisForm> changed(forms);
        for (AxisForm form : ArrayRef(others).drop_front()) {
          changed[index] = form;
          if (llvm::is_contained(changed, here))
            visit(makeSignature(changed));
        }
        changed[index] = there;
        visit(makeSignature(changed));
      }
    });
  }
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

namespace {
class ReferenceProof : public testing::TestWithParam<size_t> {
protected:
  ReferenceProof() {
    context.loadDialect<func::FuncDialect, nn::NNDialect, spmd::SPMDDialect>();
  }
  const Case &getCase() const { return getCases()[GetParam()]; }

  MLIRContext context;
};

class ReferenceProofCoverage : public testing::Test {
protected:
  ReferenceProofCoverage() {
    context.loadDialect<func::FuncDialect, nn::NNDialect, spmd::SPMDDialect>();
  }
  MLIRContext context;
};

constexpr unsigned kInstances = 2; // sizes drawn per case
constexpr unsigned kDraws = 4;     // values drawn per instance

/// Strings, because a set of them prints well.
using Texts = std::set<std::string>;
} // namespace

/// What is right for every draw of values.
static Texts findRight(Prover &prover, ArrayRef<Signature> legal) {
  prover.draw();
  std::vector<Signature> candidates = prover.findRight();
  for (const Signature &signature : legal)
    if (!llvm::is_contained(candidates, signature))
      ADD_FAILURE() << "the rule gives '" << signature.str()
                    << "', which is wrong";
  for (unsigned i = 1; i < kDraws; ++i) {
    prover.draw();
    llvm::erase_if(candidates, [&](const Signature &signature) {
      return !prover.isRight(signature);
    });
  }
  Texts right;
  for (const Signature &signature : candidates)
    right.insert(signature.str());
  return right;
}

static void checkRule(Operation *op, const Instance &instance, int64_t axisSize,
                      Generator &generator) {
  Prover prover(op, instance, axisSize, generator);
  auto legal =
      cast<spmd::SignatureOpInterface>(op).getRule().enumerate(axisSize);
  Texts rule, right = findRight(prover, legal);
  StringRef name = op->getName().getStringRef();
  for (const Signature &signature : legal) {
    rule.insert(signature.str());
    EXPECT_TRUE(right.count(signature.str()))
        << "the rule gives '" << signature.str() << "', which is wrong";
  }
  for (const std::string &text : right)
    EXPECT_TRUE(rule.count(text) || findException(name, text))
        << "'" << text << "' is right, but the rule does not give it";
  prover.forEachSignature([&](const Signature &signature) {
    EXPECT_EQ(prover.verifies(signature), rule.count(signature.str()) == 1)
        << "the verifier does not agree with the rule on '" << signature.str()
        << "'";
  });
}

TEST_P(ReferenceProof, RuleIsWhatIsRight) {
  Generator generator(GetParam());
  for (unsigned i = 0; i < kInstances; ++i) {
    Instance instance(context, getCase(), generator);
    // Operators on shards may fail; that is an answer, not an error.
    ScopedDiagnosticHandler silence(&context, [](Diagnostic &) {});
    for (int64_t axisSize : {2, 4}) {
      std::string text;
      llvm::raw_string_ostream(text) << *instance.getOp();
      SCOPED_TRACE(text + " on an axis of " + std::to_string(axisSize));
      checkRule(instance.getOp(), instance, axisSize, generator);
    }
  }
}

/// Whether all operands are `full` or on one point, and all results on it.
static bool isOnOnePoint(const Signature &signature) {
  AxisForm first = signature.results.front();
  for (AxisForm form : signature.results)
    if (form != first || !form.isAt())
      return false;
  for (AxisForm form : signature.operands)
    if (form != first && !form.isFull())
      return false;
  return true;
}

static void checkPlaced(Operation *op, const Instance &instance,
                        Generator &generator) {
  Prover prover(op, instance, 2, generator);
  prover.draw();
  std::vector<Signature> lucky;
  prover.forEachPlaced([&](const Signature &signature) {
    bool isLegal = isOnOnePoint(signature);
    EXPECT_EQ(prover.verifies(signature), isLegal) << signature.str();
    bool isRight = prover.isRight(signature);
    EXPECT_TRUE(isRight || !isLegal) << signature.str() << " is wrong";
    if (isRight && !isLegal)
      lucky.push_back(signature);
  });
  for (unsigned i = 1; i < kDraws; ++i) {
    prover.draw();
    llvm::erase_if(lucky, [&](const Signature &signature) {
      return !prover.isRight(signature);
    });
  }
  for (const Signature &signature : lucky)
    ADD_FAILURE() << signature.str() << " is right, but not legal";
}

TEST_P(ReferenceProof, PlacedIsWhatIsRight) {
  Generator generator(GetParam());
  Instance instance(context, getCase(), generator);
  ScopedDiagnosticHandler silence(&context, [](Diagnostic &) {});
  std::string text;
  llvm::raw_string_ostream(text) << *instance.getOp();
  SCOPED_TRACE(text);
  checkPlaced(instance.getOp(), instance, generator);
}

static std::string getTestName(const testing::TestParamInfo<size_t> &info) {
  std::string name = getCases()[info.param].getName().substr(3);
  return name + "_" + std::to_string(info.param);
}

INSTANTIATE_TEST_SUITE_P(Cases, ReferenceProof,
                         testing::Range<size_t>(0, getCases().size()),
                         getTestName);

TEST_F(ReferenceProofCoverage, EveryOperatorHasACase) {
  std::set<std::string> tried;
  for (const Case &it : getCases())
    tried.insert(it.getName());
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("nn"))
    EXPECT_TRUE(tried.count(name.getStringRef().str()))
        << name.getStringRef().str() << " has no case";
}

TEST_F(ReferenceProofCoverage, EveryExceptionIsRight) {
  ScopedDiagnosticHandler silence(&context, [](Diagnostic &) {});
  std::set<std::pair<std::string, std::string>> right;
  for (const Case &it : getCases()) {
    if (llvm::none_of(kExceptions, [&](const Exception &exception) {
          return it.getName() == exception.op;
        }))
      continue;
    Generator generator(1);
    Instance instance(context, it, generator);
    Prover prover(instance.getOp(), instance, 2, generator);
    for (const std::string &text : findRight(prover, {}))
      right.insert({it.getName(), text});
  }
  for (const Exception &exception : kExceptions)
    EXPECT_TRUE(right.count({exception.op, exception.signature}))
        << exception.op << ": '" << exception.signature << "' is wrong now";
}
