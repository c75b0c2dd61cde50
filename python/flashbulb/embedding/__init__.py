"""Text to vectors: the bundled static table, the teacher it was made from, or the user's own."""

from __future__ import annotations

from flashbulb.embedding.adapters import resolve_embedder
from flashbulb.embedding.minilm import MiniLMEmbedder
from flashbulb.embedding.protocol import Embedder
from flashbulb.embedding.static import StaticEmbedder, default_embedder

__all__ = ["Embedder", "MiniLMEmbedder", "StaticEmbedder", "default_embedder", "resolve_embedder"]
