//===- SafeTensors.cpp - reads and writes safetensors files ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is the length of a JSON header (8 bytes, little-endian), the header,
// and the elements, to which the header's offsets point.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/SafeTensors.h"
#include "mlir/IR/Builders.h"
#include "tandem/Support/TextFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tandem::reference {

static constexpr size_t kLengthBytes = 8;

static llvm::Error makeError(StringRef path, const Twine &why) {
  return llvm::createStringError(Twine("'") + path + "': " + why);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static Type parseElementType(StringRef name, MLIRContext *context) {
  Builder builder(context);
  if (name == "BOOL")
    return builder.getI1Type();
  if (name == "U8")
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  if (name == "BF16")
    return builder.getBF16Type();
  unsigned width;
  if (name.empty() || name.drop_front().getAsInteger(10, width))
    return {};
  if (name.front() == 'I' && llvm::is_contained({8u, 16u, 32u, 64u}, width))
    return builder.getIntegerType(width);
  if (name == "F16")
    return builder.getF16Type();
  if (name == "F32")
    return builder.getF32Type();
  return name == "F64" ? Type(builder.getF64Type()) : Type();
}

static std::string getElementName(Type type) {
  if (type.isInteger(1))
    return "BOOL";
  if (type.isBF16())
    return "BF16";
  StringRef kind = isa<FloatType>(type)       ? "F"
                   : type.isUnsignedInteger() ? "U"
                                              : "I";
  return (kind + Twine(type.getIntOrFloatBitWidth())).str();
}

static size_t getElementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

/// Little-endian bits of element `i` of `data`.
static uint64_t readBits(StringRef data, size_t i, size_t bytes) {
  uint64_t bits = 0;
  for (size_t byte = bytes; byte-- > 0;)
    bits = bits << 8 | static_cast<uint8_t>(data[i * bytes + byte]);
  return bits;
}

static void readElement(Tensor &tensor, size_t i, uint64_t bits) {
  auto type = dyn_cast<FloatType>(tensor.getElementType());
  if (!type)
    return tensor.setInteger(i, static_cast<int64_t>(bits));
  llvm::APFloat value(type.getFloatSemantics(),
                      llvm::APInt(type.getWidth(), bits));
  tensor.setDouble(i, value.convertToDouble());
}

static uint64_t getBits(const Tensor &tensor, size_t i) {
  auto type = dyn_cast<FloatType>(tensor.getElementType());
  if (!type)
    return static_cast<uint64_t>(tensor.getInteger(i));
  llvm::APFloat value(tensor.getDouble(i));
  bool lossy;
  value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                &lossy);
  return value.bitcastToAPInt().getZExtValue();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Shape of an entry of the header; none if it is malformed.
static std::optional<SmallVector<int64_t>>
parseShape(const llvm::json::Object &entry) {
  const llvm::json::Array *sizes = entry.getArray("shape");
  if (!sizes)
    return std::nullopt;
  SmallVector<int64_t> shape;
  for (const llvm::json::Value &size : *sizes) {
    std::optional<int64_t> number = size.getAsInteger();
    if (!number || *number < 0 || *number > INT32_MAX)
      return std::nullopt;
    shape.push_back(*number);
  }
  return shape;
}

/// Bytes of the elements; none if they are more than 64 bits count.
static std::optional<uint64_t> getBytes(ArrayRef<int64_t> shape, Type type) {
  uint64_t bytes = getElementBytes(type);
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      return std::nullopt;
  return bytes;
}

/// `unread` are the bytes of `data` that no entry has had yet.
static llvm::Expected<Tensor> parseEntry(StringRef path, StringRef name,
                                         const llvm::json::Object &entry,
                                         StringRef data, uint64_t &unread,
                                         MLIRContext *context) {
  Type type = parseElementType(entry.getString("dtype").value_or(""), context);
  auto shape = parseShape(entry);
  const llvm::json::Array *range = entry.getArray("data_offsets");
  if (!type || !shape || !range || range->size() != 2)
    return makeError(path, "the entry '" + name + "' is malformed");
  size_t begin = (*range)[0].getAsUINT64().value_or(SIZE_MAX);
  size_t end = (*range)[1].getAsUINT64().value_or(0);
  std::optional<uint64_t> expected = getBytes(*shape, type);
  if (!expected || begin > end || end > data.size() || end - begin != *expected)
    return makeError(path, "the entry '" + name + "' lies at bytes " +
                               Twine(begin) + " to " + Twine(end) + " of " +
                               Twine(data.size()) + ", expected " +
                               (expected ? std::to_string(*expected)
                                         : std::string("less than 2^64")) +
                               " bytes");
  if (*expected > unread)
    return makeError(path, "the entry '" + name + "' overlaps another one");
  unread -= *expected;
  Tensor tensor(*shape, type);
  data = data.slice(begin, end);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    readElement(tensor, i, readBits(data, i, getElementBytes(type)));
  return tensor;
}

/// Elements become eight bytes each, so there is a limit.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
mapFile(StringRef path) {
  constexpr uint64_t kMaxBytes = uint64_t(1) << 32;
  llvm::sys::fs::file_status status;
  if (std::error_code code = llvm::sys::fs::status(path, status))
    return makeError(path, code.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return makeError(path, "is no regular file, expected a safetensors file");
  if (status.getSize() > kMaxBytes)
    return makeError(path, "has " + Twine(status.getSize()) +
                               " bytes, expected at most " + Twine(kMaxBytes));
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return makeError(path, file.getError().message());
  return std::move(*file);
}

llvm::Expected<TensorMap> readSafeTensors(StringRef path,
                                          MLIRContext *context) {
  auto file = mapFile(path);
  if (!file)
    return file.takeError();
  StringRef text = (*file)->getBuffer();
  uint64_t length = text.size() < kLengthBytes
                        ? SIZE_MAX
                        : llvm::support::endian::read64le(text.data());
  if (length > text.size() - std::min(text.size(), kLengthBytes))
    return makeError(path, "is no safetensors file: it is shorter than its "
                           "header");
  if (auto deep = findDeepNesting(text.substr(kLengthBytes, length)))
    return makeError(path, "has a malformed header: " + deep->message);
  auto header = llvm::json::parse(text.substr(kLengthBytes, length));
  if (!header)
    return makeError(path, "has a malformed header: " +
                               llvm::toString(header.takeError()));
  if (!header->getAsObject())
    return makeError(path, "has a header that is no object");
  TensorMap tensors;
  StringRef data = text.substr(kLengthBytes + length);
  uint64_t unread = data.size();
  for (const auto &[name, value] : *header->getAsObject()) {
    if (StringRef(name) == "__metadata__" || !value.getAsObject())
      continue;
    auto tensor = parseEntry(path, StringRef(name), *value.getAsObject(), data,
                             unread, context);
    if (!tensor)
      return tensor.takeError();
    tensors.emplace(name.str(), std::move(*tensor));
  }
  return tensors;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string makeHeader(const TensorMap &tensors) {
  llvm::json::Object header;
  int64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    int64_t bytes =
        tensor.getNumElements() * getElementBytes(tensor.getElementType());
    header[name] = llvm::json::Object{
        {"dtype", getElementName(tensor.getElementType())},
        {"shape", llvm::json::Array(tensor.getShape())},
        {"data_offsets", llvm::json::Array{offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::json::Value(std::move(header));
  // The format wants the elements aligned to eight bytes.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

static std::string print(const TensorMap &tensors) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto write = [&](uint64_t bits, size_t bytes) {
    for (size_t byte = 0; byte < bytes; ++byte)
      os << static_cast<char>(bits >> (8 * byte));
  };
  std::string header = makeHeader(tensors);
  write(header.size(), kLengthBytes);
  os << header;
  for (const auto &[name, tensor] : tensors)
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      write(getBits(tensor, i), getElementBytes(tensor.getElementType()));
  return text;
}

llvm::Error writeSafeTensors(StringRef path, const TensorMap &tensors) {
  std::string error;
  if (writeTextFile(path.str(), kValuesFile, print(tensors), error))
    return llvm::Error::success();
  return makeError(path, error);
}

} // namespace tandem::reference
