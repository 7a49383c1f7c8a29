"""Pattern matching in tasks: the engine, and the operators that run it over keyed streams."""
