"""The one exception for mistakes that a user can fix."""


class KoctError(Exception):
    """Bad input: the message names the file, the key, the value and the fix."""
