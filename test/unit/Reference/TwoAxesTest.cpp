//===- TwoAxesTest.cpp - operators and reforms on two axes --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What holds on one axis must hold on two: every pair of signatures of every
// operator, also where both axes split one dimension, run by the interpreter
// from and to whole tensors. And a value that goes through random changes of
// form stays what it is.
//
//===----------------------------------------------------------------------===//

#include "Cases.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Reference/Compare.h"
#include "tandem/Reference/Interpreter.h"
#include "tandem/Reference/Layout.h"
#include "tandem/Reference/Operators.h"
#include "tandem/Transforms/Localize/Localize.h"
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;
using namespace tandem::reference::test;
using spmd::AxisForm;
using spmd::Forms;
using spmd::MeshAttr;
using spmd::Signature;

namespace {
class TwoAxes : public testing::TestWithParam<size_t> {
protected:
  TwoAxes() {
    context.loadDialect<func::FuncDialect, nn::NNDialect, spmd::SPMDDialect>();
  }
  MeshAttr parseMesh(StringRef text) {
    return cast<MeshAttr>(
        parseAttribute(("#spmd.mesh<" + text + ">").str(), &context));
  }

  MLIRContext context;
};

/// The axes of a mesh with two, from major to minor.
struct Order {
  explicit Order(MeshAttr mesh)
      : major(mesh.getLayoutOrder()[0]), minor(mesh.getLayoutOrder()[1]) {}
  unsigned major, minor;
};
} // namespace

static Forms join(MeshAttr mesh, AxisForm major, AxisForm minor) {
  Forms forms(2);
  forms[Order(mesh).major] = major;
  forms[Order(mesh).minor] = minor;
  return forms;
}

/// Types of the operands (results) of `op` in the forms of two signatures; none
/// if a dimension does not divide.
static std::optional<SmallVector<Type>> getTypes(TypeRange types, MeshAttr mesh,
                                                 ArrayRef<AxisForm> major,
                                                 ArrayRef<AxisForm> minor) {
  SmallVector<Type> formed;
  for (auto [index, type] : llvm::enumerate(types)) {
    auto tensor = cast<RankedTensorType>(type);
    Forms forms = join(mesh, major[index], minor[index]);
    if (!spmd::canHaveForms(tensor, mesh, forms))
      return std::nullopt;
    formed.push_back(spmd::withForms(tensor, mesh, forms));
  }
  return formed;
}

/// `type` with `full` on every time axis on which it is `reduce`: no argument
/// or result of a step is stored in terms over time.
static RankedTensorType getStored(Type type, MeshAttr mesh) {
  Forms forms = spmd::getForms(type, mesh);
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (mesh.isTime(axis) && forms[axis].isReduce())
      forms[axis] = AxisForm::full();
  return spmd::withForms(cast<RankedTensorType>(type), mesh, forms);
}

/// `value` in the forms of `type`, changed axis by axis.
static Value reformTo(OpBuilder &builder, Value value, Type type,
                      MeshAttr mesh) {
  Forms target = spmd::getForms(type, mesh);
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    Forms forms = spmd::getForms(value.getType(), mesh);
    if (forms[axis] == target[axis])
      continue;
    forms[axis] = target[axis];
    value = spmd::ReformOp::create(
        builder, value.getLoc(),
        spmd::withForms(cast<RankedTensorType>(type), mesh, forms), value);
  }
  return value;
}

