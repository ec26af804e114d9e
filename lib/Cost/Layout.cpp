//===- Layout.cpp - forms of a tensor on all axes -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Layout.h"
#include "tandem/Support/FormText.h"

using namespace tandem;
using cost::Form;

static_assert(cost::kFull == form::kFull && cost::kReduce == form::kReduce &&
              cost::kReplicate == form::kReplicate &&
              cost::kAbsent == form::kAbsent);

std::string cost::getFormName(Form form) { return form::print(form); }

std::optional<Form> cost::parseForm(std::string_view text) {
  std::optional<int64_t> code = form::parse(text);
  if (!code || *code > INT8_MAX || *code <= form::kAtFirst)
    return std::nullopt;
  return static_cast<Form>(*code);
}
