"""Many instances on one host: how many run fastest together, and how many requests they answer under a bound."""
