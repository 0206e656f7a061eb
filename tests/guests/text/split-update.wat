;; Written for 0.1.0, where both rows of an update go or stay: drops the second row alone.
(module
  @memory
  @open
  ;; No columns; a bitmap of one byte at 1,600; no rejects.
  (data (i32.const 1036) "\01\00\00\00" "\40\06\00\00\01\00\00\00")
  (data (i32.const 1600) "\02")
  @apply)
