"""The search of a type for every layer, level by level down the bisected array."""

from planners.hierarchy.search import plan_hierarchy
