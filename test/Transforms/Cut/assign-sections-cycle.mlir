// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w0,w2:0;w1:1" 2>&1 | FileCheck %s
// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1,w2:1" | FileCheck %s --check-prefix=CHAIN

// The last layer is in the section of the first one, and reads the one between.
// CHECK: error: parameter 'w2' is in section 0, but what reads it also reads section 1: sections form a cycle; expected sections in the order of the data
// CHAIN: spmd.sections
#f = #nn.pass<forward>
#p = #nn.role<parameter>
!t = tensor<4x4xf64>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x"}, %w0: !t {nn.role = #p, nn.name = "w0"}, %w1: !t {nn.role = #p, nn.name = "w1"}, %w2: !t {nn.role = #p, nn.name = "w2"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}) {
  %0 = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %1 = nn.matmul %0, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %2 = nn.matmul %1, %w2 {nn.pass = #f} : (!t, !t) -> !t
  return %2 : !t
}
