"""Generators and checks for the people who build kraft. Nothing else imports them."""
