"""The group APIs, one module each. The group coordinator decides; these check permissions and build errors."""
