"""The one exception a user is meant to read: what is wrong, where, and what to do, in one line."""


class UserError(Exception):
    """Raised for problems the user can mend; the command line prints it without a traceback and exits with 1."""
