"""The routes of the API, what their requests name, and their OpenAPI document."""
