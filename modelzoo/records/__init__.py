"""Plain, frozen data that the packages hand to each other, and its JSON; nothing here imports torch."""
