"""Plain, frozen data that the rooms hand to each other; nothing here computes, reads or imports torch."""
