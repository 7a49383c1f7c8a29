"""The web page: static files that the REST server gives out, and nothing else. All that it shows it gets from the REST API."""
