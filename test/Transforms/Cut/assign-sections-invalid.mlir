// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0" 2>&1 | FileCheck %s --check-prefix=POINT
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1:2" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;v*:1" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w*:1" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1" 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w1:0;w0:1" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=w[0:0;w1:1" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not tandem-opt %s --tandem-assign-sections 2>&1 | FileCheck %s --check-prefix=EMPTY

// EMPTY: error: found no sections, expected names of parameters and points
// POINT: error: point 1 of axis 'pipe' has no section, expected at least one for each of its 2 points
// RANGE: error: section 'w1' lies on point 2, but axis 'pipe' has 2 points, from 0 on
// NAME: error: section or pin of 'v*': no parameter or module has this name
// TWICE: error: parameter 'w0' is in two sections: in section {{.*}} by 'w0', and in section {{.*}} by 'w*'
// TEXT: error: section 'w1', expected names of parameters and a point, such as 'layers.[0-5].*:0'
// ORDER: error: section 0 ('w1') has no operator
// GLOB: error: section or pin of 'w[0': invalid glob pattern
func.func @step(%x: tensor<4x4xf64> {nn.role = #nn.role<input>, nn.name = "x"}, %w0: tensor<4x4xf64> {nn.role = #nn.role<parameter>, nn.name = "w0"}, %w1: tensor<4x4xf64> {nn.role = #nn.role<parameter>, nn.name = "w1"})
    -> (tensor<4x4xf64> {nn.role = #nn.role<output>, nn.name = "y"}) {
  %h = nn.matmul %x, %w0 {nn.pass = #nn.pass<forward>} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %y = nn.matmul %h, %w1 {nn.pass = #nn.pass<forward>} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %y : tensor<4x4xf64>
}
