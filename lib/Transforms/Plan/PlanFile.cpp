//===- PlanFile.cpp - a plan as text --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanFile.h"
#include "WriteDecisions.h"
#include "tandem/Support/TextFile.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr llvm::StringLiteral kHeader = "tandem-plan 2";

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// `#nn.pass<forward>` and `#nn<predicate le>` as the strings that they were
/// when the first plan files were written: these stay bound to their graphs.
static std::string quoteKeywords(StringRef text) {
  static const llvm::Regex keyword("#nn[.<][a-z]+[< ]([a-z_]+)>");
  std::string quoted;
  SmallVector<StringRef> matches;
  while (keyword.match(text, &matches)) {
    size_t begin = matches[0].data() - text.data();
    (quoted += text.take_front(begin)) += ("\"" + matches[1] + "\"").str();
    text = text.drop_front(begin + matches[0].size());
  }
  return quoted + text.str();
}

std::string tandem::plan::hashGraph(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  clearDecisions(*copy);
  copy.get()->setAttrs(DictionaryAttr::get(module.getContext()));
  std::string text;
  llvm::raw_string_ostream os(text);
  copy->print(os,
              OpPrintingFlags().printGenericOpForm().enableDebugInfo(false));
  text = quoteKeywords(text);
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return llvm::toHex(digest, /*LowerCase=*/true);
}

namespace {
/// Finds the last line, `end N`: without it a file that was cut off would be a
/// plan that replicates what is missing.
class EndOfFile {
public:
  /// Takes a line; true if it is the last one.
  bool take(StringRef line) {
    if (!isFound && line.consume_front("end ")) {
      isFound = true;
      isNumber = !line.trim().getAsInteger(10, expected);
      return true;
    }
    ++found;
    last = line;
    isBehind |= isFound;
    return false;
  }
  /// Empty if the file is whole.
  std::string check() const {
    std::string end = "expected a last line 'end " + std::to_string(found) +
                      "', the number of lines before it";
    if (!isFound)
      return "is cut off after '" + last.take_front(40).str() + "', " + end;
    if (isBehind || !isNumber)
      return "has '" + last.take_front(40).str() + "' behind its end, " + end;
    if (expected == found)
      return "";
    return "has " + std::to_string(found) + " lines before its end, but that " +
           "says " + std::to_string(expected) +
           "; if none is missing, change it to 'end " + std::to_string(found) +
           "'";
  }

private:
  bool isFound = false, isNumber = false, isBehind = false;
  unsigned expected = 0, found = 0;
  StringRef last;
};
} // namespace

/// How a line of what was found begins with this word.
static StringRef getLineForm(StringRef word) {
  return llvm::StringSwitch<StringRef>(word)
      .Cases({"cost", "bound"}, "SECONDS s")
      .Case("peak", "BYTES B")
      .Case("search", "ALGORITHM")
      .Default("NAME");
}

namespace {
class FileReader {
public:
  FileReader(func::FuncOp step, StringRef path) : step(step) {
    file.path = path.str();
  }
  FailureOr<PlanFile> run(StringRef text, StringRef hash);

private:
  InFlightDiagnostic emitError() {
    return mlir::emitError(step.getLoc()) << "plan file '" << file.path << "'";
  }
  LogicalResult readLine(StringRef line, unsigned number);

  func::FuncOp step;
  PlanFile file;
  std::string graph;
};
} // namespace

LogicalResult FileReader::readLine(StringRef line, unsigned number) {
  auto [word, rest] = line.split(' ');
  rest = rest.trim();
  if (word == "graph" || word == "mesh") {
    (word == "graph" ? graph : file.mesh) = rest.str();
    return success();
  }
  if (word == "micro") {
    if (!rest.getAsInteger(10, file.micro))
      return success();
    return emitError() << ", line " << number << ": micro is '" << rest
                       << "', expected a number";
  }
  auto isRead = parseClaim(word, rest, file.decisions);
  if (!isRead)
    file.lines.push_back({number, line.str()});
  if (isRead.value_or(true))
    return success();
  return emitError() << ", line " << number << ": cannot read '"
                     << line.take_front(60) << "', expected '" << word << " "
                     << getLineForm(word) << "'";
}

FailureOr<PlanFile> FileReader::run(StringRef text, StringRef hash) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  if (lines.front().trim() != kHeader)
    return emitError() << " begins with '"
                       << lines.front().trim().take_front(40) << "', expected '"
                       << kHeader << "'; save the plan again";
  EndOfFile end;
  for (auto [number, raw] : llvm::enumerate(lines)) {
    StringRef line = raw.trim();
    if (number == 0 || line.empty() || line.starts_with("#") || end.take(line))
      continue;
    if (failed(readLine(line, number + 1)))
      return failure();
  }
  if (std::string error = end.check(); !error.empty())
    return emitError() << " " << error;
  if (graph != hash)
    return emitError() << " was made for the graph "
                       << StringRef(graph).take_front(16)
                       << ", but this one is " << hash.take_front(16)
                       << ": make the plan again, or compile with --recompute "
                          "as it was made";
  return std::move(file);
}

FailureOr<PlanFile> tandem::plan::readPlanFile(func::FuncOp step,
                                               StringRef path, StringRef hash) {
  std::string why;
  std::optional<std::string> text = readTextFile(path.str(), why);
  if (text)
    return FileReader(step, path).run(*text, hash);
  return emitError(step.getLoc())
         << "cannot read the plan file '" << path << "': " << why;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static void writeArguments(const StepGraph &graph, llvm::raw_ostream &os) {
  for (auto [index, node] : llvm::enumerate(graph.arguments)) {
    std::string forms;
    for (auto [axis, form] : llvm::enumerate(node.forms))
      if (!form.isFull())
        forms += (forms.empty() ? "" : ",") + graph.mesh.getName(axis).str() +
                 "=" + form.str();
    if (forms.empty())
      continue;
    os << "argument " << index << " " << graph.describeArgument(index) << ": "
       << forms << "\n";
  }
}

static bool isFull(const Signature &signature) {
  auto full = [](AxisForm form) { return form.isFull(); };
  return llvm::all_of(signature.operands, full) &&
         llvm::all_of(signature.results, full);
}

static void writeOperators(const StepGraph &graph, bool hasSources,
                           llvm::raw_ostream &os) {
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    if (llvm::all_of(op.signatures, isFull) ||
        (!hasSources && graph.getGroups().groupOf[index] < 0))
      continue;
    os << "operator " << op.id << " " << op.op->getName() << ":";
    for (auto [axis, signature] : llvm::enumerate(op.signatures))
      if (!isFull(signature))
        os << " " << graph.mesh.getName(axis) << "='" << signature.str() << "'";
    os << "\n";
  }
}

std::string tandem::plan::printPlan(const StepGraph &graph, StringRef hash,
                                    const Decisions &decisions) {
  std::string text;
  llvm::raw_string_ostream lines(text);
  lines << "graph " << hash << "\n";
  lines << "mesh " << getMeshText(graph.mesh) << "\nmicro "
        << graph.mesh.getNumStrands() << "\n";
  print(graph, decisions, lines);
  writeArguments(graph, lines);
  writeOperators(graph, /*hasSources=*/decisions.search.empty(), lines);
  return (kHeader + "\n" + text + "end ").str() +
         std::to_string(llvm::count(text, '\n')) + "\n";
}
