;; Exports the functions of the contract by name, with other types: see wrong-signature.wit.
(module
  (func (export "sluice:transform/transform@0.1.0#open") (param i32) (result i32) (local.get 0))
  (func (export "sluice:transform/transform@0.1.0#apply") (result i32) (i32.const 7)))
