//===- PlanAttrs.cpp - attributes of a plan -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem::spmd;

/// `<"TEXT">`, as `parse` reads TEXT; `expected` is the grammar in an error.
template <typename T>
static std::optional<T>
parseQuoted(AsmParser &parser, StringRef expected,
            llvm::function_ref<std::optional<T>(StringRef)> parse) {
  std::string text;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&text) || parser.parseGreater())
    return std::nullopt;
  std::optional<T> parsed = parse(text);
  if (!parsed)
    parser.emitError(loc) << "found '" << text << "', expected '" << expected
                          << "'";
  return parsed;
}

static void appendCodes(SmallVectorImpl<int64_t> &codes,
                        ArrayRef<AxisForm> forms) {
  for (AxisForm form : forms)
    codes.push_back(form.getCode());
}

static Forms decode(ArrayRef<int64_t> codes) {
  return Forms(llvm::map_range(codes, &AxisForm::fromCode));
}

/// `RESULT REST`; nothing if there is no number.
static std::optional<std::pair<unsigned, StringRef>> split(StringRef text) {
  auto [number, rest] = text.split(' ');
  unsigned result;
  if (number.getAsInteger(10, result))
    return std::nullopt;
  return std::make_pair(result, rest);
}

//===----------------------------------------------------------------------===//
// SignaturesAttr
//===----------------------------------------------------------------------===//

SignaturesAttr SignaturesAttr::get(MLIRContext *context,
                                   ArrayRef<Signature> signatures) {
  SmallVector<int64_t> codes;
  for (const Signature &signature : signatures) {
    appendCodes(codes, signature.operands);
    appendCodes(codes, signature.results);
  }
  bool isEmpty = signatures.empty();
  return get(context, isEmpty ? 0 : signatures.front().operands.size(),
             isEmpty ? 0 : signatures.front().results.size(),
             ArrayRef<int64_t>(codes));
}

unsigned SignaturesAttr::getNumAxes() const {
  unsigned numForms = getNumOperands() + getNumResults();
  return numForms ? getCodes().size() / numForms : 0;
}

Signature SignaturesAttr::getSignature(unsigned axis) const {
  unsigned numForms = getNumOperands() + getNumResults();
  ArrayRef<int64_t> codes = getCodes().slice(axis * numForms, numForms);
  Signature signature;
  signature.operands.assign(decode(codes.take_front(getNumOperands())));
  signature.results.assign(decode(codes.drop_front(getNumOperands())));
  return signature;
}

Attribute SignaturesAttr::parse(AsmParser &parser, Type) {
  SmallVector<Signature> signatures;
  auto parseOne = [&]() -> ParseResult {
    std::string text;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseString(&text))
      return failure();
    std::optional<Signature> signature = parseSignature(text);
    if (!signature)
      return parser.emitError(loc)
             << "found '" << text << "', expected 'FORMS -> FORMS'";
    signatures.push_back(*signature);
    const Signature &first = signatures.front();
    if (first.operands.size() == signature->operands.size() &&
        first.results.size() == signature->results.size())
      return success();
    return parser.emitError(loc)
           << "found '" << text << "', expected " << first.operands.size()
           << " operands and " << first.results.size() << " results";
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseOne))
    return {};
  return get(parser.getContext(), signatures);
}

void SignaturesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  for (unsigned axis = 0; axis < getNumAxes(); ++axis)
    printer << (axis ? ", " : "") << '"' << getSignature(axis).str() << '"';
  printer << ">";
}

//===----------------------------------------------------------------------===//
// CopyAttr, WaitAttr, PiecesAttr
//===----------------------------------------------------------------------===//

CopyAttr CopyAttr::get(MLIRContext *context, unsigned result,
                       const Copy &copy) {
  SmallVector<int64_t> codes;
  for (const Forms &forms : copy.path)
    appendCodes(codes, forms);
  return get(context, result, StringAttr::get(context, copy.pass), copy.isKept,
             copy.path.front().size(), codes);
}

Copy CopyAttr::getCopy() const {
  Copy copy{getPass().str(), getIsKept(), {}};
  for (unsigned i = 0; i < getCodes().size(); i += getNumAxes())
    copy.path.push_back(decode(getCodes().slice(i, getNumAxes())));
  return copy;
}

