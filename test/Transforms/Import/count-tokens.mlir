// RUN: tandem-opt %s --tandem-count-tokens | FileCheck %s
// RUN: sed 's/12x8xf32/3x32xf32/g' %s | tandem-opt --tandem-count-tokens | FileCheck %s --check-prefix=COLUMNS

// Four columns of a table, which become a vector of 32 numbers, are no positions.
// COLUMNS-NOT: nn.tokens

// Rows of 4 positions, whose indices are cast. The last of 5 is a target.
// CHECK: module attributes {nn.tokens = 12 : i64}
module attributes {nn.tokens = 7 : i64} {
  func.func @step(%x: tensor<3x5xi32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<10x8xf32>) -> tensor<12x8xf32> {
    %0 = nn.convert %x {nn.pass = #nn.pass<forward>} : (tensor<3x5xi32>) -> tensor<3x5xi64>
    %s = nn.slice %0 {dim = 1 : i64, start = 0 : i64, stop = 4 : i64, nn.pass = #nn.pass<forward>} : (tensor<3x5xi64>) -> tensor<3x4xi64>
    %1 = nn.embedding %w, %s {nn.pass = #nn.pass<forward>} : (tensor<10x8xf32>, tensor<3x4xi64>) -> tensor<3x4x8xf32>
    %2 = nn.reshape %1 {nn.pass = #nn.pass<forward>} : (tensor<3x4x8xf32>) -> tensor<12x8xf32>
    return %2 : tensor<12x8xf32>
  }
}
