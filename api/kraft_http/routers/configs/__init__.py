"""Configuration, one module for each kind of resource; `shapes` holds what they share."""
