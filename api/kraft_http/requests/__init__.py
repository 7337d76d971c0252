"""The handling common to all HTTP requests: connections, logins, preconditions, parameters, errors."""
