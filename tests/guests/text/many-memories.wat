;; Has more memories than one, each of no size: seventeen with the one that it works in.
(module
  @memory
  (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0)
  (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0)
  @open
  @apply)
