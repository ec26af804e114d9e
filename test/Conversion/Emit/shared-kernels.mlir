// Equal kernels of a Program are one, in one code object, whatever sections run them.

// RUN: tandem-compile %s --mesh pipe=2 --accumulate 2 --sections 'w0;w1' -o %t.tdm
// RUN: tandem-run %t.tdm --print | FileCheck %s --check-prefixes=CHECK,SHARED

// Another number is another kernel, in the same object.
// RUN: sed '/%c1 =/s/0.5/0.25/' %s > %t.mlir
// RUN: tandem-compile %t.mlir --mesh pipe=2 --accumulate 2 --sections 'w0;w1' -o %t.two.tdm
// RUN: tandem-run %t.two.tdm --print | FileCheck %s --check-prefixes=CHECK,TWO

// CHECK: code object 0 kernels shared object
// CHECK-NOT: code object
// CHECK: '0F0 exp+mul' {{.*}} [[FIRST:tandem_[0-9a-f]+]] of kernels
// SHARED: '1F0 exp+mul' {{.*}} [[FIRST]] of kernels
// TWO-NOT: '1F0 exp+mul' {{.*}} [[FIRST]] of
// TWO: '1F0 exp+mul' {{.*}} tandem_{{[0-9a-f]+}} of kernels

#f = #nn.pass<forward>
!t = tensor<8x8xf32>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w0: !t {nn.role = #nn.role<parameter>, nn.name = "w0"}, %w1: !t {nn.role = #nn.role<parameter>, nn.name = "w1"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}) {
  %h0 = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %e0 = nn.exp %h0 {nn.pass = #f} : (!t) -> !t
  %c0 = nn.constant dense<0.5> : !t {nn.pass = #f} -> !t
  %y0 = nn.mul %e0, %c0 {nn.pass = #f} : (!t, !t) -> !t
  %h1 = nn.matmul %y0, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %e1 = nn.exp %h1 {nn.pass = #f} : (!t) -> !t
  %c1 = nn.constant dense<0.5> : !t {nn.pass = #f} -> !t
  %y1 = nn.mul %e1, %c1 {nn.pass = #f} : (!t, !t) -> !t
  return %y1 : !t
}
