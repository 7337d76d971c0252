"""What every HTTP request goes through: connections, logins, preconditions, parameters, errors."""