/// A function that is `op` on operands and results of these types.
static OwningOpRef<ModuleOp> wrap(Operation *op, MeshAttr mesh,
                                  TypeRange operands, TypeRange results) {
  OpBuilder builder(op->getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  (*module)->setAttr(spmd::kMeshAttrName, mesh);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> in, out;
  for (Type type : operands)
    in.push_back(getStored(type, mesh));
  for (Type type : results)
    out.push_back(getStored(type, mesh));
  auto function = func::FuncOp::create(builder, op->getLoc(), "f",
                                       builder.getFunctionType(in, out));
  builder.setInsertionPointToEnd(function.addEntryBlock());
  OperationState state(op->getLoc(), op->getName());
  for (auto [argument, type] : llvm::zip(function.getArguments(), operands))
    state.operands.push_back(reformTo(builder, argument, type, mesh));
  state.addTypes(results);
  state.addAttributes(op->getAttrs());
  SmallVector<Value> stored;
  for (auto [result, type] :
       llvm::zip(builder.create(state)->getResults(), out))
    stored.push_back(reformTo(builder, result, type, mesh));
  func::ReturnOp::create(builder, op->getLoc(), stored);
  return module;
}

static std::optional<std::vector<Tensor>>
runFormed(ModuleOp module, MeshAttr mesh, ArrayRef<Tensor> operands) {
  auto results =
      interpret(*module.getOps<func::FuncOp>().begin(), mesh, operands);
  if (failed(results))
    return std::nullopt;
  return std::move(*results);
}

static std::vector<Tensor> runWhole(Operation *op, ArrayRef<Tensor> operands) {
  SmallVector<TensorRef> values;
  SmallVector<Part> operandParts, resultParts;
  for (const Tensor &tensor : operands) {
    values.push_back(std::make_shared<Tensor>(tensor));
    operandParts.push_back(Part::all(tensor.getShape()));
  }
  for (Type type : op->getResultTypes())
    resultParts.push_back(Part::all(cast<RankedTensorType>(type).getShape()));
  auto results = evaluate(op, values, operandParts, resultParts);
  return succeeded(results) ? std::move(*results) : std::vector<Tensor>();
}

static void expectEqual(ArrayRef<Tensor> expected, ArrayRef<Tensor> found) {
  ASSERT_EQ(expected.size(), found.size());
  for (auto [x, y] : llvm::zip(expected, found)) {
    std::string reason;
    EXPECT_TRUE(isClose(x, y, x.isFloat() ? 1e-6 : 0, reason)) << reason;
  }
}

/// Runs `localize` and `duplex`, and after each of them the function again.
static void checkStages(ModuleOp module, MeshAttr mesh,
                        ArrayRef<Tensor> operands, ArrayRef<Tensor> expected) {
  PassManager localize(module.getContext()), duplex(module.getContext());
  addStage(localize, *findStage("localize"));
  addStage(duplex, *findStage("duplex"));
  for (PassManager *stage : {&localize, &duplex}) {
    SCOPED_TRACE(stage == &localize ? "after localize" : "after duplex");
    ASSERT_TRUE(succeeded(stage->run(module)));
    auto found = runFormed(module, mesh, operands);
    ASSERT_TRUE(found.has_value());
    expectEqual(expected, *found);
  }
}

/// Runs `op` in the forms of two signatures. The verifier must accept them if
/// the rule, once it is split by the major one, gives the minor one.
static void checkPair(Operation *op, MeshAttr mesh, const Signature &major,
                      const Signature &minor, ArrayRef<Tensor> operands) {
  auto in =
      getTypes(op->getOperandTypes(), mesh, major.operands, minor.operands);
  auto out = getTypes(op->getResultTypes(), mesh, major.results, minor.results);
  if (!in || !out)
    return;
  SCOPED_TRACE("major: " + major.str() + ", minor: " + minor.str());
  auto rule = cast<spmd::SignatureOpInterface>(op).getRule();
  bool isLegal =
      succeeded(rule.split(major, mesh.getSize(Order(mesh).major))) &&
      succeeded(rule.split(minor, mesh.getSize(Order(mesh).minor)));
  auto module = wrap(op, mesh, *in, *out);
  ASSERT_EQ(succeeded(verify(*module)), isLegal);
  if (!isLegal)
    return;
  auto found = runFormed(*module, mesh, operands);
  ASSERT_TRUE(found.has_value());
  std::vector<Tensor> expected = runWhole(op, operands);
  expectEqual(expected, *found);
  checkStages(*module, mesh, operands, expected);
}

/// Signatures of the rule on an axis; on one of two points of space also those
/// with results on the last point and the first operands there, or none, or
/// all.
static SmallVector<Signature> getSignatures(const spmd::Rule &rule,
                                            MeshAttr mesh, unsigned axis) {
  auto signatures = rule.enumerate(mesh.getSize(axis));
  if (mesh.isTime(axis) || mesh.getSize(axis) != 2)
    return signatures;
  AxisForm last = AxisForm::at(1);
  std::set<size_t> counts{0, std::min<size_t>(1, rule.operands.size()),
                          rule.operands.size()};
  for (size_t count : counts) {
    Signature placed;
    placed.operands.assign(rule.operands.size(), AxisForm::full());
    placed.results.assign(rule.results.size(), last);
    std::fill_n(placed.operands.begin(), count, last);
    signatures.push_back(placed);
  }
  return signatures;
}

TEST_P(TwoAxes, PairsOfSignaturesAreRight) {
  Generator generator(GetParam());
  Instance instance(context, getCases()[GetParam()], generator);
  Operation *op = instance.getOp();
  auto rule = cast<spmd::SignatureOpInterface>(op).getRule();
  std::vector<Tensor> operands = instance.makeOperands(generator);
  ScopedDiagnosticHandler silence(&context, [](Diagnostic &) {});
  for (StringRef text : {"x = 2, y = 2", "x = 2, time t = 2",
                         "x = 4, time t = 2", "time s = 2, time t = 2"}) {
    MeshAttr mesh = parseMesh(text);
    Order order(mesh);
    for (const Signature &major : getSignatures(rule, mesh, order.major))
      for (const Signature &minor : getSignatures(rule, mesh, order.minor))
        checkPair(op, mesh, major, minor, operands);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TwoAxes,
                         testing::Range<size_t>(0, getCases().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           return getCases()[info.param].getName().substr(3) +
                                  "_" + std::to_string(info.param);
                         });

//===----------------------------------------------------------------------===//
// Changes of form
//===----------------------------------------------------------------------===//

/// All forms of a matrix on an axis of two points.
static constexpr StringRef kMatrixForms[] = {"full",      "reduce", "gather(0)",
                                             "gather(1)", "at(0)",  "at(1)"};

static Forms drawForms(RankedTensorType type, MeshAttr mesh,
                       Generator &generator) {
  while (true) {
    Forms forms;
    for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
      forms.push_back(*spmd::parseAxisForm(
          kMatrixForms[generator() % std::size(kMatrixForms)]));
    if (spmd::canHaveForms(type, mesh, forms))
      return forms;
  }
}

static Tensor drawTensor(RankedTensorType type, Generator &generator) {
  Tensor tensor(type.getShape(), type.getElementType());
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    tensor.setDouble(i, uniform(generator));
  return tensor;
}

/// A function that takes its argument through `steps` random forms.
static std::string makeChain(RankedTensorType type, MeshAttr mesh,
                             unsigned steps, Generator &generator) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Type current = spmd::withForms(type, mesh, drawForms(type, mesh, generator));
  os << "func.func @f(%v0: " << current << ") -> RESULT {\n";
  unsigned value = 0;
  for (unsigned i = 0; i < steps; ++i) {
    Type next = spmd::withForms(type, mesh, drawForms(type, mesh, generator));
    if (next == current)
      continue;
    os << "  %v" << value + 1 << " = spmd.reform %v" << value << " : "
       << current << " -> " << next << "\n";
    current = next;
    ++value;
  }
  os << "  return %v" << value << " : " << current << "\n}\n";
  std::string result;
  llvm::raw_string_ostream(result) << current;
  text.replace(text.find("RESULT"), 6, result);
  return text;
}

TEST_F(TwoAxes, ReformsKeepTheValue) {
  Generator generator(7);
  auto type = RankedTensorType::get({8, 16}, Float64Type::get(&context));
  for (StringRef text : {"x = 2", "x = 2, y = 2", "x = 2, time t = 2",
                         "x = 2, y = 2, time t = 2, time s = 2"}) {
    MeshAttr mesh = parseMesh(text);
    for (unsigned trial = 0; trial < 25; ++trial) {
      std::string chain = makeChain(type, mesh, 6, generator);
      SCOPED_TRACE(chain);
      auto module = parseSourceString<ModuleOp>(chain, &context);
      ASSERT_TRUE(module);
      Tensor whole = drawTensor(type, generator);
      auto found = runFormed(*module, mesh, whole);
      ASSERT_TRUE(found.has_value());
      expectEqual(whole, *found);
    }
  }
}

/// The change from `from` to `to` on axis x, as text.
static std::string makeChange(RankedTensorType type, MeshAttr mesh,
                              const Forms &from, const Forms &to) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Type before = spmd::withForms(type, mesh, from);
  Type after = spmd::withForms(type, mesh, to);
  os << "module attributes {spmd.mesh = " << mesh
     << "} {\nfunc.func @f(%x: " << before << ") -> " << after
     << " {\n  %y = spmd.reform %x : " << before << " -> " << after
     << "\n  return %y : " << after << "\n}\n}\n";
  return text;
}