Attribute CopyAttr::parse(AsmParser &parser, Type) {
  auto copy = parseQuoted<CopyAttr>(
      parser, kCopyGrammar, [&](StringRef text) -> std::optional<CopyAttr> {
        auto parts = split(text);
        auto copy = parts ? parseCopy(parts->second) : std::nullopt;
        if (!copy)
          return std::nullopt;
        return get(parser.getContext(), parts->first, *copy);
      });
  return copy.value_or(CopyAttr());
}

void CopyAttr::print(AsmPrinter &printer) const {
  printer << "<\"" << getResult() << " " << spmd::print(getCopy()) << "\">";
}

WaitAttr WaitAttr::get(MLIRContext *context, unsigned result,
                       const Wait &wait) {
  SmallVector<int64_t> codes;
  appendCodes(codes, wait.forms);
  SmallVector<PiecesAttr> pieces;
  for (const auto &collective : wait.pieces)
    pieces.push_back(PiecesAttr::get(context, collective));
  return get(context, result, codes, pieces);
}

Wait WaitAttr::getWait() const {
  Wait wait{decode(getCodes()), {}};
  for (PiecesAttr pieces : getPieces())
    wait.pieces.emplace_back(pieces.getPieces());
  return wait;
}

Attribute WaitAttr::parse(AsmParser &parser, Type) {
  auto wait = parseQuoted<WaitAttr>(
      parser, kWaitGrammar, [&](StringRef text) -> std::optional<WaitAttr> {
        auto parts = split(text);
        auto wait = parts ? parseWait(parts->second) : std::nullopt;
        if (!wait)
          return std::nullopt;
        return get(parser.getContext(), parts->first, *wait);
      });
  return wait.value_or(WaitAttr());
}

void WaitAttr::print(AsmPrinter &printer) const {
  printer << "<\"" << getResult() << " " << spmd::print(getWait()) << "\">";
}

Attribute PiecesAttr::parse(AsmParser &parser, Type) {
  auto pieces = parseQuoted<PiecesAttr>(
      parser, "STAGE/STRAND SHARE, ... with shares that rise to 1",
      [&](StringRef text) -> std::optional<PiecesAttr> {
        if (text.empty())
          return get(parser.getContext(), {});
        std::optional<Pieces> pieces = parsePieces(text);
        if (!pieces || pieces->size() != 1)
          return std::nullopt;
        return get(parser.getContext(), pieces->front());
      });
  return pieces.value_or(PiecesAttr());
}

void PiecesAttr::print(AsmPrinter &printer) const {
  Pieces pieces;
  if (!getPieces().empty())
    pieces.emplace_back(getPieces());
  printer << "<\"" << printPieces(pieces) << "\">";
}

//===----------------------------------------------------------------------===//
// PricesAttr
//===----------------------------------------------------------------------===//

