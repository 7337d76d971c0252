"""The group APIs, one module each. The group coordinator decides; these modules check permissions and build error
responses."""
