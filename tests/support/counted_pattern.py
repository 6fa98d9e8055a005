"""A regular expression that counts its work, so that a test can check how it grows with the text."""


class CountedPattern:
    """Stands in for a compiled pattern; counts the characters it stepped over and the matches it made."""

    def __init__(self, pattern):
        self.pattern, self.matches, self.characters = pattern, 0, 0

    def match(self, text, position):
        """Where nothing matches, one character was looked at; all that is left when it began a comment that never
        ends.
        """
        found = self.pattern.match(text, position)
        return self._count(found, position, len(text) if text.startswith("/*", position) else position + 1)

    def search(self, text, position):
        return self._count(self.pattern.search(text, position), position, len(text))

    def _count(self, found, position, end):
        self.matches += 1
        self.characters += (found.end() if found else end) - position
        return found
