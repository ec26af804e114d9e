//===- SPMD.cpp - the spmd dialect and its attributes ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/SPMD.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Support/FormText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::spmd;

#include "tandem/Dialect/SPMD/SPMDDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/SPMD/SPMDAttrs.cpp.inc"

#include "tandem/Dialect/SPMD/SPMDInterfaces.cpp.inc"

namespace {
/// Names that say what they stand for: the mesh is `#mesh`, a form
/// `#gather0_data`, a plan `#stage3_g0_f_to_g0_plan`.
struct Aliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    auto plan = dyn_cast<PlanAttr>(attribute);
    if (auto form = dyn_cast<FormAttr>(attribute))
      print(form, os);
    else if (plan && plan.getSignatures())
      print(plan, os);
    else if (isa<MeshAttr>(attribute))
      os << "mesh";
    else
      return AliasResult::NoAlias;
    return AliasResult::FinalAlias;
  }

private:
  /// Of operands, then results: `g0_f_to_r_`.
  static std::string print(const Signature &signature) {
    std::string text;
    auto add = [&](AxisForm form) {
      text += tandem::form::getKeyword(form.getCode()).front();
      text += (form.isGather() ? std::to_string(form.getDim()) : "") + "_";
    };
    llvm::for_each(signature.operands, add);
    text += "to_";
    llvm::for_each(signature.results, add);
    return text;
  }
  /// The signature of all axes, or one after the other. Plans that differ in
  /// something else are told apart by a number.
  static void print(PlanAttr plan, raw_ostream &os) {
    if (plan.getStage())
      os << "stage" << plan.getStage().getInt() << "_";
    SmallVector<std::string> texts;
    for (unsigned axis = 0; axis < plan.getSignatures().getNumAxes(); ++axis)
      texts.push_back(print(plan.getSignatures().getSignature(axis)));
    if (llvm::all_equal(texts))
      texts.resize(std::min<size_t>(texts.size(), 1));
    os << llvm::join(texts, "and_") << "plan";
  }
  /// `gather0_data_reduce_model`.
  static void print(FormAttr form, raw_ostream &os) {
    StringRef separator;
    for (auto [axis, code] : llvm::enumerate(form.getCodes())) {
      AxisForm own = AxisForm::fromCode(code);
      if (own.isFull())
        continue;
      os << separator << tandem::form::getKeyword(code);
      if (own.isGather())
        os << own.getDim();
      else if (own.isAt())
        os << own.getPoint();
      os << "_" << form.getMesh().getName(axis);
      separator = "_";
    }
  }
};
} // namespace

void SPMDDialect::initialize() {
  addFacts();
  addInterfaces<Aliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/SPMD/SPMDAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/SPMD/SPMDOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// MeshAttr
//===----------------------------------------------------------------------===//

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  unsigned numTimeAxes = 0;
  auto parseAxis = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    int64_t size;
    if (parser.parseKeyword(&name))
      return failure();
    // `time` before a name marks a time axis; an axis may also be called so.
    StringRef second;
    bool isTime =
        name == "time" && succeeded(parser.parseOptionalKeyword(&second));
    if (!isTime && numTimeAxes > 0)
      return parser.emitError(loc, "a space axis after a time axis");
    numTimeAxes += isTime;
    if (parser.parseEqual() || parser.parseInteger(size))
      return failure();
    names.push_back(
        StringAttr::get(parser.getContext(), isTime ? second : name));
    sizes.push_back(size);
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseAxis))
    return {};
  return parser.getChecked<MeshAttr>(loc, parser.getContext(), names, sizes,
                                     numTimeAxes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  for (unsigned axis = 0; axis < getNumAxes(); ++axis)
    printer << (axis ? ", " : "") << (isTime(axis) ? "time " : "")
            << getName(axis) << " = " << getSize(axis);
  printer << ">";
}

/// Points are enumerated, and counted in 64 bits together with elements.
static constexpr int64_t kMaxPoints = int64_t(1) << 24;

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes, unsigned numTimeAxes) {
  if (names.size() != sizes.size() || numTimeAxes > names.size())
    return emitError() << "mesh has " << names.size() << " names and "
                       << sizes.size() << " sizes";
  llvm::StringSet<> seen;
  int64_t points = 1;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    if (size < 1)
      return emitError() << "mesh axis '" << name.getValue() << "' has size "
                         << size << ", expected at least 1";
    if (!seen.insert(name.getValue()).second)
      return emitError() << "mesh axis '" << name.getValue()
                         << "' is declared twice";
    if (size > kMaxPoints / points)
      return emitError() << "mesh has more than " << kMaxPoints
                         << " points with axis '" << name.getValue()
                         << "' = " << size << ", expected less";
    points *= size;
  }
  return success();
}

