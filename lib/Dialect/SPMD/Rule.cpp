//===- Rule.cpp - sharding rules ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/SPMD.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::spmd {

std::string Signature::str() const {
  std::string text = printForms(operands);
  text += operands.empty() ? "-> " : " -> ";
  return text + printForms(results);
}

bool isPlaced(const Signature &signature) {
  if (signature.results.empty() || !signature.results.front().isAt())
    return false;
  AxisForm form = signature.results.front();
  return llvm::all_equal(signature.results) &&
         llvm::all_of(signature.operands, [&](AxisForm operand) {
           return operand.isFull() || operand == form;
         });
}

std::optional<Signature> parseSignature(StringRef text) {
  size_t arrow = text.find("->");
  if (arrow == StringRef::npos)
    return std::nullopt;
  auto operands = parseForms(text.take_front(arrow));
  auto results = parseForms(text.drop_front(arrow + 2));
  if (!operands || !results)
    return std::nullopt;
  Signature signature;
  signature.operands.assign(*operands);
  signature.results.assign(*results);
  return signature;
}

//===----------------------------------------------------------------------===//
// Signatures of a rule
//===----------------------------------------------------------------------===//

/// Whether `factor` comes first among the factors of `dim` larger than one.
static bool isMajorMost(const Rule &rule, const Rule::Dim &dim,
                        unsigned factor) {
  for (unsigned other : dim) {
    if (other == factor)
      return true;
    if (rule.factors[other].size > 1)
      return false;
  }
  return false;
}

/// The dimension of `dims` that has `factor`, or none.
static std::optional<unsigned> findDim(const Rule::Dims &dims,
                                       unsigned factor) {
  for (auto [index, dim] : llvm::enumerate(dims))
    if (llvm::is_contained(dim, factor))
      return index;
  return std::nullopt;
}

bool Rule::canSplit(unsigned factor, int64_t axisSize) const {
  const Factor &it = factors[factor];
  if (!it.splittable || it.size <= 1 || it.size % axisSize != 0)
    return false;
  auto isFirst = [&](const Dims &dims) {
    auto dim = findDim(dims, factor);
    return !dim || isMajorMost(*this, dims[*dim], factor);
  };
  return llvm::all_of(operands, isFirst) && llvm::all_of(results, isFirst);
}

Signature Rule::getSplitSignature(unsigned factor) const {
  auto formOr = [&](const Dims &dims, AxisForm otherwise) {
    auto dim = findDim(dims, factor);
    return dim ? AxisForm::gather(*dim) : otherwise;
  };
  Signature signature;
  for (const Dims &dims : operands)
    signature.operands.push_back(formOr(dims, AxisForm::full()));
  for (const Dims &dims : results)
    signature.results.push_back(formOr(dims, AxisForm::reduce()));
  return signature;
}

bool Rule::makesSums() const {
  for (unsigned factor = 0; factor < factors.size(); ++factor)
    if (factors[factor].splittable && factors[factor].size > 1 &&
        llvm::any_of(getSplitSignature(factor).results,
                     [](AxisForm form) { return form.isReduce(); }))
      return true;
  return false;
}

static Signature getUniform(const Rule &rule, AxisForm form) {
  Signature signature;
  signature.operands.assign(rule.operands.size(), AxisForm::full());
  signature.results.assign(rule.results.size(), form);
  return signature;
}

static Signature getLinearSignature(const Rule &rule,
                                    ArrayRef<unsigned> group) {
  Signature signature = getUniform(rule, AxisForm::reduce());
  for (unsigned operand : group)
    signature.operands[operand] = AxisForm::reduce();
  return signature;
}

SmallVector<Signature> Rule::enumerate(int64_t axisSize) const {
  SmallVector<Signature> signatures{getUniform(*this, AxisForm::full())};
  auto add = [&](Signature signature) {
    if (!llvm::is_contained(signatures, signature))
      signatures.push_back(std::move(signature));
  };
  for (unsigned factor = 0; factor < factors.size(); ++factor)
    if (canSplit(factor, axisSize))
      add(getSplitSignature(factor));
  for (const auto &group : linear)
    add(getLinearSignature(*this, group));
  return signatures;
}

std::string Rule::explain(const Signature &signature) const {
  auto explainAll = [&](ArrayRef<Dims> tensors, ArrayRef<AxisForm> forms) {
    for (auto [dims, form] : llvm::zip(tensors, forms))
      if (form.isGather() && form.getDim() < static_cast<int64_t>(dims.size()))
        for (unsigned factor : dims[form.getDim()])
          if (StringRef need = factors[factor].need; !need.empty())
            return ("; splitting dimension " + Twine(form.getDim()) +
                    " needs " + need)
                .str();
    return std::string();
  };
  std::string text = explainAll(operands, signature.operands);
  return text.empty() ? explainAll(results, signature.results) : text;
}

