"""What one asks of a cluster beside producing and consuming: a module a noun, a function a question, frozen values
as answers.

Every function takes the `Cluster` first, tries again where that helps, and raises ApiError for what was refused; see
`kraft.client.cluster`.
"""
