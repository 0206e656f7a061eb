;; Reads nothing and answers columns as large as the mask's: two texts of 64 characters and a date in each of up to 100,000
;; rows. They are made when it is opened, so what a call of it costs is copying them out.
(module
  ;; 64 MiB: offsets from 1 MiB on, dates from 2 MiB, texts from 4 MiB; what the host lends from 12 MiB.
  (memory (export "memory") 1024)
  (global $next (mut i32) (i32.const 12582912))
  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  ;; `ok`; three output columns at 4096; no names of columns that are read.
  (data (i32.const 512) "\00\00\00\00" "\00\10\00\00\03\00\00\00" "\00\00\00\00\00\00\00\00")
  ;; Name; `computed`; type (10: utf8, 7: date), not nullable; no sources; how it is made; no keys.
  (data (i32.const 4096)
    "\bc\02\00\00\05\00\00\00" "\01\00\00\00" "\0a\00\00\00" "\00\00\00\00\00\00\00\00" "\bc\02\00\00\05\00\00\00" "\00\00\00\00\00\00\00\00"
    "\c1\02\00\00\05\00\00\00" "\01\00\00\00" "\0a\00\00\00" "\00\00\00\00\00\00\00\00" "\bc\02\00\00\05\00\00\00" "\00\00\00\00\00\00\00\00"
    "\c6\02\00\00\0a\00\00\00" "\01\00\00\00" "\07\00\00\00" "\00\00\00\00\00\00\00\00" "\bc\02\00\00\05\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 700) "email" "phone" "birth_date")
  (func (export "sluice:transform/transform@0.3.0#open")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (local $row i32)
    (memory.fill (i32.const 4194304) (i32.const 97) (i32.const 6400000))
    (memory.fill (i32.const 2097152) (i32.const 0) (i32.const 400000))
    (loop $more
      (i32.store offset=1048576
        (i32.shl (local.get $row) (i32.const 2))
        (i32.shl (local.get $row) (i32.const 6)))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $more (i32.le_u (local.get $row) (i32.const 100000))))
    (i32.const 512))
  ;; `ok`; three columns at 65536; nothing dropped or rejected.
  (data (i32.const 1024) "\00\00\00\00" "\00\00\01\00\03\00\00\00")
  (func $text (param $column i32) (param $rows i32)
    (i32.store offset=12 (local.get $column) (i32.const 1048576))
    (i32.store offset=16 (local.get $column) (i32.add (local.get $rows) (i32.const 1)))
    (i32.store offset=20 (local.get $column) (i32.const 4194304))
    (i32.store offset=24 (local.get $column) (i32.shl (local.get $rows) (i32.const 6))))
  (func (export "sluice:transform/transform@0.3.0#apply") (param $rows i32) (param i32 i32 i32 i32) (result i32)
    (if (i32.gt_u (local.get $rows) (i32.const 100000)) (then unreachable))
    (call $text (i32.const 65536) (local.get $rows))
    (call $text (i32.const 65564) (local.get $rows))
    (i32.store (i32.const 65612) (i32.const 2097152))
    (i32.store (i32.const 65616) (i32.shl (local.get $rows) (i32.const 2)))
    (i32.const 1024)))
