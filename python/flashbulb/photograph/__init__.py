"""The photograph of a flashbulb: who, what, when and where."""

from flashbulb.photograph.taking import FIELDS, Extracted, Photographer, photograph

__all__ = ["FIELDS", "Extracted", "Photographer", "photograph"]
