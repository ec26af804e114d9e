// Equal kernels of a Program are one, in one code object, whatever sections run them.

// RUN: tandem-compile %s --mesh pipe=2 --accumulate 2 --sections 'w0;w1' -o %t.tdm
// RUN: tandem-run %t.tdm --print | FileCheck %s --check-prefixes=CHECK,SHARED

// Another number is another kernel, in the same object.
// RUN: sed '/%c1 =/s/0.5/0.25/' %s > %t.mlir
// RUN: tandem-compile %t.mlir --mesh pipe=2 --accumulate 2 --sections 'w0;w1' -o %t.two.tdm
// RUN: tandem-run %t.two.tdm --print | FileCheck %s --check-prefixes=CHECK,TWO

// The microbatch and the number of the mask are scalars of a launch.
// CHECK: code object 0 kernels shared object
// CHECK-NOT: code object
// CHECK: launch '0F0 {{.*}} [[FIRST:tandem_[0-9a-f]+]] of kernels {{.*}} scalars (0, 0)
// CHECK: launch '0F1 {{.*}} [[FIRST]] of kernels {{.*}} scalars (1, 0)
// SHARED: launch '1F0 {{.*}} [[FIRST]] of kernels {{.*}} scalars (0, 1)
// SHARED: launch '1F1 {{.*}} [[FIRST]] of kernels {{.*}} scalars (1, 1)
// TWO-NOT: launch '1F0 {{.*}} [[FIRST]] of
// TWO: launch '1F0 {{.*}} [[SECOND:tandem_[0-9a-f]+]] of kernels {{.*}} scalars (0, 1)
// TWO: launch '1F1 {{.*}} [[SECOND]] of kernels {{.*}} scalars (1, 1)

#f = #nn.pass<forward>
!t = tensor<8x8xf32>
!i = tensor<8x8xi64>
!n = tensor<i64>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w0: !t {nn.role = #nn.role<parameter>, nn.name = "w0"}, %w1: !t {nn.role = #nn.role<parameter>, nn.name = "w1"},
                %seed: !n {nn.role = #nn.role<seed>, nn.name = "seed"}, %number: !n {nn.role = #nn.role<step>, nn.name = "step"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}) {
  %rows = nn.iota {nn.pass = #f} : tensor<8xi64>
  %column = nn.reshape %rows {nn.pass = #f} : (tensor<8xi64>) -> tensor<8x1xi64>
  %width = nn.constant dense<8> : !n {nn.pass = #f} -> !n
  %firsts = nn.mul %column, %width {nn.pass = #f} : (tensor<8x1xi64>, !n) -> tensor<8x1xi64>
  %columns = nn.iota {nn.pass = #f} : tensor<8xi64>
  %index = nn.add %firsts, %columns {nn.pass = #f} : (tensor<8x1xi64>, tensor<8xi64>) -> !i
  %h0 = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %d0 = nn.philox %index, %seed, %number {nn.pass = #f, ordinal = 0 : i64} : (!i, !n, !n) -> !i
  %m0 = nn.convert %d0 {nn.pass = #f} : (!i) -> !t
  %e0 = nn.mul %h0, %m0 {nn.pass = #f} : (!t, !t) -> !t
  %c0 = nn.constant dense<0.5> : !t {nn.pass = #f} -> !t
  %y0 = nn.mul %e0, %c0 {nn.pass = #f} : (!t, !t) -> !t
  %h1 = nn.matmul %y0, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %d1 = nn.philox %index, %seed, %number {nn.pass = #f, ordinal = 1 : i64} : (!i, !n, !n) -> !i
  %m1 = nn.convert %d1 {nn.pass = #f} : (!i) -> !t
  %e1 = nn.mul %h1, %m1 {nn.pass = #f} : (!t, !t) -> !t
  %c1 = nn.constant dense<0.5> : !t {nn.pass = #f} -> !t
  %y1 = nn.mul %e1, %c1 {nn.pass = #f} : (!t, !t) -> !t
  return %y1 : !t
}
