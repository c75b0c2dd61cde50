"""The photograph of a flashbulb: who, what, when and where."""

from .extracted import FIELDS, Extracted, Source
from .taking import Photographer, photograph

__all__ = ["FIELDS", "Extracted", "Photographer", "Source", "photograph"]
