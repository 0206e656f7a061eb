;; Opens with a plan that reads a column whose name is no UTF-8.
(module
  @memory
  @apply
  (data (i32.const 512) "\00\00\00\00" "\00\00\00\00\00\00\00\00" "\58\02\00\00\01\00\00\00")
  (data (i32.const 600) "\60\02\00\00\02\00\00\00" "\ff\fe")
  (func (export "sluice:transform/transform@0.1.0#open")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.const 512)))
