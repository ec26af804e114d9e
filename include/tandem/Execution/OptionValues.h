//===- OptionValues.h - the values of options -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an option can be, where that is known to other rooms than the table of
// options.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXECUTION_OPTIONVALUES_H
#define TANDEM_EXECUTION_OPTIONVALUES_H

#include "tandem/Support/Options.h"

namespace tandem {

/// The values of an option that have a name: devices, orders. Empty for an
/// option without.
std::vector<std::string_view> getChoices(const OptionInfo &row);

/// The row's texts with its choices.
std::string getHelp(const OptionInfo &row);
std::string getExpected(const OptionInfo &row);

/// Whether code for the device can be made for the architecture. The empty name
/// is the default device.
bool hasArchitecture(std::string_view device, std::string_view architecture);

} // namespace tandem

#endif // TANDEM_EXECUTION_OPTIONVALUES_H