LogicalResult Rule::split(const Signature &signature, int64_t axisSize) {
  if (signature == getUniform(*this, AxisForm::full()) || isPlaced(signature))
    return success();
  for (unsigned factor = 0; factor < factors.size(); ++factor) {
    if (!canSplit(factor, axisSize) || signature != getSplitSignature(factor))
      continue;
    factors[factor].size /= axisSize;
    return success();
  }
  return success(llvm::any_of(linear, [&](ArrayRef<unsigned> group) {
    return signature == getLinearSignature(*this, group);
  }));
}

//===----------------------------------------------------------------------===//
// Truth values
//===----------------------------------------------------------------------===//

Rule withoutSumsOfTruth(Operation *op, Rule rule) {
  for (auto [dims, result] : llvm::zip(rule.results, op->getResults())) {
    if (!isTruth(result.getType()))
      continue;
    rule.linear.clear();
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
      if (!findDim(dims, factor))
        rule.factors[factor].splittable = false;
  }
  llvm::erase_if(rule.linear, [&](ArrayRef<unsigned> group) {
    return llvm::any_of(group, [&](unsigned operand) {
      return isTruth(op->getOperand(operand).getType());
    });
  });
  return rule;
}

//===----------------------------------------------------------------------===//
// Signatures in types
//===----------------------------------------------------------------------===//

Signature getSignature(Operation *op, MeshAttr mesh, unsigned axis) {
  Signature signature;
  for (Type type : op->getOperandTypes())
    signature.operands.push_back(getForms(type, mesh)[axis]);
  for (Type type : op->getResultTypes())
    signature.results.push_back(getForms(type, mesh)[axis]);
  return signature;
}

/// The mesh of the forms in `op`'s types; fails if there are two.
static FailureOr<MeshAttr> findMesh(Operation *op) {
  MeshAttr mesh;
  for (auto types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      auto form = tensor ? dyn_cast_or_null<FormAttr>(tensor.getEncoding())
                         : FormAttr();
      if (!form)
        continue;
      if (mesh && mesh != form.getMesh())
        return op->emitOpError("mixes forms on the meshes ")
               << mesh << " and " << form.getMesh();
      mesh = form.getMesh();
    }
  return mesh;
}

/// What `signature` should have been, for an error.
static std::string getExpected(const Rule &rule, const Signature &signature,
                               int64_t axisSize) {
  for (ArrayRef<AxisForm> forms : {ArrayRef<AxisForm>(signature.results),
                                   ArrayRef<AxisForm>(signature.operands)})
    if (const AxisForm *at = llvm::find_if(forms, std::mem_fn(&AxisForm::isAt));
        at != forms.end())
      return "operands that are '" + at->str() +
             "' or 'full', and results that are '" + at->str() + "'";
  std::string legal;
  for (const Signature &other : rule.enumerate(axisSize))
    legal += (legal.empty() ? "one of: " : "; ") + other.str();
  return legal;
}

