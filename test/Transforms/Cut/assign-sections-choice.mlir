// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1:1" | FileCheck %s

// The last operator has the weight of the first one. Its gradient is made where its input is held,
// which waited on the host there, and not where the parameter is: no copy crosses sections.
#in = #nn.role<input>
#p = #nn.role<parameter>
#f = #nn.pass<forward>
#b = #nn.pass<backward>
!t = tensor<4x4xf64>
func.func @step(%x: !t {nn.role = #in, nn.name = "x"}, %w0: !t {nn.role = #p, nn.name = "w0"}, %w1: !t {nn.role = #p, nn.name = "w1"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}, !t {nn.role = #nn.role<gradient>, nn.name = "w0"}) {
  %h = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %m = nn.matmul %h, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %y = nn.matmul %m, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %away = nn.to_host %m {nn.again, nn.pass = #f} : (!t) -> !t
  %back = nn.from_host %away {nn.again, nn.pass = #b} : (!t) -> !t
  // CHECK: %[[M:.*]] = nn.either {{.*}}spmd.section = 1
  %read = nn.either %m, %back {nn.pass = #b} : (!t, !t) -> !t
  // CHECK: nn.matmul %[[M]], %{{.*}}spmd.section = 1
  %g = nn.matmul %read, %y {nn.pass = #b} : (!t, !t) -> !t
  // CHECK: nn.matmul {{.*}}spmd.section = 0
  %d = nn.matmul %x, %h {nn.pass = #b} : (!t, !t) -> !t
  %g0 = nn.add %g, %d {nn.pass = #b} : (!t, !t) -> !t
  return %y, %g0 : !t, !t
}
