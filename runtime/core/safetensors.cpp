//===- safetensors.cpp - tensors in files ---------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/safetensors.h"
#include "core/text.h"
#include "tandem_rt/new_file.h"
#include "tandem_rt/read_guard.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem::rt {

struct MappedFile {
  MappedFile(void *start, size_t size)
      : start(start), size(size), guard(start, size) {}
  ~MappedFile() {
    guard.end();
    munmap(start, size);
  }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  const uint8_t *data() const { return static_cast<const uint8_t *>(start); }

  void *const start;
  const size_t size;
  ReadGuard guard;
};

namespace {
using nlohmann::json;

constexpr size_t kLengthBytes = 8;
/// As in the format's own library: no sane header is larger.
constexpr uint64_t kMaxHeader = 100'000'000;

/// The format itself needs three; printing a note takes stack for each.
constexpr size_t kMaxDepth = 64;
/// As many as a tensor of PyTorch has.
constexpr size_t kMaxDimensions = 64;

struct TypeName {
  ElementType type;
  const char *name;
};
constexpr TypeName kTypeNames[] = {
    {ElementType::F64, "F64"},   {ElementType::F32, "F32"},
    {ElementType::BF16, "BF16"}, {ElementType::F16, "F16"},
    {ElementType::I64, "I64"},   {ElementType::I32, "I32"},
    {ElementType::I8, "I8"},     {ElementType::I1, "BOOL"},
};

std::optional<ElementType> typeFrom(const std::string &name) {
  for (const TypeName &entry : kTypeNames)
    if (name == entry.name)
      return entry.type;
  return std::nullopt;
}

std::string nameOf(ElementType type) {
  for (const TypeName &entry : kTypeNames)
    if (type == entry.type)
      return entry.name;
  return "?";
}

Expected<std::shared_ptr<MappedFile>> mapFile(const std::string &path) {
  // A FIFO is not waited for.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info{};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    std::string reason =
        file < 0 ? std::strerror(errno) : "expected a regular file";
    if (file >= 0)
      close(file);
    return errorOf("cannot read '", path, "': ", reason);
  }
  size_t size = size_t(info.st_size);
  void *start =
      size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (size == 0)
    return errorOf("file '", path, "' has 0 bytes, expected at least ",
                   kLengthBytes);
  if (start == MAP_FAILED)
    return errorOf("cannot map '", path, "': ", std::strerror(errno));
  return std::make_shared<MappedFile>(start, size);
}

/// Reads one entry of the header.
class EntryReader {
public:
  EntryReader(const uint8_t *data, uint64_t size) : data(data), size(size) {}

  Status read(const std::string &name, const json &entry);
  Status checkOverlaps();
  std::map<std::string, TensorView> views;

private:
  struct Extent {
    uint64_t begin, end;
    std::string name;
  };
  Status readShape(const json &entry, TensorView &view);
  Status place(const std::string &name, const json &offsets, TensorView &view);

  const uint8_t *data;
  uint64_t size;
  std::vector<Extent> extents;
};

Status EntryReader::readShape(const json &entry, TensorView &view) {
  auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array())
    return errorOf("has no shape");
  if (shape->size() > kMaxDimensions)
    return errorOf("has ", shape->size(), " dimensions, expected at most ",
                   kMaxDimensions);
  for (const json &extent : *shape) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > uint64_t(1)
                                                                     << 48)
      return errorOf("has extent ", extent.dump(), ", expected 0 to 2^48");
    view.shape.push_back(int64_t(extent.get<uint64_t>()));
  }
  return Status::success();
}

Status EntryReader::place(const std::string &name, const json &offsets,
                          TensorView &view) {
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return errorOf("has no pair of data_offsets");
  uint64_t begin = offsets[0], end = offsets[1];
  if (begin > end || end > size)
    return errorOf("lies at [", begin, ", ", end, "), expected within ", size,
                   " bytes: the file is truncated or corrupt");
  uint64_t bytes = uint64_t(elementBytes(view.type));
  for (int64_t extent : view.shape)
    if (__builtin_mul_overflow(bytes, uint64_t(extent), &bytes))
      return errorOf("has the shape ", shapeText(view.shape),
                     ", expected less than 2^64 bytes");
  if (end - begin != bytes)
    return errorOf("has ", end - begin, " bytes, expected ", bytes, " for ",
                   typeName(view.type, view.shape));
  view.data = data + begin;
  if (bytes)
    extents.push_back({begin, end, name});
  return Status::success();
}

Status EntryReader::read(const std::string &name, const json &entry) {
  TensorView view;
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry["dtype"].is_string() || !entry.contains("data_offsets"))
    return errorOf("has no dtype, shape and data_offsets");
  std::optional<ElementType> type = typeFrom(entry["dtype"]);
  if (!type)
    return errorOf("has dtype ", entry["dtype"].dump(),
                   ", expected F64, F32, BF16, F16, I64, I32, I8 or BOOL");
  view.type = *type;
  if (Status status = readShape(entry, view); !status.ok())
    return status;
  if (Status status = place(name, entry["data_offsets"], view); !status.ok())
    return status;
  views.emplace(name, view);
  return Status::success();
}

