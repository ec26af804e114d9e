//===- PipeLines.cpp - a pipeline in a plan file --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeLines.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/TextFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using llvm::StringRef;

namespace tandem {

/// The words that begin a line behind `pipeline`.
static constexpr StringRef kPipeWords[] = {
    "section", "order", "row", "accumulate", "strands", "joined", "sum-piece"};

namespace {
class LineReader {
public:
  LineReader(StringRef path, std::string &error) : path(path), error(error) {}
  std::optional<PipeLines> run(StringRef text);

private:
  bool fail(const llvm::Twine &message) {
    error = ("plan file '" + path + "', line " + llvm::Twine(number) + ": " +
             message)
                .str();
    return false;
  }
  bool readLine(StringRef word, StringRef rest);
  bool readPipeline(StringRef rest);
  bool readSection(StringRef rest);
  bool readOrder(StringRef word, StringRef rest);
  bool readNumber(StringRef word, StringRef rest, int64_t &number);
  bool readJoined(StringRef rest);
  bool readSumPiece(StringRef rest);

  StringRef path;
  std::string &error;
  PipeLines lines;
  unsigned number = 0;
};
} // namespace

bool LineReader::readPipeline(StringRef rest) {
  auto [axis, mesh] = rest.split(' ');
  if (lines.line)
    return fail("found a second line 'pipeline', expected one");
  if (mesh.trim().empty())
    return fail("cannot read 'pipeline " + rest +
                "', expected 'pipeline AXIS MESH', such as 'pipeline pipe "
                "pipe=2,data=2'");
  lines.line = number;
  lines.axis = axis.str();
  lines.mesh = mesh.trim().str();
  return true;
}

bool LineReader::readSection(StringRef rest) {
  StringRef text = rest;
  auto take = [&] {
    auto [word, behind] = text.split(' ');
    text = behind.ltrim();
    return word;
  };
  size_t section = 0;
  PipeLines::Section read;
  bool isRead = !take().getAsInteger(10, section) && take() == "point" &&
                !take().getAsInteger(10, read.point) && !text.empty() &&
                !text.contains(';');
  if (!isRead || section != lines.sections.size())
    return fail("cannot read 'section " + rest + "', expected 'section " +
                llvm::Twine(lines.sections.size()) +
                " point POINT GLOBS', sections in order");
  read.globs = text.str();
  lines.sections.push_back(std::move(read));
  return true;
}

bool LineReader::readOrder(StringRef word, StringRef rest) {
  if (!lines.order.empty() || (word == "order" && !lines.rows.empty()))
    return fail("found another order, expected one line 'order', or a line "
                "'row' for each point");
  if (word == "row") {
    std::string why;
    if (!orders::parseRow(rest, why))
      return fail(why);
    lines.rows += (rest + "\n").str();
  } else if (!orders::findSchedule(rest))
    return fail("order is '" + rest + "', expected " + orders::listSchedules());
  else
    lines.order = rest.str();
  return true;
}

bool LineReader::readNumber(StringRef word, StringRef rest, int64_t &number) {
  if (!rest.getAsInteger(10, number) && number > 0)
    return true;
  return fail(word + " is '" + rest + "', expected the number of microbatches");
}

bool LineReader::readJoined(StringRef rest) {
  for (StringRef point : llvm::split(rest, ','))
    if (point.trim().getAsInteger(10, lines.joined.emplace_back()) ||
        lines.joined.back() < 0)
      return fail("joined is '" + rest + "', expected points, such as '0,2'");
  return true;
}

bool LineReader::readSumPiece(StringRef rest) {
  auto bytes = parseByteSize(rest.str());
  lines.sumPiece = bytes.value_or(-1);
  return bytes || fail("sum-piece is '" + rest +
                       "', expected bytes such as '512KiB', or 0 for sums that "
                       "are sent whole");
}

bool LineReader::readLine(StringRef word, StringRef rest) {
  if (word == "pipeline")
    return readPipeline(rest);
  if (!llvm::is_contained(kPipeWords, word))
    return true;
  if (!lines.line)
    return fail("found '" + word +
                "', expected a line 'pipeline AXIS MESH' before it");
  if (word == "accumulate")
    return readNumber(word, rest, lines.accumulate);
  if (word == "strands")
    return readNumber(word, rest, lines.strands);
  if (word == "joined")
    return readJoined(rest);
  if (word == "sum-piece")
    return readSumPiece(rest);
  return word == "section" ? readSection(rest) : readOrder(word, rest);
}

std::optional<PipeLines> LineReader::run(StringRef text) {
  for (StringRef line : llvm::split(text, '\n')) {
    ++number;
    auto [word, rest] = line.trim().split(' ');
    if (!readLine(word, rest.trim()))
      return std::nullopt;
  }
  if (!lines.line)
    return std::nullopt;
  number = lines.line;
  if (lines.sections.empty() || (lines.order.empty() && lines.rows.empty())) {
    fail("found a pipeline without " +
         llvm::Twine(lines.sections.empty() ? "sections" : "an order") +
         ", expected lines '" +
         (lines.sections.empty() ? "section" : "order' or 'row") + "'");
    return std::nullopt;
  }
  return std::move(lines);
}

std::optional<PipeLines> readPipeLines(const std::string &path,
                                       std::string &error) {
  std::string why;
  auto text = readTextFile(path, why);
  if (!text)
    return std::nullopt;
  return LineReader(path, error).run(*text);
}

/// The text of a plan with lines behind the first one of a word. The last line
/// counts lines.
static std::string addBehind(StringRef plan, StringRef word, StringRef lines) {
  size_t begin = plan.find(("\n" + word + " ").str()) + 1;
  begin = plan.find('\n', begin) + 1;
  size_t end = plan.rfind("end ");
  unsigned count = 0;
  plan.drop_front(end + 4).trim().getAsInteger(10, count);
  count += lines.count('\n');
  return (plan.take_front(begin) + lines + plan.slice(begin, end) + "end " +
          llvm::Twine(count) + "\n")
      .str();
}

std::string printPoints(llvm::ArrayRef<int64_t> points) {
  return llvm::join(
      llvm::map_range(points,
                      [](int64_t point) { return std::to_string(point); }),
      ",");
}

std::string addPipeLines(StringRef plan, const PipeLines &lines) {
  std::string added = "pipeline " + lines.axis + " " + lines.mesh + "\n";
  for (size_t i = 0; i < lines.sections.size(); ++i)
    added += "section " + std::to_string(i) + " point " +
             std::to_string(lines.sections[i].point) + " " +
             lines.sections[i].globs + "\n";
  if (!lines.order.empty())
    added += "order " + lines.order + "\n";
  llvm::SmallVector<StringRef> rows;
  StringRef(lines.rows).rtrim('\n').split(rows, '\n', -1, !lines.rows.empty());
  for (StringRef row : rows)
    added += StringRef("row " + row.str()).rtrim().str() + "\n";
  added += "accumulate " + std::to_string(lines.accumulate) + "\n";
  if (lines.strands > 1)
    added += "strands " + std::to_string(lines.strands) + "\n";
  if (!lines.joined.empty())
    added += "joined " + printPoints(lines.joined) + "\n";
  std::string whole = addBehind(plan, "micro", added);
  return lines.sumPiece < 0 ? whole : addSumPiece(whole, lines.sumPiece);
}

std::string addSumPiece(StringRef plan, int64_t bytes) {
  return addBehind(plan, "accumulate",
                   "sum-piece " + std::to_string(bytes) + "\n");
}

} // namespace tandem
