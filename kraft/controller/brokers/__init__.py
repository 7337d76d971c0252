"""Broker and controller registrations, heartbeats, and the detection of dead brokers."""
