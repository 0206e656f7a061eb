;; Reads the three columns that the mask reads, and does nothing with them: what a call of it costs is copying them in.
(module
  ;; 64 MiB. What the host lends lies from 12 MiB on, and nothing is ever taken back.
  (memory (export "memory") 1024)
  (global $next (mut i32) (i32.const 12582912))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  ;; `ok`; no output columns; three names of columns at 600.
  (data (i32.const 512) "\00\00\00\00" "\00\00\00\00\00\00\00\00" "\58\02\00\00\03\00\00\00")
  (data (i32.const 600) "\bc\02\00\00\05\00\00\00" "\c1\02\00\00\05\00\00\00" "\c6\02\00\00\0a\00\00\00")
  (data (i32.const 700) "email" "phone" "birth_date")
  (func (export "sluice:transform/transform@0.3.0#open")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.const 512))
  ;; An outcome without columns, drops and rejects.
  (func (export "sluice:transform/transform@0.3.0#apply") (param i32 i32 i32 i32 i32) (result i32)
    (i32.const 1024)))