/// What a change becomes on a device; nothing where it is no single one.
static std::string getOperator(StringRef from, StringRef to) {
  static const std::map<std::pair<StringRef, StringRef>, const char *> kTable =
      {{{"full", "gather"}, "spmd.local_slice"},
       {{"full", "reduce"}, "spmd.keep_first"},
       {{"full", "at"}, "spmd.keep_at"},
       {{"gather", "full"}, "spmd.all_gather"},
       {{"gather", "gather"}, "spmd.all_to_all"},
       {{"reduce", "full"}, "spmd.all_reduce"},
       {{"reduce", "gather"}, "spmd.reduce_scatter"},
       {{"reduce", "at"}, "spmd.reduce"},
       {{"at", "full"}, "spmd.broadcast"},
       {{"at", "reduce"}, "spmd.zero_others"},
       {{"at", "at"}, "spmd.transfer"}};
  auto found = kTable.find({from.split('(').first, to.split('(').first});
  return found == kTable.end() ? "" : found->second;
}

TEST_F(TwoAxes, ChangesOfOneAxisAreOneOperator) {
  Generator generator(11);
  MeshAttr mesh = parseMesh("x = 2, y = 2");
  auto type = RankedTensorType::get({8, 16}, Float64Type::get(&context));
  for (StringRef other : {"full", "at(1)", "gather(0)"})
    for (StringRef from : kMatrixForms)
      for (StringRef to : kMatrixForms) {
        AxisForm onY = *spmd::parseAxisForm(other);
        Forms before{*spmd::parseAxisForm(from), onY};
        Forms after{*spmd::parseAxisForm(to), onY};
        std::string expected = from == to ? "" : getOperator(from, to);
        // Axis y is the minor one on the dimension that it splits.
        if (onY.isGather() && (before[0] == onY || after[0] == onY))
          continue;
        SCOPED_TRACE((from + " -> " + to + ", " + other).str());
        EXPECT_EQ(spmd::getReformedAxis(mesh, before, after).has_value(),
                  !expected.empty());
        if (expected.empty())
          continue;
        auto module = parseSourceString<ModuleOp>(
            makeChange(type, mesh, before, after), &context);
        ASSERT_TRUE(module);
        Tensor whole = drawTensor(type, generator);
        auto found = runFormed(*module, mesh, whole);
        ASSERT_TRUE(found.has_value());
        expectEqual(whole, *found);
        checkStages(*module, mesh, whole, whole);
        auto function = *module->getOps<func::FuncOp>().begin();
        EXPECT_EQ(function.getBody().front().front().getName().getStringRef(),
                  expected);
      }
}
