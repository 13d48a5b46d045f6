"""What a model keeps for itself or tells the person: to-do lists, memory, questions, the end."""