LogicalResult verifySignature(Operation *op) {
  FailureOr<MeshAttr> mesh = findMesh(op);
  if (failed(mesh))
    return failure();
  if (!*mesh)
    return success();
  Rule rule = cast<SignatureOpInterface>(op).getRule();
  for (unsigned axis : mesh->getLayoutOrder()) {
    Signature signature = getSignature(op, *mesh, axis);
    int64_t size = mesh->getSize(axis);
    if (succeeded(rule.split(signature, size)))
      continue;
    return op->emitOpError("has no signature '")
           << signature.str() << "' on axis '" << mesh->getName(axis)
           << "' of size " << size << rule.explain(signature) << "; expected "
           << getExpected(rule, signature, size);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Text of a rule
//===----------------------------------------------------------------------===//

namespace {
/// A dimension as it is written: names of factors, or the ellipsis.
struct DimText {
  SmallVector<StringRef, 1> names;
  bool isEllipsis() const { return names.size() == 1 && names[0] == "..."; }
};

class RuleParser {
public:
  RuleParser(Operation *op, StringRef text) : op(op), text(text) {}
  Rule parse();

private:
  [[noreturn]] void fail(const Twine &why) {
    llvm::report_fatal_error("rule '" + text + "' of " +
                             op->getName().getStringRef() + ": " + why);
  }
  SmallVector<SmallVector<DimText>> parseLists(StringRef side);
  SmallVector<DimText> parseDims(StringRef list);
  Rule::Dims bind(ArrayRef<DimText> dims, Type type);
  Rule::Dim bindDim(const DimText &dim, int64_t size);
  unsigned getFactor(StringRef name, int64_t size);

  Operation *op;
  StringRef text;
  Rule rule;
  llvm::StringMap<unsigned> named;
};
} // namespace

SmallVector<DimText> RuleParser::parseDims(StringRef list) {
  SmallVector<DimText> dims;
  while (!(list = list.ltrim()).empty()) {
    StringRef names = list.take_until([](char c) { return c == ' '; });
    bool compound = list.front() == '(';
    if (compound)
      names = list.drop_front().take_until([](char c) { return c == ')'; });
    list = list.drop_front(names.size() + (compound ? 2 : 0));
    DimText dim;
    llvm::SplitString(names, dim.names);
    dims.push_back(std::move(dim));
  }
  return dims;
}

SmallVector<SmallVector<DimText>> RuleParser::parseLists(StringRef side) {
  SmallVector<SmallVector<DimText>> lists;
  while (!(side = side.ltrim(" ,")).empty()) {
    if (side.front() != '(')
      fail("expected '('");
    unsigned depth = 0, end = 0;
    do {
      depth += side[end] == '(';
      depth -= side[end] == ')';
    } while (++end < side.size() && depth > 0);
    lists.push_back(parseDims(side.slice(1, end - 1)));
    side = side.drop_front(end);
  }
  return lists;
}

unsigned RuleParser::getFactor(StringRef name, int64_t size) {
  bool splittable = !name.consume_back("!");
  auto [it, isNew] = named.try_emplace(name, 0);
  if (isNew)
    it->second = rule.addFactor(size, splittable);
  if (rule.factors[it->second].size != size)
    fail("factor " + name + " has two sizes");
  return it->second;
}

Rule::Dim RuleParser::bindDim(const DimText &dim, int64_t size) {
  if (dim.names.size() == 1 && dim.names[0] == "1")
    return {};
  // In a compound dimension one factor may be new; its size is what is left.
  int64_t rest = size;
  for (StringRef name : dim.names)
    if (auto it = named.find(name.rtrim('!')); it != named.end())
      rest /= rule.factors[it->second].size;
  Rule::Dim factors;
  for (StringRef name : dim.names) {
    auto it = named.find(name.rtrim('!'));
    factors.push_back(getFactor(
        name, it == named.end() ? rest : rule.factors[it->second].size));
  }
  int64_t product = 1;
  for (unsigned factor : factors)
    product *= rule.factors[factor].size;
  if (product != size)
    fail("factor " + dim.names.front() + " does not fit a dimension of size " +
         Twine(size));
  return factors;
}

Rule::Dims RuleParser::bind(ArrayRef<DimText> dims, Type type) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  bool open = !dims.empty() && dims.front().isEllipsis();
  if (open)
    dims = dims.drop_front();
  if (open ? shape.size() < dims.size() : shape.size() != dims.size())
    fail("does not fit a tensor of rank " + Twine(shape.size()));
  Rule::Dims bound;
  size_t leading = shape.size() - dims.size();
  for (size_t i = 0; i < leading; ++i)
    bound.push_back({getFactor("..." + std::to_string(i), shape[i])});
  for (auto [dim, size] : llvm::zip(dims, shape.drop_front(leading)))
    bound.push_back(bindDim(dim, size));
  return bound;
}

Rule RuleParser::parse() {
  auto [left, right] = text.split("->");
  auto operands = parseLists(left), results = parseLists(right);
  if (op->getNumOperands() > operands.size() ||
      op->getNumResults() > results.size())
    fail("the operator has more operands or results");
  for (auto [dims, type] : llvm::zip(operands, op->getOperandTypes()))
    rule.operands.push_back(bind(dims, type));
  for (auto [dims, type] : llvm::zip(results, op->getResultTypes()))
    rule.results.push_back(bind(dims, type));
  return rule;
}

void addLinear(Operation *op, Rule &rule, StringRef text) {
  SmallVector<StringRef> groups;
  text.split(groups, '|', -1, /*KeepEmpty=*/false);
  for (StringRef group : groups) {
    SmallVector<StringRef> members;
    llvm::SplitString(group, members);
    auto &operands = rule.linear.emplace_back();
    for (StringRef member : members)
      if (member.getAsInteger(10, operands.emplace_back()))
        llvm::report_fatal_error("groups of linear operands '" + text +
                                 "' of " + op->getName().getStringRef() +
                                 ": expected a number, not " + member);
  }
}

Rule parseRule(Operation *op, StringRef text, StringRef linear) {
  Rule rule = RuleParser(op, text).parse();
  addLinear(op, rule, linear);
  return rule;
}

} // namespace tandem::spmd
