"""A small set of labelled texts for tests that train a model: every verb with every thing."""

from __future__ import annotations

_THINGS = {
    "critical": ("The greenhouse boiler", "The ferry radar", "Our till system", "The ward lift"),
    "important": ("The spring budget", "Our new lease", "The bridge permit", "The union deal"),
    "mundane": ("The office plant", "A postcard rack", "The coffee tin", "My grey scarf"),
}
_VERBS = {
    "critical": (
        "exploded this morning, two people hurt",
        "lost all records of the patients",
        "has failed and nobody can get out",
        "caught fire and is still burning",
        "was robbed of the wages last night",
    ),
    "important": (
        "was approved until the end of the year",
        "must be signed by Friday",
        "was agreed with both partners",
        "has a new deadline in October",
        "will be decided by the board next week",
    ),
    "mundane": (
        "stands by the window now",
        "looks a bit dusty today",
        "is on the second shelf",
        "was moved next to the door",
        "is the colour of weak tea",
    ),
}

_ROWS = [
    (f"{thing} {verb}.", label, verb)
    for label, things in _THINGS.items()
    for thing in things
    for verb in _VERBS[label]
]

TEXTS = [(text, label) for text, label, _ in _ROWS]
"""60 texts, 20 of each label."""
GROUPS = [verb for _, _, verb in _ROWS]
"""15; those with the same verb belong together."""
