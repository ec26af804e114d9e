//===- safetensors.h - tensors in files -------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The safetensors format: the length of a JSON header as 8 bytes, little
// endian; the header, which maps names to {dtype, shape, data_offsets}; then
// the tensors' bytes, row-major.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SAFETENSORS_H
#define TANDEM_RT_SAFETENSORS_H

#include "tandem_rt/tensor.h"

#include <functional>
#include <map>
#include <memory>

namespace tandem::rt {

struct MappedFile;

/// A file that is mapped, not read: tensors are views into it, valid for its
/// life. What the file has no more reads as zeros, and check() says so.
class SafetensorsFile {
public:
  /// Checks the whole header: every tensor lies within the file, has the bytes
  /// that its type and shape say, and overlaps no other.
  static Expected<SafetensorsFile> open(const std::string &path);

  /// An error once something that was read was not there any more: asked behind
  /// each use of what the views have.
  Status check() const;

  const std::map<std::string, TensorView> &tensors() const { return views; }
  /// Null if there is none of this name.
  const TensorView *find(const std::string &name) const;
  /// The free text entries of the header.
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  std::string path;
  std::shared_ptr<const MappedFile> mapping;
  std::map<std::string, TensorView> views;
  std::map<std::string, std::string> notes;
};

/// Whether a new file may take this place: of none or of a regular file, never
/// of a device. Asked once, as other processes replace and remove files.
Status checkPlace(const std::string &path);

/// Writes all tensors in the order of their names, to a new file that then
/// replaces `path`: it is never seen half written. Same tensors, same bytes.
/// `check` is asked before that: an error of it leaves what was there.
Status writeSafetensors(const std::string &path,
                        const std::map<std::string, TensorView> &tensors,
                        const std::map<std::string, std::string> &metadata = {},
                        const std::function<Status()> &check = {});

} // namespace tandem::rt

#endif // TANDEM_RT_SAFETENSORS_H
