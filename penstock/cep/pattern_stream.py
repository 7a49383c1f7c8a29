CEP=PatternStream=None