Status EntryReader::checkOverlaps() {
  std::sort(extents.begin(), extents.end(),
            [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      return errorOf("tensor '", extents[i].name, "' overlaps '",
                     extents[i - 1].name, "'");
  return Status::success();
}

/// Whether brackets stand at most `kMaxDepth` deep in one another.
bool isShallow(std::string_view text) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size() && depth <= kMaxDepth; ++i) {
    if (text[i] == '"')
      quoted = !quoted;
    else if (quoted)
      i += text[i] == '\\';
    else if (text[i] == '[' || text[i] == '{')
      ++depth;
    else if (depth > 0 && (text[i] == ']' || text[i] == '}'))
      --depth;
  }
  return depth <= kMaxDepth;
}

/// A name stands in messages of one line, and for one tensor.
Status checkKey(const std::string &name, std::set<std::string> &names) {
  auto isControl = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), isControl))
    return errorOf("header has a name with control characters, expected a "
                   "text of one line");
  if (!names.insert(name).second)
    return errorOf("header has '", name, "' twice, expected each name once");
  return Status::success();
}

Expected<json> readHeader(const MappedFile &mapping, uint64_t &length) {
  if (mapping.size < kLengthBytes)
    return errorOf("file has ", mapping.size, " bytes, expected at least ",
                   kLengthBytes);
  std::memcpy(&length, mapping.data(), kLengthBytes);
  if (length > kMaxHeader || length > mapping.size - kLengthBytes)
    return errorOf("header has ", length, " bytes, expected at most ",
                   std::min<uint64_t>(kMaxHeader, mapping.size - kLengthBytes),
                   ": the file is truncated or not a safetensors file");
  const uint8_t *begin = mapping.data() + kLengthBytes;
  if (!isShallow({reinterpret_cast<const char *>(begin), size_t(length)}))
    return errorOf("header has brackets more than ", kMaxDepth,
                   " deep in one another, expected less");
  std::set<std::string> names;
  Status failure;
  auto checkName = [&](int depth, json::parse_event_t event, json &key) {
    if (event == json::parse_event_t::key && depth == 1 && failure.ok())
      failure = checkKey(key.get_ref<const std::string &>(), names);
    return true;
  };
  json header = json::parse(begin, begin + length, checkName, false);
  if (!header.is_object())
    return errorOf("header is not a JSON object");
  if (!failure.ok())
    return failure;
  return header;
}
} // namespace

Expected<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  Expected<std::shared_ptr<MappedFile>> mapped = mapFile(path);
  if (!mapped.ok())
    return mapped.status();
  std::shared_ptr<MappedFile> mapping = *mapped;
  uint64_t length = 0;
  Expected<json> header = readHeader(*mapping, length);
  if (!header.ok())
    return errorOf("'", path, "': ", header.status().message());
  SafetensorsFile file;
  EntryReader reader(mapping->data() + kLengthBytes + length,
                     mapping->size - kLengthBytes - length);
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__") {
      for (const auto &[key, value] : entry.items())
        file.notes[key] =
            value.is_string() ? value.get<std::string>() : value.dump();
      continue;
    }
    if (Status status = reader.read(name, entry); !status.ok())
      return errorOf("'", path, "': tensor '", name, "' ", status.message());
  }
  if (Status status = reader.checkOverlaps(); !status.ok())
    return errorOf("'", path, "': ", status.message());
  file.mapping = mapping;
  file.path = path;
  file.views = std::move(reader.views);
  if (Status status = file.check(); !status.ok())
    return status;
  return file;
}

Status SafetensorsFile::check() const {
  if (mapping->guard.check().ok())
    return Status::success();
  return errorOf("'", path,
                 "' has become shorter, or cannot be read, since it was "
                 "opened");
}

const TensorView *SafetensorsFile::find(const std::string &name) const {
  auto it = views.find(name);
  return it == views.end() ? nullptr : &it->second;
}

namespace {
int64_t bytesOf(const TensorView &view) {
  return numElements(view.shape) * elementBytes(view.type);
}

std::string headerText(const std::map<std::string, TensorView> &tensors,
                       const std::map<std::string, std::string> &metadata) {
  json header = json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const auto &[name, view] : tensors) {
    header[name] = {{"dtype", nameOf(view.type)},
                    {"shape", view.shape},
                    {"data_offsets", {at, at + bytesOf(view)}}};
    at += bytesOf(view);
  }
  std::string text =
      header.dump(-1, ' ', false, json::error_handler_t::replace);
  // Data starts at a multiple of 8, as readers that map the file want it.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}
} // namespace

Status checkPlace(const std::string &path) {
  std::error_code ignored;
  std::filesystem::file_status there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) &&
      !std::filesystem::is_regular_file(there))
    return errorOf("cannot write '", path, "': expected a regular file");
  return Status::success();
}

Status writeSafetensors(const std::string &path,
                        const std::map<std::string, TensorView> &tensors,
                        const std::map<std::string, std::string> &metadata,
                        const std::function<Status()> &check) {
  if (Status status = checkPlace(path); !status.ok())
    return status;
  std::string header = headerText(tensors, metadata);
  uint64_t length = header.size();
  NewFile file(path, kValuesFile);
  file.stream().write(reinterpret_cast<const char *>(&length), kLengthBytes);
  file.stream() << header;
  for (const auto &[name, view] : tensors)
    file.stream().write(static_cast<const char *>(view.data), bytesOf(view));
  if (Status status = check ? check() : Status::success(); !status.ok())
    return status;
  return file.finish();
}

} // namespace tandem::rt