LogicalResult PricesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 FloatAttr cost, FloatAttr computeSlowdown,
                                 FloatAttr collectiveSlowdown,
                                 DictionaryAttr rates) {
  for (FloatAttr slowdown : {computeSlowdown, collectiveSlowdown})
    if (!(slowdown.getValueAsDouble() >= 1))
      return emitError() << "prices have the slow-down " << slowdown
                         << ", expected at least 1";
  if (!(cost.getValueAsDouble() >= 0))
    return emitError() << "prices have the cost " << cost
                       << ", expected at least 0";
  for (NamedAttribute axis : rates) {
    auto numbers = dyn_cast<DenseF64ArrayAttr>(axis.getValue());
    if (!numbers || numbers.size() != 2 * kNumChangeKinds)
      return emitError() << "prices of axis '" << axis.getName().getValue()
                         << "' are " << axis.getValue() << ", expected "
                         << 2 * kNumChangeKinds
                         << " numbers: latency and s/B of each kind of change";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// PlanAttr
//===----------------------------------------------------------------------===//

namespace {
/// Parses the parts of a plan, `KEYWORD [= VALUE]`, in any order.
class PlanParser {
public:
  explicit PlanParser(AsmParser &parser) : parser(parser) {}
  ParseResult run() {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                          [&] { return parsePart(); });
  }
  Planned planned;

private:
  ParseResult parsePart();
  ParseResult parseValue(StringRef keyword);
  template <typename T> ParseResult parseList(SmallVectorImpl<T> &list) {
    return parser.parseCommaSeparatedList(
        AsmParser::Delimiter::Square, [&]() -> ParseResult {
          return parser.parseCustomAttributeWithFallback(list.emplace_back());
        });
  }

  AsmParser &parser;
};
} // namespace

ParseResult PlanParser::parsePart() {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  if (keyword == "as_wanted" || keyword == "joins") {
    (keyword == "joins" ? planned.joins : planned.asWanted) = true;
    return success();
  }
  constexpr StringRef keywords[] = {"signatures", "form",  "copies",  "waits",
                                    "stage",      "slots", "in_turn", "seconds",
                                    "latency",    "prices"};
  if (!llvm::is_contained(keywords, keyword))
    return parser.emitError(loc)
           << "found '" << keyword << "', expected as_wanted, joins or one of "
           << llvm::join(ArrayRef(keywords), ", ") << " with a value";
  return failure(parser.parseEqual() || parseValue(keyword));
}

ParseResult PlanParser::parseValue(StringRef keyword) {
  if (keyword == "signatures")
    return parser.parseCustomAttributeWithFallback(planned.signatures);
  if (keyword == "form")
    return parser.parseCustomAttributeWithFallback(planned.form);
  if (keyword == "copies")
    return parseList(planned.copies);
  if (keyword == "waits")
    return parseList(planned.waits);
  if (keyword == "slots")
    return parser.parseCustomAttributeWithFallback(planned.pieces);
  if (keyword == "prices")
    return parser.parseCustomAttributeWithFallback(planned.prices);
  if (keyword == "stage")
    return parser.parseInteger(planned.stage.emplace());
  if (keyword == "seconds" || keyword == "latency")
    return parser.parseFloat(keyword == "seconds" ? planned.seconds
                                                  : planned.latency);
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(planned.inTurn.emplace_back());
  });
}

Attribute PlanAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  PlanParser parts(parser);
  if (parts.run())
    return {};
  auto emitError = [&] { return parser.emitError(loc); };
  return parts.planned.getChecked(emitError, parser.getContext());
}

void PlanAttr::print(AsmPrinter &printer) const {
  printer << "<";
  bool isFirst = true;
  auto begin = [&](StringRef keyword) -> AsmPrinter & {
    printer << (isFirst ? "" : ", ") << keyword;
    isFirst = false;
    return printer;
  };
  auto add = [&](StringRef keyword, auto value) {
    if (!value)
      return;
    begin(keyword) << " = ";
    printer.printStrippedAttrOrType(value);
  };
  auto addList = [&](StringRef keyword, const auto &values) {
    if (values.empty())
      return;
    begin(keyword) << " = [";
    printer.printStrippedAttrOrType(values);
    printer << "]";
  };
  auto addNumber = [&](StringRef keyword, FloatAttr value) {
    if (value)
      begin(keyword) << " = " << value.getValue();
  };
  add("signatures", getSignatures());
  if (getAsWanted())
    begin("as_wanted");
  add("form", getForm());
  addList("copies", getCopies());
  addList("waits", getWaits());
  if (getStage())
    begin("stage") << " = " << getStage().getInt();
  if (getJoins())
    begin("joins");
  add("slots", getPieces());
  if (!getInTurn().empty())
    begin("in_turn") << " = [" << getInTurn() << "]";
  addNumber("seconds", getSeconds());
  addNumber("latency", getLatency());
  add("prices", getPrices());
  printer << ">";
}

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               SignaturesAttr signatures, bool asWanted,
                               FormAttr, ArrayRef<CopyAttr> copies,
                               ArrayRef<WaitAttr>, IntegerAttr stage, bool,
                               PiecesAttr, FloatAttr seconds, FloatAttr latency,
                               ArrayRef<int64_t>, PricesAttr) {
  if (asWanted && signatures)
    return emitError() << "a plan has signatures " << signatures
                       << " and as_wanted, expected one of the two";
  if (stage && stage.getInt() < 0)
    return emitError() << "a plan has the stage " << stage.getInt()
                       << ", expected at least 0";
  auto getDouble = [](FloatAttr number) {
    return number ? number.getValueAsDouble() : 0;
  };
  double all = getDouble(seconds), waiting = getDouble(latency);
  if (!(all >= 0) || !(waiting >= 0) || waiting > all)
    return emitError() << "a plan counts " << printNumber(all) << " s with "
                       << printNumber(waiting)
                       << " s of latency, expected numbers from 0 on, and no "
                          "more latency than seconds";
  return success();
}
