"""HTTP itself: answers, problems, parameters, tokens, what is counted."""