std::optional<unsigned> MeshAttr::lookup(StringRef name) const {
  for (unsigned axis = 0; axis < getNumAxes(); ++axis)
    if (getName(axis) == name)
      return axis;
  return std::nullopt;
}

int64_t MeshAttr::getNumRanks() const {
  int64_t ranks = 1;
  for (int64_t size : getSizes().take_front(getNumSpaceAxes()))
    ranks *= size;
  return ranks;
}

int64_t MeshAttr::getNumStrands() const {
  int64_t strands = 1;
  for (int64_t size : getSizes().drop_front(getNumSpaceAxes()))
    strands *= size;
  return strands;
}

SmallVector<unsigned> MeshAttr::getLayoutOrder() const {
  SmallVector<unsigned> order;
  for (unsigned axis = getNumSpaceAxes(); axis < getNumAxes(); ++axis)
    order.push_back(axis);
  for (unsigned axis = 0; axis < getNumSpaceAxes(); ++axis)
    order.push_back(axis);
  return order;
}

SmallVector<int64_t> MeshAttr::getCoordinates(int64_t rank) const {
  SmallVector<int64_t> coordinates(getNumSpaceAxes());
  for (unsigned axis = getNumSpaceAxes(); axis-- > 0;) {
    coordinates[axis] = rank % getSize(axis);
    rank /= getSize(axis);
  }
  return coordinates;
}

//===----------------------------------------------------------------------===//
// FormAttr
//===----------------------------------------------------------------------===//

static ParseResult parseAxisForm(AsmParser &parser, AxisForm &form) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  auto code = tandem::form::findCode(keyword);
  if (code && tandem::form::isOfTensors(*code)) {
    form = AxisForm::fromCode(*code);
    return success();
  }
  int64_t number;
  bool isAt = keyword == "at";
  if (!isAt && keyword != "gather")
    return parser.emitError(
        loc, "expected 'full', 'gather(d)', 'reduce' or 'at(i)'");
  if (parser.parseLParen() || parser.parseInteger(number) ||
      parser.parseRParen())
    return failure();
  if (!isAt && number < 0)
    return parser.emitError(loc, "'gather' of a negative dimension");
  if (isAt && (number < 0 || number > tandem::form::kMaxPoint))
    return parser.emitError(loc, "'at' of the point ")
           << number << ", expected 0 to " << tandem::form::kMaxPoint;
  form = isAt ? AxisForm::at(number) : AxisForm::gather(number);
  return success();
}

Attribute FormAttr::parse(AsmParser &parser, Type) {
  MeshAttr mesh;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseAttribute(mesh))
    return {};
  SmallVector<int64_t> codes(mesh.getNumAxes(), AxisForm::full().getCode());
  llvm::StringSet<> named;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc nameLoc = parser.getCurrentLocation();
    AxisForm form;
    if (parser.parseKeyword(&name) || parser.parseColon() ||
        ::parseAxisForm(parser, form))
      return {};
    std::optional<unsigned> axis = mesh.lookup(name);
    if (!axis) {
      parser.emitError(nameLoc) << "the mesh has no axis '" << name << "'";
      return {};
    }
    if (!named.insert(name).second) {
      parser.emitError(nameLoc)
          << "axis '" << name << "' is both '"
          << AxisForm::fromCode(codes[*axis]).str() << "' and '" << form.str()
          << "', expected one form";
      return {};
    }
    codes[*axis] = form.getCode();
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<FormAttr>(loc, parser.getContext(), mesh, codes);
}

void FormAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printAttribute(getMesh());
  for (auto [axis, code] : llvm::enumerate(getCodes()))
    if (AxisForm form = AxisForm::fromCode(code); !form.isFull())
      printer << ", " << getMesh().getName(axis) << ": " << form.str();
  printer << ">";
}

LogicalResult FormAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               MeshAttr mesh, ArrayRef<int64_t> codes) {
  if (codes.size() != mesh.getNumAxes())
    return emitError() << "form names " << codes.size()
                       << " axes, but the mesh has " << mesh.getNumAxes();
  if (llvm::all_of(codes, [](int64_t code) {
        return AxisForm::fromCode(code).isFull();
      }))
    return emitError()
           << "a tensor that is full on all axes carries no form at all";
  return success();
}

LogicalResult
FormAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                         function_ref<InFlightDiagnostic()> emitError) const {
  Forms forms;
  for (int64_t code : getCodes())
    forms.push_back(AxisForm::fromCode(code));
  std::string reason;
  if (!canHaveForms(RankedTensorType::get(shape, elementType), getMesh(), forms,
                    &reason))
    return emitError() << reason;
  return success();
}
