"""The one exception a user is meant to read: what is wrong, where, and what to do, in one line; and showing it."""


class UserError(Exception):
    """Raised for problems the user can fix; the command line prints it without a traceback and exits with 1."""


def visible(text: object) -> str:
    """A text with its control characters shown instead of sent to the terminal; line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(text))
